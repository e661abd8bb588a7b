"""F1 and subset accuracy where an example has any number of labels, from per-label counts.

Shapes: N examples, C labels. gold and predicted are [N, C], true where the example has the label.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertctl.metrics.classification import EMPTY, class_table, macro_f1, micro_f1
from bertctl.metrics.rows import Metric, mean_metric

MACRO_NOTE = "mean over the labels present in gold or predictions"
NO_LABEL = "no example has a label, neither in gold nor in predictions"


def multi_label_metrics(gold: np.ndarray, predicted: np.ndarray) -> dict[str, Metric]:
    """micro_f1, macro_f1 and subset_accuracy (all labels of an example right, and no other).

    Shapes: [N, C] each. Errors: ValueError if they are not two matrices of one shape.
    """
    rows = label_rows(gold, predicted)
    hits, said, true = np.split(rows, 3, axis=1)
    whole = (hits == said).all(axis=1) & (hits == true).all(axis=1)
    return {
        "micro_f1": Metric("micro_f1", rows, micro_f1, NO_LABEL),
        "macro_f1": Metric("macro_f1", rows, macro_f1, NO_LABEL, MACRO_NOTE),
        "subset_accuracy": mean_metric("subset_accuracy", whole, EMPTY),
    }


def label_rows(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Rows [N, 3 C] of uint8, one an example: hits, predicted and gold of each label. Errors: ValueError."""
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.shape != predicted.shape or gold.ndim != 2:
        raise ValueError(f"gold {gold.shape} and predicted {predicted.shape} are not two matrices of one shape")
    gold, predicted = gold.astype(bool), predicted.astype(bool)
    return np.concatenate([gold & predicted, predicted, gold], axis=1).astype(np.uint8)


def per_label(gold: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> list[dict[str, Any]]:
    """A row a label for the report: label, precision, recall, f1 (None if undefined), support, predicted."""
    sums = label_rows(gold, predicted).sum(axis=0, dtype=np.int64)
    return class_table(labels, *np.split(sums, 3))
