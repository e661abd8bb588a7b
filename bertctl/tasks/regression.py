"""A number for a text or a pair: one output of a head on the pooled vector, trained with squared error."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertctl.metrics.regression import regression_metrics
from bertctl.metrics.rows import Metric
from bertctl.tasks.config import DataSection
from bertctl.tasks.scored_pairs import read_scored_table
from bertctl.tasks.tables import Table
from bertctl.tasks.task import Features, Limits, Prediction, TextExample
from bertctl.tasks.text_windows import encode_labelled, mean_over_windows
from bertctl.tasks.texts import find_column, read_texts
from bertctl.tasks.values import number_of
from bertctl.text.tokenizer import Tokenizer

NUMBERS = ("score", "label", "value", "target", "rating", "stars", "relatedness_score", "similarity_score")
SAME = 4  # decimals to which two answers are the same when a run is looked at that may say the same of everything


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a CSV, TSV, JSONL or Parquet file, or of one of the forms of the STS benchmark."""
    return read_rows(read_scored_table(path, data, problems), data, labelled, problems)


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a table; problems if a column is missing, a text is no text or a number no number."""
    column = find_column(table, "label", data.columns.label, NUMBERS, problems) if labelled and table.rows else None

    def answer(row: dict[str, Any], place: str) -> float | None:
        return None if column is None else number_of(row.get(column), place, column, problems)

    return read_texts(table, data, problems, answer)


def finish(
    splits: Mapping[str, list[TextExample]], data: DataSection, problems: list[str]
) -> dict[str, list[TextExample]]:
    """Numbers to learn from must differ: a problem if those of train are all the same, unless there are others."""
    train = splits.get("train", [])
    if train and not problems and len({example.label for example in train}) == 1:
        got = f"the number {train[0].label:g} in all {len(train)} training examples"
        problems.append(f"{train[0].place()}: got {got}, expected numbers that differ")
    return dict(splits)


def labels(examples: Sequence[TextExample]) -> list[str]:
    """Numbers have no names."""
    return []


def gold(example: TextExample) -> list[tuple[str, str]]:
    """(number, place), if there is one."""
    return [] if example.label is None else [(repr(example.label), example.where)]


def truth(example: TextExample) -> float | None:
    """The number."""
    number: float | None = example.label
    return number


def outputs(label_names: Sequence[str]) -> int:
    """One output."""
    return 1


def first_answer(train: Sequence[TextExample]) -> float:
    """The mean of the training targets: what a new head says before it has learnt, so that it need not learn it."""
    return math.fsum(example.label for example in train) / len(train)


def encode(
    examples: Sequence[TextExample], tokenizer: Tokenizer, label_names: Sequence[str], limits: Limits
) -> list[Features]:
    """One feature an example, or one a window, with the number."""
    return encode_labelled(examples, tokenizer, limits, float)


def predictions(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """{"value": number} for each example. Shapes: logits [1] each."""
    return [{"value": values[0]} for values in mean_over_windows(len(examples), features, logits).tolist()]


def majority(
    train: Sequence[TextExample], examples: Sequence[TextExample], label_names: Sequence[str]
) -> tuple[str, list[Prediction]]:
    """The mean of the training targets for everything."""
    mean = first_answer(train)
    return f"{mean:.6g}", [{"value": mean} for _ in examples]


def said(prediction: Prediction) -> list[float]:
    """The number, to a few decimals."""
    return [round(prediction["value"], SAME)]


def score(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """pearson, spearman and mse."""
    return regression_metrics(
        np.array([example.label for example in examples], dtype=np.float64),
        np.array([row["value"] for row in predicted], dtype=np.float64),
    )


def details(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """Smallest, mean and largest of the gold numbers and of the predicted ones."""
    sides = {"gold": [e.label for e in examples], "predicted": [row["value"] for row in predicted]}
    return {"numbers": {name: spread(values) for name, values in sides.items() if values}}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Smallest, mean and largest of some numbers."""
    return {"smallest": min(values), "mean": math.fsum(values) / len(values), "largest": max(values)}
