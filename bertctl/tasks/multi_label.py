"""Any number of labels for a text or a pair: each is decided by itself, from a head on the pooled vector.

A label applies where its probability reaches the threshold. That, and the temperature that makes probabilities mean
what they say, are found on dev and saved in the checkpoint.
Shapes: N examples, C labels.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertctl.metrics.multi_label import multi_label_metrics, per_label
from bertctl.metrics.rows import Metric
from bertctl.metrics.temperature import fit_sigmoid_temperature, sigmoid
from bertctl.tasks.classification import TEMPERATURE
from bertctl.tasks.config import DataSection
from bertctl.tasks.tables import Table, format_of, json_kind, read_table
from bertctl.tasks.task import Features, Limits, Prediction, TextExample
from bertctl.tasks.text_windows import encode_labelled, mean_over_windows
from bertctl.tasks.texts import find_column, has_header, read_texts
from bertctl.tasks.thresholds import best_threshold, best_thresholds
from bertctl.tasks.values import LabelReader, shown, sorted_labels
from bertctl.text.tokenizer import Tokenizer

LABELS = ("labels", "label", "classes", "categories", "tags")
UNTUNED = 0.5
SWITCHES = {"0": False, "1": True}

Answer = Callable[[dict[str, Any], str], tuple[str, ...] | None]


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a CSV, TSV, JSONL or Parquet file."""
    kind = format_of(path, data.format, otherwise="tsv")
    return read_rows(read_table(path, kind, header=has_header(data), problems=problems), data, labelled, problems)


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[TextExample]:
    """The examples of a table. Their labels stand in one cell, as a list or parted by `label_separator`, or are
    columns of 0 and 1. No label at all is an answer like any other."""
    find = _listed if not data.columns.labels else _switched
    return read_texts(table, data, problems, find(table, data, problems) if labelled and table.rows else _none)


def _none(row: dict[str, Any], place: str) -> None:
    return None


def _listed(table: Table, data: DataSection, problems: list[str]) -> Answer:
    column = find_column(table, "label", data.columns.label, LABELS, problems)
    if column is None:
        return _none
    reader = LabelReader(data.label_names or table.class_names.get(column, []), problems)

    def answer(row: dict[str, Any], place: str) -> tuple[str, ...]:
        cells = _cells(row.get(column), data.label_separator, place, column, problems)
        return _distinct([reader.name(cell, place, column) for cell in cells], place, problems)

    return answer


def _cells(value: Any, separator: str | None, place: str, column: str, problems: list[str]) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, str) and separator is not None:
        return [part.strip() for part in value.split(separator)] if value.strip() else []
    expected = "a list of labels" + (", or `data.label_separator` to part a text" if isinstance(value, str) else "")
    problems.append(f"{place}: got {json_kind(value)} in the column {column!r}, expected {expected}")
    return []


def _distinct(names: list[str], place: str, problems: list[str]) -> tuple[str, ...]:
    problems.extend(
        f"{place}: got the label {name!r} {count} times, expected each once"
        for name, count in Counter(names).items()
        if count > 1 and name
    )
    return tuple(sorted(set(names)))


def _switched(table: Table, data: DataSection, problems: list[str]) -> Answer:
    found = [find_column(table, "labels", wanted, (), problems) for wanted in data.columns.labels]
    columns = [column for column in found if column is not None]
    if len(columns) < len(found):
        return _none
    names = data.label_names or columns
    if len(names) != len(columns):
        problems.append(f"label_names: got {len(names)} names, expected one for each of {len(found)} `columns.labels`")
        return _none

    def answer(row: dict[str, Any], place: str) -> tuple[str, ...]:
        switches = [_is_on(row.get(column), place, column, problems) for column in columns]
        return tuple(sorted(name for name, on in zip(names, switches, strict=True) if on))

    return answer


def _is_on(value: Any, place: str, column: str, problems: list[str]) -> bool:
    if value in (0, 1) or value in SWITCHES:  # true and false, and 1.0, are equal to them
        return SWITCHES.get(value, value == 1)
    got = shown(value) if isinstance(value, (str, int, float)) else json_kind(value)
    problems.append(f"{place}: got {got} in the column {column!r}, expected 0 or 1")
    return False


