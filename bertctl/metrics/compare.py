"""Two systems on the same examples: the difference of a metric, its interval, and how often chance does as well.

Shapes: N examples, K statistics, R rounds.
"""

from typing import Any

import numpy as np

from bertctl.metrics.rows import MOST_WEIGHTS, SAMPLES, Metric, bootstrap

ROUNDS = 10_000
ROUNDING = 1e-12  # two differences closer than this are equal


def compare(
    first: Metric, second: Metric, *, samples: int = SAMPLES, rounds: int = ROUNDS, seed: int = 0
) -> dict[str, Any]:
    """first, second, difference (first - second) with low and high, p_value, examples; ready for JSON.

    The interval is a paired bootstrap: each sample draws examples, and both systems are scored on them. Values are
    None where one of the metrics is undefined, with its reason. Errors: ValueError if the two are not one metric on
    equally many examples.
    """
    difference = difference_of(first, second)
    low, high = bootstrap(difference, samples=samples, seed=seed)
    found: dict[str, Any] = {
        "first": first.point(),
        "second": second.point(),
        "difference": difference.point(),
        "low": low,
        "high": high,
        "p_value": randomisation(first, second, rounds=rounds, seed=seed),
        "examples": len(first.rows),
    }
    if found["difference"] is None:
        found["reason"] = first.reason if found["first"] is None else second.reason
    return found


def difference_of(first: Metric, second: Metric) -> Metric:
    """first - second as one metric, whose rows hold those of both."""
    if first.name != second.name or first.rows.shape != second.rows.shape:
        raise ValueError(
            f"got {first.name} {first.rows.shape} and {second.name} {second.rows.shape}, expected one metric and shape"
        )
    width = first.rows.shape[1]
    rows = np.concatenate([first.rows.astype(np.float64), second.rows.astype(np.float64)], axis=1)

    def value(sums: np.ndarray) -> np.ndarray:
        return first.value(sums[..., :width]) - second.value(sums[..., width:])

    return Metric(first.name, rows, value, first.reason if first.point() is None else second.reason)


def randomisation(first: Metric, second: Metric, *, rounds: int = ROUNDS, seed: int = 0) -> float | None:
    """p of a paired randomisation test, two-sided: how often a difference at least as large comes out when the two
    systems' answers to each example are swapped or not by the toss of a coin.

    (1 + hits) / (1 + rounds), hence never 0; rounds in which the metric is undefined do not count. None if it is
    undefined for one of the systems. Source: Yeh, More accurate tests for the statistical significance of result
    differences, COLING 2000.
    """
    difference = difference_of(first, second).point()
    if difference is None:
        return None
    ahead, behind = (metric.rows.astype(np.float64) for metric in (first, second))
    moves, counts = np.unique(behind - ahead, axis=0, return_counts=True)  # equal ones are swapped by number
    generator, at_once = np.random.default_rng(seed), max(1, MOST_WEIGHTS // max(1, len(moves)))
    hits = defined = 0
    for start in range(0, rounds, at_once):
        swapped = generator.binomial(counts, 0.5, size=(min(at_once, rounds - start), len(counts))) @ moves
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.abs(first.value(ahead.sum(axis=0) + swapped) - second.value(behind.sum(axis=0) - swapped))
        defined += int(np.isfinite(found).sum())
        hits += int((found >= abs(difference) - ROUNDING).sum())
    return (1 + hits) / (1 + defined)
