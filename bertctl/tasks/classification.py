"""Classification of one text or a pair: one label each, from a head on the pooled vector."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertctl.errors import raise_problems
from bertctl.metrics.classification import classification_metrics, per_class
from bertctl.metrics.rows import Metric
from bertctl.tasks.config import DataSection
from bertctl.tasks.tables import Table, format_of, read_table
from bertctl.tasks.task import Features, Limits, Prediction, TextExample
from bertctl.tasks.texts import encode_texts, find_column, find_texts, has_header, texts_of
from bertctl.tasks.values import LabelReader, most_frequent, sorted_labels
from bertctl.text.tokenizer import Tokenizer

LABELS = ("label", "labels", "class", "Quality", "gold_label", "entailment_judgment", "category", "is_duplicate")


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a CSV, TSV, JSONL or Parquet file."""
    kind = format_of(path, data.format, otherwise="tsv")
    return read_rows(read_table(path, kind, header=has_header(data), problems=problems), data, labelled, problems)


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a table; problems if a column is missing, a text is no text or a label no label."""
    if not table.rows:
        return []
    text, pair = find_texts(table, data, problems)
    label = find_column(table, "label", data.columns.label, LABELS, problems) if labelled else None
    if text is None or (labelled and label is None):
        return []
    reader = LabelReader(data.label_names or table.class_names.get(label or "", []), problems)
    examples = []
    for line, row in table.rows:
        place = table.place(line)
        first, second = texts_of(row, text, pair, place, problems)
        name = None if label is None else reader.name(row.get(label), place, label)
        examples.append(TextExample(first, second, name, place))
    return examples


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


def input_example(record: str | Mapping[str, Any], data: DataSection, where: str) -> TextExample:
    """A line of text, or an object with the columns of the task, as an example without label."""
    columns = {"text": record} if isinstance(record, str) else dict(record)
    data = DataSection() if isinstance(record, str) else data
    problems: list[str] = []
    found = read_rows(Table(where, list(columns), [(1, columns)]), data, False, problems)
    raise_problems([problem.replace(f"{where}:1:", f"{where}:") for problem in problems])
    return replace(found[0], where=where)


def encode(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    label_names: Sequence[str],
    limits: Limits,
) -> list[Features]:
    """One feature an example, labelled with the number of its label."""
    number = {name: place for place, name in enumerate(label_names)}
    features = encode_texts(examples, tokenizer, limits.max_length)
    for feature, example in zip(features, examples, strict=True):
        feature.labels = None if example.label is None else number[example.label]
    return features


def predictions(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """{"label", "probability", "probabilities": {name: p}} for each example. Shapes: logits [C] each."""
    rows = []
    for values in logits:
        shares = softmax(values)
        best = int(shares.argmax())
        named = {name: float(share) for name, share in zip(label_names, shares, strict=True)}
        rows.append({"label": label_names[best], "probability": float(shares[best]), "probabilities": named})
    return rows


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, float64. Shapes: [..., C] -> [..., C]."""
    shifted = np.asarray(logits, dtype=np.float64)
    raised = np.exp(shifted - shifted.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


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
