"""Whether probabilities mean what they say: expected calibration error, reliability table, log loss and Brier score.

Confidence is the probability of the predicted class. It falls into one of 15 bins of equal width, each without its
lower edge and with its upper one. Shapes: N examples, C classes, M bins.
Source: Guo et al., On Calibration of Modern Neural Networks, arXiv:1706.04599; Naeini et al., AAAI 2015 (ECE).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertctl.metrics.rows import Metric, mean_metric

BINS = 15
EMPTY = "there are no examples"
ZERO = "a gold class has probability 0"
ECE_NOTE = f"{BINS} bins of equal width; resampling spreads the bins, so the interval lies above the value, if anything"
BRIER_NOTE = "summed over classes: from 0 to 2"


def calibration_metrics(
    probabilities: np.ndarray, gold: np.ndarray, said: np.ndarray | None = None
) -> dict[str, Metric]:
    """ece, nll (nats an example) and brier.

    Shapes: probabilities [N, C], gold and said (if not given, the most probable) [N] class numbers. Errors: ValueError
    if they do not fit, or a number is not finite.
    """
    shares, gold = _checked(probabilities, gold)
    right = shares[np.arange(len(gold)), gold]
    brier = ((shares - np.eye(shares.shape[1])[gold]) ** 2).sum(axis=1)
    bins = bin_rows(*confidence_of(shares, gold, said))
    return {
        "ece": ece_metric(bins),
        "nll": mean_metric("nll", losses_of(right), ZERO if len(gold) else EMPTY),
        "brier": mean_metric("brier", brier, EMPTY, BRIER_NOTE),
    }


def confidence_of(
    probabilities: np.ndarray, gold: np.ndarray, said: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(confidence [N], whether the predicted class is the gold one [N]); `said` as in `calibration_metrics`."""
    said = probabilities.argmax(axis=1) if said is None else said
    return probabilities[np.arange(len(said)), said], said == gold


def losses_of(probabilities: np.ndarray) -> np.ndarray:
    """-log p of each, in nats; infinite for 0."""
    with np.errstate(divide="ignore"):
        return -np.log(probabilities)


def bin_rows(confidence: np.ndarray, correct: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Rows [N, 3 M]: each adds 1, its confidence and its correctness to the columns of its bin."""
    confidence = np.asarray(confidence, dtype=np.float64)
    rows = np.zeros((len(confidence), 3, bins))
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    number = np.arange(len(confidence))
    for part, values in enumerate((np.ones_like(confidence), confidence, np.asarray(correct, dtype=np.float64))):
        rows[number, part, place] = values
    return rows.reshape(len(confidence), 3 * bins)


def ece_metric(rows: np.ndarray) -> Metric:
    """Expected calibration error from rows as of `bin_rows`, or from sums of them that belong together."""
    return Metric("ece", rows, expected_calibration_error, EMPTY, ECE_NOTE)


def expected_calibration_error(sums: np.ndarray) -> np.ndarray:
    """Mean over examples of |accuracy - confidence| of their bin. Shapes: [..., 3 M] -> [...]."""
    counts, confidence, correct = np.split(sums, 3, axis=-1)
    return np.abs(correct - confidence).sum(axis=-1) / counts.sum(axis=-1)


def reliability(confidence: np.ndarray, correct: np.ndarray, bins: int = BINS) -> list[dict[str, Any]]:
    """A row a bin: above, up_to, examples, and the mean confidence and accuracy in it (None if it is empty)."""
    counts, said, right = np.split(bin_rows(confidence, correct, bins).sum(axis=0), 3)
    return [
        {
            "above": place / bins,
            "up_to": (place + 1) / bins,
            "examples": int(counts[place]),
            "confidence": float(said[place] / counts[place]) if counts[place] else None,
            "accuracy": float(right[place] / counts[place]) if counts[place] else None,
        }
        for place in range(bins)
    ]


def costliest(losses: Sequence[float] | np.ndarray, wrong: Sequence[bool] | np.ndarray, most: int = 20) -> list[int]:
    """Places of the wrong examples with the highest loss, highest first, equal ones in order; at most `most`."""
    places = np.flatnonzero(np.asarray(wrong, dtype=bool))
    order = np.argsort(-np.asarray(losses, dtype=np.float64)[places], kind="stable")
    return [int(place) for place in places[order[:most]]]


def _checked(probabilities: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shares, gold = np.asarray(probabilities, dtype=np.float64), np.asarray(gold, dtype=np.int64)
    if shares.ndim != 2 or gold.shape != shares.shape[:1]:
        raise ValueError(f"got shapes {shares.shape} and {gold.shape}, expected [N, C] and [N]")
    if len(gold) and (gold.min() < 0 or gold.max() >= shares.shape[1]):
        raise ValueError(f"class numbers from {gold.min()} to {gold.max()} do not fit {shares.shape[1]} classes")
    if not np.isfinite(shares).all():
        raise ValueError("got probabilities that are not finite")
    return shares, gold
