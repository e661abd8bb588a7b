"""A metric as a function of statistic rows, one row an example, so that points and intervals come from the same sums.

Rows add: the point value is `value(sum of rows)`, whatever the batch size or the number of ranks was, and a bootstrap
sample is `value(weights @ rows)`. Shapes: N examples, K statistics, S bootstrap samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SAMPLES = 1000
CONFIDENCE = 0.95
MOST_WEIGHTS = 4_000_000  # weights held at once: 32 MB


@dataclass(frozen=True, eq=False)
class Metric:
    """One number over a set of examples, with what is needed to give it an interval."""

    name: str
    rows: np.ndarray
    """[N, K], any numeric type: what each example adds to the K sums."""
    value: Callable[[np.ndarray], np.ndarray]
    """Sums [..., K] -> values [...]; NaN where the metric is undefined."""
    reason: str
    """Why the metric is undefined where it is, as in `no class has both ...`."""
    note: str = ""
    """A convention that a reader of the number has to know."""

    def point(self) -> float | None:
        """The value over all examples; None if it is undefined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(self.value(self.rows.sum(axis=0, dtype=np.float64)))
        return value if np.isfinite(value) else None

    def summary(self, *, samples: int = SAMPLES, seed: int = 0) -> dict[str, Any]:
        """Value and interval, ready for JSON: value, low, high, examples, and reason or note where there is one."""
        value = self.point()
        low, high = bootstrap(self, samples=samples, seed=seed)
        found: dict[str, Any] = {"value": value, "low": low, "high": high, "examples": len(self.rows)}
        if value is None:
            found["reason"] = self.reason
        if self.note:
            found["note"] = self.note
        return found


def mean_metric(
    name: str, values: np.ndarray, reason: str, note: str = "", *, chosen: np.ndarray | None = None
) -> Metric:
    """The mean of a number an example, over the examples that are `chosen`. Shapes: values, chosen [N]."""
    counted = np.ones(len(values)) if chosen is None else np.asarray(chosen, dtype=np.float64)
    rows = np.stack([np.where(counted > 0, values, 0.0), counted], axis=1)
    return Metric(name, rows, share, reason, note)


def share(sums: np.ndarray) -> np.ndarray:
    """The first statistic over the last. Shapes: [..., K] -> [...]."""
    return sums[..., 0] / sums[..., -1]


def bootstrap(metric: Metric, *, samples: int = SAMPLES, seed: int = 0) -> tuple[float | None, float | None]:
    """The 95% percentile interval of a metric over resampled examples, or (None, None) if it is undefined.

    Drawing N examples with replacement is drawing multinomial weights; equal rows share one weight, which makes the
    interval of a classification metric independent of N and of the order of examples. Samples in which the metric is
    undefined are left out. Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    if metric.point() is None:
        return None, None
    values = sample_values(metric, samples=samples, seed=seed)
    values = values[np.isfinite(values)]
    if not len(values):
        return None, None
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def sample_values(metric: Metric, *, samples: int, seed: int) -> np.ndarray:
    """The metric on each of S bootstrap samples, [S]; NaN where it is undefined."""
    rows, counts = distinct_rows(metric.rows)
    generator = np.random.default_rng(seed)
    total, at_once = int(counts.sum()), max(1, MOST_WEIGHTS // len(rows))
    values = []
    for start in range(0, samples, at_once):
        weights = generator.multinomial(total, counts / total, size=min(at_once, samples - start))
        with np.errstate(divide="ignore", invalid="ignore"):
            values.append(metric.value(weights.astype(np.float64) @ rows))
    return np.concatenate(values)


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every row that occurs, and how often, in an order that does not depend on that of `rows`.

    Compared as bytes: 100,000 rows of 60 bytes take 0.08 s, and 7.5 s with `np.unique(axis=0)`. Shapes: [N, K] ->
    [M, K] float64, [M].
    """
    whole = np.ascontiguousarray(rows)
    as_bytes = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()
    _, first, counts = np.unique(as_bytes, return_index=True, return_counts=True)
    return whole[first].astype(np.float64), counts
