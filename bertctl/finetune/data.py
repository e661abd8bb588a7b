"""What fine-tuning reads: the labelled data, checked and encoded for one tokenizer."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertctl.console import note, warn
from bertctl.tasks.audit import audit, refuse_truncation, truncation, windows_read
from bertctl.tasks.config import DataSection
from bertctl.tasks.embedding_section import EmbeddingSection
from bertctl.tasks.predicting import Chunk, encode_chunks
from bertctl.tasks.task import Features, Limits, Splits, Task
from bertctl.tasks.texts import pairs_in

NO_PREFIX = EmbeddingSection()
LONG_LABEL_LISTS = 12  # labels named in the note before training


@dataclass(frozen=True)
class TaskData:
    """Splits of one task as features. `scored` is the split that the result is about: test, or dev if there is none;
    `tokenizer` made the features, for a task about images an `ImageProcessor`."""

    task: Task
    tokenizer: Any
    labels: list[str]
    splits: Splits
    train: list[Features]
    dev: list[Chunk]
    test: list[Chunk]
    audit: dict[str, Any]
    truncated: dict[str, dict[str, int]]
    limits: Limits

    @property
    def items(self) -> int:
        """What an epoch holds once and a batch so many of: inputs, or examples whose inputs stay together."""
        return len(self.splits.train if self.task.grouped else self.train)

    @property
    def scored(self) -> str:
        return "test" if self.splits.test else "dev"

    @property
    def noted(self) -> dict[str, Any]:
        """What a checkpoint keeps of how its task reads texts, so that `evaluate` and `predict` read them so too."""
        windows = {"long_text": "windows", "overlap_tokens": self.limits.overlap} if self.limits.windows else {}
        pairs = pairs_in(self.splits.train)
        read = {} if pairs is None else {"pairs": pairs}
        return {"task": self.task.name, "max_length": self.limits.max_length, **read, **windows}

    @property
    def hashes(self) -> dict[str, str]:
        """What a run depends on: the examples with their labels, the vocabulary."""
        return {"data": hash_of(self.task, self.splits), "vocabulary": self.tokenizer.hash}


def hash_of(task: Task, splits: Splits) -> str:
    """SHA-256 of the examples of all splits with their labels, in their order."""
    digest = hashlib.sha256()
    for split, examples in splits.items():
        for example in examples:
            answers = [label for label, _ in task.gold(example)] or task.truth(example)
            digest.update(json.dumps([split, task.key(example), answers]).encode())
    return digest.hexdigest()


def prepare_data(
    task: Task,
    data: DataSection,
    splits: Splits,
    tokenizer: Any,
    *,
    max_length: int,
    labels: list[str],
    known: list[str] | None,
    embedding: EmbeddingSection = NO_PREFIX,
) -> TaskData:
    """Check and encode splits that were read. `labels` are those that there are, in the order of `known` if the
    checkpoint knows them all."""
    windows, prefixes = data.long_text == "windows", (embedding.query_prefix, embedding.passage_prefix)
    limits = Limits(max_length, data.overlap_tokens, windows, *prefixes)
    names = merge_labels(labels, known) if task.classes else []
    return encode_data(task, splits, tokenizer, names, limits, refuse=data.long_text == "refuse")


def encode_data(
    task: Task, splits: Splits, tokenizer: Any, labels: list[str], limits: Limits, *, refuse: bool
) -> TaskData:
    """Encode splits and say what there is to know of them. `refuse`: texts that would be cut are problems."""
    splits = replace(splits, dev=task.scored(splits.dev), test=task.scored(splits.test))
    task = task.fitted(splits.dev)
    features = {
        name: list(encode_chunks(task, examples, tokenizer, labels, limits)) for name, examples in splits.items()
    }
    if refuse:
        for chunk in (chunk for chunks in features.values() for chunk in chunks):
            refuse_truncation(chunk.examples, chunk.features, limits.max_length)
    report = audit(task, splits)
    truncated = {name: add_up([lengths(chunk, limits) for chunk in chunks]) for name, chunks in features.items()}
    tell(task, report, truncated, labels, limits.max_length)
    return TaskData(
        task=task,
        tokenizer=tokenizer,
        labels=labels,
        splits=splits,
        train=[feature for chunk in features["train"] for feature in chunk.features],
        dev=features["dev"],
        test=features.get("test", []),
        audit=report,
        truncated=truncated,
        limits=limits,
    )


def lengths(chunk: Chunk, limits: Limits) -> dict[str, int]:
    """What was cut of the texts of a chunk, and how many windows they take."""
    return {**truncation(chunk.features), **(windows_read(chunk.features) if limits.windows else {})}


def merge_labels(found: list[str], known: list[str] | None) -> list[str]:
    """The order of a model's own labels if it knows all that the data have, else that of the data."""
    return list(known) if known is not None and set(found) <= set(known) else found


def add_up(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Sum of equal keys."""
    return {key: sum(count[key] for count in counts) for key in counts[0]} if counts else {}


def tell(
    task: Task, report: dict[str, Any], truncated: dict[str, dict[str, int]], labels: list[str], max_length: int
) -> None:
    """What there is to know before training: sizes, leaks, contradictions, cut texts, and what guessing scores."""
    sizes = ", ".join(f"{counts['examples']:,} {name}" for name, counts in report["splits"].items())
    listed = ", ".join(labels[:LONG_LABEL_LISTS]) + (", ..." if len(labels) > LONG_LABEL_LISTS else "")
    note(f"{task.name}: {sizes} examples" + (f"; {len(labels)} labels: {listed}" if task.classes else ""))
    for name, leak in report["leakage"].items():
        if leak["folded"]:
            first, second = name.split("-")
            examples = f"{leak['folded']:,} ({leak['exact']:,} exactly)"
            warn(f"leakage: {examples} examples of {second} are in {first}, such as {', '.join(leak['places'][:2])}")
    for name, found in report["contradictions"].items():
        if found["texts"]:
            places = " and ".join(found["places"][0])
            warn(f"{name}: {found['texts']:,} texts occur with different labels, such as {places}")
    for name, counts in truncated.items():
        if counts["truncated"]:
            warn(
                f"{name}: {counts['truncated']:,} of {counts['examples']:,} texts are longer than {max_length} word "
                f"pieces and were cut; {counts['pieces_kept']:,} of {counts['pieces']:,} pieces are kept"
            )
        if counts.get("texts_in_windows"):
            note(
                f"{name}: {counts['texts_in_windows']:,} of {counts['examples']:,} texts are longer than {max_length} "
                f"word pieces; all texts are read in {counts['windows']:,} windows"
            )
    for name, baseline in report["majority_baseline"].items():
        value = baseline.get(task.metric)
        shown = "undefined" if value is None else f"{value:.4f}"
        note(f"{name}: always saying {baseline['label']!r} gives {task.metric} {shown}")
