"""One number that logits are divided by, so that probabilities mean what they say; what is predicted stays the same.

The log loss is convex in 1/T, so the temperature is where its slope changes sign. Shapes: N examples, C classes.
Source: Guo et al., On Calibration of Modern Neural Networks, arXiv:1706.04599, section 4.2.
"""

from collections.abc import Callable

import numpy as np

RANGE = 1e-3, 1e3  # of T, in units of the largest logit
STEPS = 100

Slope = Callable[[float], tuple[float, float]]
"""1/T -> the slope of the loss there, and the slope of the slope, which is never negative."""


def fit_temperature(logits: np.ndarray, gold: np.ndarray) -> float | None:
    """The T that makes the log loss of softmax(logits / T) least.

    Shapes: logits [N, C], gold [N] class numbers. None where no T does: the gold class is the likeliest of every
    example, so that ever smaller ones are better, or the logits say less than chance, so that ever larger ones are.
    Errors: ValueError if the shapes do not fit or a logit is not finite.
    """
    logits, gold = _finite(logits), np.asarray(gold, dtype=np.int64)
    if logits.ndim != 2 or gold.shape != logits.shape[:1]:
        raise ValueError(f"got shapes {logits.shape} and {gold.shape}, expected [N, C] and [N]")
    logits, unit = in_units(logits)
    right = logits[np.arange(len(gold)), gold]

    def slope(sharpness: float) -> tuple[float, float]:
        shares = softmax(logits * sharpness)
        mean = (shares * logits).sum(axis=1)
        variance = (shares * (logits - mean[:, None]) ** 2).sum()
        return float((mean - right).sum()), float(variance)

    return where_flat(slope, unit)


def fit_sigmoid_temperature(logits: np.ndarray, gold: np.ndarray) -> float | None:
    """The same for sigmoid(logits / T), every entry a decision of its own.

    Shapes: logits and gold [N, C], gold true or false. None and errors: as `fit_temperature`.
    """
    logits, gold = _finite(logits), np.asarray(gold, dtype=np.float64)
    if gold.shape != logits.shape:
        raise ValueError(f"got shapes {logits.shape} and {gold.shape}, expected two of one shape")
    logits, unit = in_units(logits)

    def slope(sharpness: float) -> tuple[float, float]:
        shares = sigmoid(logits * sharpness)
        return float(((shares - gold) * logits).sum()), float((shares * (1 - shares) * logits**2).sum())

    return where_flat(slope, unit)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, float64. Shapes: [..., C] -> [..., C]."""
    shifted = np.asarray(logits, dtype=np.float64)
    raised = np.exp(shifted - shifted.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) of each, float64, without overflow."""
    logits = np.asarray(logits, dtype=np.float64)
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


def in_units(logits: np.ndarray) -> tuple[np.ndarray, float]:
    """Logits between -1 and 1, and what they were divided by."""
    unit = float(np.abs(logits).max(initial=0.0)) or 1.0
    return logits / unit, unit


def where_flat(slope: Slope, unit: float) -> float | None:
    """T with slope 0, by Newton's steps in log T that may not leave the bracket; halving where one would."""
    low, high = -np.log(RANGE[1]), -np.log(RANGE[0])
    if not slope(np.exp(low))[0] < 0 < slope(np.exp(high))[0]:
        return None
    place = 0.0
    for _ in range(STEPS):
        value, rise = slope(np.exp(place))
        low, high = (place, high) if value < 0 else (low, place)
        step = -value / (rise * np.exp(place)) if rise > 0 else np.inf
        following = place + step if low < place + step < high else (low + high) / 2
        if abs(following - place) < 1e-12:
            break
        place = following
    return float(unit * np.exp(-place))


def _finite(logits: np.ndarray) -> np.ndarray:
    logits = np.asarray(logits, dtype=np.float64)
    if not np.isfinite(logits).all():
        raise ValueError("got logits that are not finite")
    return logits