def labels(examples: Sequence[TextExample]) -> list[str]:
    """Every label of the training examples, in the order of their numbers."""
    return sorted_labels({name for example in examples for name in example.label or ()})


def gold(example: TextExample) -> list[tuple[str, str]]:
    """(label, place) of every label."""
    return [(name, example.where) for name in example.label or ()]


def truth(example: TextExample) -> list[str] | None:
    """The labels."""
    return None if example.label is None else list(example.label)


def encode(
    examples: Sequence[TextExample], tokenizer: Tokenizer, label_names: Sequence[str], limits: Limits
) -> list[Features]:
    """One feature an example, or one a window, with 1.0 for each label that applies and 0.0 for the others."""

    def targets(given: tuple[str, ...]) -> list[float]:
        return [float(name in given) for name in label_names]

    return encode_labelled(examples, tokenizer, limits, targets)


def tune(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
) -> dict[str, Any]:
    """{"threshold": t}: the one for all labels with the best micro-F1 on these examples; and a "temperature"."""
    settings, gold, shares = calibrated(examples, features, logits, label_names)
    return settings | {"threshold": best_threshold(gold, shares)}


def tune_each(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
) -> dict[str, Any]:
    """{"thresholds": {label: t}}: those with the best micro-F1 together on these examples; and a "temperature"."""
    settings, gold, shares = calibrated(examples, features, logits, label_names)
    return settings | {"thresholds": dict(zip(label_names, best_thresholds(gold, shares), strict=True))}


def calibrated(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """({"temperature": T} with the least log loss over all labels, {} if there is none; gold [N, C] bool;
    probabilities [N, C] at that temperature)."""
    gold = _matrix([example.label for example in examples], label_names)
    means = mean_over_windows(len(examples), features, logits)
    found = fit_sigmoid_temperature(means, gold) if len(examples) else None
    settings = {} if found is None else {TEMPERATURE: found}
    return settings, gold, sigmoid(means / settings.get(TEMPERATURE, 1.0))


def predictions(
    examples: Sequence[TextExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """{"labels": [name], "probabilities": {name: p}} for each example, from the sigmoids of logits over the
    `temperature`. Shapes: logits [C] each."""
    each = settings.get("thresholds") or dict.fromkeys(label_names, settings.get("threshold", UNTUNED))
    rows = []
    means = mean_over_windows(len(examples), features, logits)
    for shares in sigmoid(means / settings.get(TEMPERATURE, 1.0)).tolist():
        named = dict(zip(label_names, shares, strict=True))
        rows.append({"labels": [name for name, p in named.items() if p >= each[name]], "probabilities": named})
    return rows


def majority(
    train: Sequence[TextExample], examples: Sequence[TextExample], label_names: Sequence[str]
) -> tuple[str, list[Prediction]]:
    """The most frequent labels of train, as many as score best there by micro-F1 when they are said of everything."""
    counts = Counter(name for example in train for name in example.label or ())
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    total = sum(counts.values())

    def micro_f1(said: int) -> float:
        return 2 * sum(counts[name] for name in ranked[:said]) / (said * len(train) + total)

    best = ranked[: max(range(1, len(ranked) + 1), key=micro_f1, default=0)]
    return ", ".join(best), [{"labels": best} for _ in examples]


def said(prediction: Prediction) -> list[tuple[str, ...]]:
    """The labels, as one answer."""
    return [tuple(prediction["labels"])]


def score(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """micro_f1, macro_f1 and subset_accuracy."""
    return multi_label_metrics(*_both(examples, predicted, label_names))


def details(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """per_class: precision, recall, f1 and support of every label."""
    return {"per_class": per_label(*_both(examples, predicted, label_names), label_names)}


def _both(
    examples: Sequence[TextExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    return (
        _matrix([example.label for example in examples], label_names),
        _matrix([row["labels"] for row in predicted], label_names),
    )


def _matrix(rows: Sequence[Sequence[str] | None], label_names: Sequence[str]) -> np.ndarray:
    """[N, C] bool."""
    return np.array([[name in (row or ()) for name in label_names] for row in rows], bool).reshape(-1, len(label_names))
