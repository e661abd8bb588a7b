"""Classification of one text or a pair: one label each, from a head on the pooled vector."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertctl.metrics.classification import classification_metrics, per_class
from bertctl.metrics.rows import Metric
from bertctl.metrics.temperature import fit_temperature, softmax
from bertctl.tasks.config import DataSection
from bertctl.tasks.tables import Table, format_of, read_table
from bertctl.tasks.task import Features, Limits, Prediction, TextExample
from bertctl.tasks.text_windows import encode_labelled, mean_over_windows
from bertctl.tasks.texts import find_column, has_header, read_texts
from bertctl.tasks.values import LabelReader, most_frequent, sorted_labels
from bertctl.text.tokenizer import Tokenizer

LABELS = ("label", "labels", "class", "Quality", "gold_label", "entailment_judgment", "category", "is_duplicate")

TEMPERATURE = "temperature"


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a CSV, TSV, JSONL or Parquet file."""
    kind = format_of(path, data.format, otherwise="tsv")
    return read_rows(read_table(path, kind, header=has_header(data), problems=problems), data, labelled, problems)


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a table; problems if a column is missing, a text is no text or a label no label."""
    label = find_column(table, "label", data.columns.label, LABELS, problems) if labelled and table.rows else None
    reader = LabelReader(data.label_names or table.class_names.get(label or "", []), problems)

    def answer(row: dict[str, Any], place: str) -> str | None:
        return None if label is None else reader.name(row.get(label), place, label)

    return read_texts(table, data, problems, answer)


def finish(
    splits: Mapping[str, list[TextExample]], data: DataSection, problems: list[str]
) -> dict[str, list[TextExample]]:
    """Nothing is left to find out."""
    return dict(splits)


def labels(examples: Sequence[TextExample]) -> list[str]:
    """The label names of the training examples, in the order of their numbers."""
    return sorted_labels({example.label for example in examples if example.label is not None})


def gold(example: TextExample) -> list[tuple[str, str]]:
    """(label, place), if there is a label."""
    return [] if example.label is None else [(example.label, example.where)]


def truth(example: TextExample) -> str | None:
    """The label."""
    return example.label


def encode(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    label_names: Sequence[str],
    limits: Limits,
) -> list[Features]:
    """One feature an example, or one a window, labelled with the number of the label."""
    number = {name: place for place, name in enumerate(label_names)}
    return encode_labelled(examples, tokenizer, limits, number.__getitem__)


def tune(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
) -> dict[str, Any]:
    """{"temperature"}: the one that makes the log loss on dev least, so that probabilities mean what they say; {} if
    none does, as where dev has no mistake. What is predicted stays the same."""
    number = {name: place for place, name in enumerate(label_names)}
    gold = np.array([number[example.label] for example in examples], dtype=np.int64)
    found = fit_temperature(mean_over_windows(len(examples), features, logits), gold) if len(gold) else None
    return {} if found is None else {TEMPERATURE: found}


def predictions(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """{"label", "probability", "probabilities": {name: p}} for each example, from logits over the `temperature`.

    Shapes: logits [C] each.
    """
    rows = []
    for values in mean_over_windows(len(examples), features, logits):
        shares = softmax(values / settings.get(TEMPERATURE, 1.0))
        best = int(shares.argmax())
        named = {name: float(share) for name, share in zip(label_names, shares, strict=True)}
        rows.append({"label": label_names[best], "probability": float(shares[best]), "probabilities": named})
    return rows


def majority(
    train: Sequence[TextExample], examples: Sequence[TextExample], label_names: Sequence[str]
) -> tuple[str, list[Prediction]]:
    """The most frequent label of train for everything."""
    label = most_frequent(example.label for example in train)
    return label, [{"label": label} for _ in examples]


def said(prediction: Prediction) -> list[str]:
    """The label."""
    return [prediction["label"]]


def score(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """accuracy, macro_f1, micro_f1 and mcc."""
    return classification_metrics(*_numbers(examples, predicted, label_names), len(label_names))


def details(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """per_class: precision, recall, f1 and support of every label."""
    return {"per_class": per_class(*_numbers(examples, predicted, label_names), label_names)}


def _numbers(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    number = {name: place for place, name in enumerate(label_names)}
    pairs = [(number[e.label or ""], number[p["label"]]) for e, p in zip(examples, predicted, strict=True)]
    truth, guess = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return truth, guess
