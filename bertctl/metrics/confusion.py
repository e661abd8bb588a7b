"""Which class is taken for which. Shapes: N items, C classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def confusion_matrix(gold: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Counts [C, C]: row = gold class, column = predicted class. Shapes: gold, predicted [N] class numbers.

    Errors: ValueError on different lengths or numbers outside 0..C-1.
    """
    gold, predicted = np.asarray(gold, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if gold.shape != predicted.shape or gold.ndim != 1:
        raise ValueError(f"gold {gold.shape} and predicted {predicted.shape} are not two lists of one length")
    both = np.concatenate([gold, predicted])
    if len(both) and (both.min() < 0 or both.max() >= classes):
        raise ValueError(f"class numbers from {both.min()} to {both.max()} do not fit {classes} classes")
    return np.bincount(gold * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """{"labels": [...], "counts": [[...]]}: counts[i][j] items of label i were said to be label j; ready for JSON.

    Names outside `labels` get rows and columns after them, in order of their names.
    """
    names = [*labels, *sorted({*gold, *predicted} - set(labels))]
    number = {name: place for place, name in enumerate(names)}
    rows = confusion_matrix(
        np.array([number[name] for name in gold], dtype=np.int64),
        np.array([number[name] for name in predicted], dtype=np.int64),
        len(names),
    )
    return {"labels": names, "counts": rows.tolist()}
