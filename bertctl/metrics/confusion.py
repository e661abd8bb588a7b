"""Which class is taken for which. Shapes: N items, C classes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_LABELS = 100
MOST_MISTAKES = 20


def confusion_matrix(gold: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Counts [C, C]: row = gold class, column = predicted class. Shapes: gold, predicted [N] class numbers.

    Errors: ValueError on different lengths or numbers outside 0..C-1.
    """
    gold, predicted = class_numbers(gold, predicted, classes)
    return np.bincount(gold * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def class_numbers(gold: np.ndarray, predicted: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Both as int64. Errors: ValueError on different lengths or numbers outside 0..C-1."""
    gold, predicted = np.asarray(gold, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if gold.shape != predicted.shape or gold.ndim != 1:
        raise ValueError(f"gold {gold.shape} and predicted {predicted.shape} are not two lists of one length")
    both = np.concatenate([gold, predicted])
    if len(both) and (both.min() < 0 or both.max() >= classes):
        raise ValueError(f"class numbers from {both.min()} to {both.max()} do not fit {classes} classes")
    return gold, predicted


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """labels, counts and mistaken, ready for JSON.

    counts[i][j] items of label i were said to be label j; left out (None) for more than 100 labels. mistaken: the 20
    most frequent mistakes, as gold, predicted, count. Names outside `labels` come after them, in order of their names.
    """
    names = [*labels, *sorted({*gold, *predicted} - set(labels))]
    number = {name: place for place, name in enumerate(names)}
    pairs = Counter(pair for pair in zip(gold, predicted, strict=True) if pair[0] != pair[1])
    mistaken = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:MOST_MISTAKES]
    counts = None
    if len(names) <= MOST_LABELS:
        truth, said = (np.array([number[name] for name in side], dtype=np.int64) for side in (gold, predicted))
        counts = confusion_matrix(truth, said, len(names)).tolist()
    return {
        "labels": names,
        "counts": counts,
        "mistaken": [{"gold": pair[0], "predicted": pair[1], "count": pairs[pair]} for pair in mistaken],
    }
