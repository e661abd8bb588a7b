"""Two systems on the same examples: the difference of a metric, its interval, and how often chance does as well.

Shapes: N examples, K statistics, R rounds.
"""

from typing import Any

import numpy as np

from bertctl.metrics.rows import MOST_WEIGHTS, SAMPLES, Metric, bootstrap, distinct_rows

ROUNDS = 10_000
ROUNDING = 1e-12  # two differences closer than this, in units of the larger value, are equal


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
    check_pair(first, second)
    width = first.rows.shape[1]
    rows = np.concatenate([first.rows, second.rows], axis=1)

    def value(sums: np.ndarray) -> np.ndarray:
        return first.value(sums[..., :width]) - second.value(sums[..., width:])

    return Metric(first.name, rows, value, first.reason if first.point() is None else second.reason)


def check_pair(first: Metric, second: Metric) -> None:
    """Errors: ValueError if the two are not one metric on equally many examples."""
    if first.name != second.name or first.rows.shape != second.rows.shape:
        raise ValueError(
            f"got {first.name} {first.rows.shape} and {second.name} {second.rows.shape}, expected one metric and shape"
        )


def randomisation(first: Metric, second: Metric, *, rounds: int = ROUNDS, seed: int = 0) -> float | None:
    """p of a paired randomisation test, two-sided: how often a difference at least as large comes out when the two
    systems' answers to each example are swapped or not by the toss of a coin.

    (1 + hits) / (1 + rounds), hence never 0; rounds in which the metric is undefined do not count. None if it is
    undefined for one of the systems. Source: Yeh, More accurate tests for the statistical significance of result
    differences, COLING 2000.
    """
    check_pair(first, second)
    one, two = first.point(), second.point()
    if one is None or two is None:
        return None
    least = abs(one - two) - ROUNDING * max(abs(one), abs(two))
    rows, counts = distinct_rows(np.concatenate([first.rows, second.rows], axis=1))
    ahead, behind = np.split(rows, 2, axis=1)
    moves, sums = behind - ahead, [counts @ side for side in (ahead, behind)]
    moved = moves.any(axis=1)
    moves, counts = moves[moved], counts[moved]
    generator, at_once = np.random.default_rng(seed), max(1, MOST_WEIGHTS // max(1, len(moves)))
    hits = defined = 0
    for start in range(0, rounds, at_once):
        swapped = heads(generator, counts, min(at_once, rounds - start)) @ moves
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.abs(first.value(sums[0] + swapped) - second.value(sums[1] - swapped))
        defined += int(np.isfinite(found).sum())
        hits += int((found >= least).sum())
    return (1 + hits) / (1 + defined)


def heads(generator: np.random.Generator, counts: np.ndarray, rounds: int) -> np.ndarray:
    """How many of each [M] number of tossed coins show heads, in each round: [R, M] float64. A single coin is a random
    bit, which takes a quarter of the time of a binomial draw."""
    found = np.empty((rounds, len(counts)))
    single = counts == 1
    bits = np.frombuffer(generator.bytes(-(-rounds * int(single.sum()) // 8)), dtype=np.uint8)
    found[:, single] = np.unpackbits(bits)[: rounds * int(single.sum())].reshape(rounds, -1)
    found[:, ~single] = generator.binomial(counts[~single], 0.5, size=(rounds, int((~single).sum())))
    return found
