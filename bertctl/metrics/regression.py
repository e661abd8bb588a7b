"""Pearson, Spearman and mean squared error of predicted numbers, as sums over examples.

The correlations are sums of products of standardised values. Each list is standardised by itself: a correlation does
not know offset and scale, so that two systems whose numbers have different scales can be compared and swapped.
"""

import numpy as np

from bertctl.metrics.rows import Metric, mean_metric

EMPTY = "there are no examples"
UNDEFINED = "a correlation needs at least two examples and two lists that are not constant"
TOO_LARGE = "the squared errors are too large for a number"
RANK_NOTE = "ranks are taken once over all examples; the interval resamples pairs of ranks"
NO_SPREAD = 1e-12  # share of the squares that is left of a constant list when rounding is all there is


def regression_metrics(gold: np.ndarray, predicted: np.ndarray) -> dict[str, Metric]:
    """pearson, spearman and mse (mean squared error, in squared units of the gold numbers).

    Shapes: [N] each. Errors: ValueError on different lengths or values that are not finite.
    """
    gold, predicted = two_lists(gold, predicted)
    with np.errstate(over="ignore"):
        squares = (predicted - gold) ** 2
    return {
        "pearson": correlation_metric("pearson", gold, predicted),
        "spearman": correlation_metric("spearman", mean_ranks(gold), mean_ranks(predicted), RANK_NOTE),
        "mse": mean_metric("mse", squares, TOO_LARGE if len(gold) else EMPTY),
    }


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values sharing the mean of their ranks. Shapes: [N] -> [N] float64."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def two_lists(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64. Errors: ValueError on different lengths or values that are not finite."""
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:  # (N, 1) against (N,) would broadcast to N x N in silence
        raise ValueError(f"got shapes {first.shape} and {second.shape}, expected two lists of one length")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("got values that are not finite")
    return first, second


def correlation_metric(name: str, first: np.ndarray, second: np.ndarray, note: str = "") -> Metric:
    """Pearson's r of two lists [N] of numbers or of ranks; undefined where one of them is constant."""
    a, b = standardised(first), standardised(second)
    return Metric(name, np.stack([np.ones_like(a), a, b, a * a, b * b, a * b], axis=1), correlation, UNDEFINED, note)


def standardised(values: np.ndarray) -> np.ndarray:
    """Mean 0, mean square 1; zeros if the values are all the same. Shapes: [N] -> [N] float64."""
    values = np.asarray(values, dtype=np.float64)
    if not len(values) or values.min() == values.max():
        return np.zeros(len(values))
    _, exponent = np.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -exponent)  # exact; squares of very large and very small values stay finite
    centred = scaled - scaled.mean()
    centred /= np.abs(centred).max()
    return centred / np.sqrt((centred**2).mean())


def correlation(sums: np.ndarray) -> np.ndarray:
    """Pearson's r from sums of 1, a, b, aa, bb, ab. Shapes: [..., 6] -> [...]; NaN where a or b does not vary."""
    number, a, b, aa, bb, ab = np.moveaxis(sums, -1, 0)
    spread_a, spread_b = aa - a * a / number, bb - b * b / number
    varies = (spread_a > NO_SPREAD * aa) & (spread_b > NO_SPREAD * bb)
    return np.where(varies, np.clip((ab - a * b / number) / np.sqrt(spread_a * spread_b), -1.0, 1.0), np.nan)
