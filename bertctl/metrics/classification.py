"""Accuracy, F1 and Matthews' correlation of one label an example, from per-class counts.

A row holds, for each of the C classes, whether the example is a hit of it, predicted as it, and gold: K = 3 C.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertctl.metrics.confusion import class_numbers
from bertctl.metrics.rows import Metric

EMPTY = "there are no examples"
MACRO_NOTE = "mean over the classes present in gold labels or predictions"


def count_rows(gold: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Rows [N, 3 C] of uint8: hits, predicted, gold.

    Shapes: gold, predicted [N] class numbers. Errors: ValueError on different lengths or numbers outside 0..C-1.
    """
    gold, predicted = class_numbers(gold, predicted, classes)
    number = np.arange(classes)
    is_predicted, is_gold = predicted[:, None] == number, gold[:, None] == number
    return np.concatenate([is_predicted & is_gold, is_predicted, is_gold], axis=1).astype(np.uint8)


def classification_metrics(gold: np.ndarray, predicted: np.ndarray, classes: int) -> dict[str, Metric]:
    """accuracy, macro_f1, micro_f1 and mcc of N examples (class numbers, [N] each)."""
    rows = count_rows(gold, predicted, classes)
    one_class = EMPTY if not len(rows) else "the gold labels are all of one class"
    return {
        "accuracy": Metric("accuracy", rows, accuracy, EMPTY),
        "macro_f1": Metric("macro_f1", rows, macro_f1, EMPTY, MACRO_NOTE),
        "micro_f1": Metric("micro_f1", rows, micro_f1, EMPTY),
        "mcc": Metric("mcc", rows, matthews_correlation, one_class),
    }


def accuracy(sums: np.ndarray) -> np.ndarray:
    """Hits over examples. Shapes: sums [..., 3 C] -> [...]."""
    hits, _, gold = np.split(sums, 3, axis=-1)
    return hits.sum(axis=-1) / gold.sum(axis=-1)


def class_f1(sums: np.ndarray) -> np.ndarray:
    """F1 of each class, [..., 3 C] -> [..., C]; NaN for a class that is neither in gold nor predicted."""
    hits, predicted, gold = np.split(sums, 3, axis=-1)
    return 2 * hits / (predicted + gold)


def macro_f1(sums: np.ndarray) -> np.ndarray:
    """Mean F1 over the classes that occur in gold or predictions, [..., 3 C] -> [...]."""
    scores = class_f1(sums)
    present = np.isfinite(scores)
    return np.where(present, scores, 0.0).sum(axis=-1) / present.sum(axis=-1)


def micro_f1(sums: np.ndarray) -> np.ndarray:
    """F1 of the pooled counts, [..., 3 C] -> [...]; equals accuracy when every example has one label."""
    hits, predicted, gold = (part.sum(axis=-1) for part in np.split(sums, 3, axis=-1))
    return 2 * hits / (predicted + gold)


def matthews_correlation(sums: np.ndarray) -> np.ndarray:
    """R_K for any number of classes, [..., 3 C] -> [...]; NaN if gold has one class, 0 if only the predictions have.

    Source: Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient, 2004.
    """
    hits, predicted, gold = np.split(sums, 3, axis=-1)
    examples = gold.sum(axis=-1)
    covariance = hits.sum(axis=-1) * examples - (predicted * gold).sum(axis=-1)
    spread_gold = examples**2 - (gold**2).sum(axis=-1)
    spread_predicted = examples**2 - (predicted**2).sum(axis=-1)
    correlation = covariance / np.sqrt(spread_gold * spread_predicted)
    return np.where(spread_gold == 0, np.nan, np.where(spread_predicted == 0, 0.0, correlation))


def per_class(gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> list[dict[str, Any]]:
    """A row a class for the report: label, precision, recall, f1 (None if undefined), support, predicted."""
    sums = count_rows(gold, predicted, len(labels)).sum(axis=0, dtype=np.int64)
    return class_table(labels, *np.split(sums, 3))


def class_table(
    labels: Sequence[str], hits: np.ndarray, predicted: np.ndarray, gold: np.ndarray
) -> list[dict[str, Any]]:
    """The same from counts [C] each; `support` is the number of gold items."""
    return [
        {
            "label": label,
            "precision": _share(h, p),
            "recall": _share(h, g),
            "f1": _share(2 * h, p + g),
            "support": int(g),
            "predicted": int(p),
        }
        for label, h, p, g in zip(labels, hits, predicted, gold, strict=True)
    ]


def _share(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None
