"""Correlations of two lists of numbers; None where one of them is constant, which leaves a correlation undefined."""

import numpy as np

UNDEFINED = "a correlation needs at least two examples and two lists that are not constant"


def pearson(first: np.ndarray, second: np.ndarray) -> float | None:
    """Pearson's r. Shapes: [N] each. Errors: ValueError on different lengths or values that are not finite."""
    first, second = two_lists(first, second)
    if len(first) < 2 or first.min() == first.max() or second.min() == second.max():
        return None
    a, b = (values - values.mean() for values in (first, second))
    a, b = (values / np.abs(values).max() for values in (a, b))  # squares of very small or large values stay finite
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's rho: Pearson's r of the ranks, ties sharing their mean rank. Shapes and errors: as `pearson`."""
    first, second = two_lists(first, second)
    return pearson(mean_ranks(first), mean_ranks(second))


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
