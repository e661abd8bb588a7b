"""What is probed: the words (or whole texts, or images) of each split, their labels, and where in the model's input
they stand.

Shapes: N rows, a row being a word of a token task, else a text or an image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertctl.console import warn
from bertctl.tasks.audit import refuse_truncation, truncation
from bertctl.tasks.config import DataSection
from bertctl.tasks.task import Features, Limits, Task

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """The rows of one split. `places` says for each feature which rows it answers for, and at which positions their
    first pieces stand; no positions: the row is the whole input."""

    features: list[Features]
    places: list[tuple[Ids, Ids | None]]
    labels: Ids
    """[N] class numbers."""
    types: list[str]
    """[N] what two rows share if they are the same word (or text, or image) to the model."""
    examples: Ids
    """[N] the sentence (text, image) that a row belongs to."""

    def __len__(self) -> int:
        return len(self.labels)


def read_words(
    task: Task, examples: Sequence[Any], tokenizer: Any, labels: Sequence[str], *, data: DataSection,
    max_length: int, most: int, seed: int,
) -> Words:  # fmt: skip
    """At most `most` rows from examples drawn by `seed`; all rows of an example but for the last one drawn.

    Sentences longer than the model are read in windows, so that no word is lost. Errors: BertctlError for a text that
    is too long under `long_text: refuse`.
    """
    gold = [[label for label, _ in task.gold(example)] for example in examples]
    drawn = draw([len(row) for row in gold], most, seed)
    chosen = [examples[i] for i in drawn]
    number = {name: place for place, name in enumerate(labels)}
    values = [number[label] for i in drawn for label in gold[i]][:most]
    starts = np.cumsum([0, *(len(gold[i]) for i in drawn)])
    features = task.encode(chosen, tokenizer, labels, Limits(max_length, data.overlap_tokens))
    if data.long_text == "refuse":
        refuse_truncation(chosen, features, max_length)
    say_cut(features, max_length)
    kept = [(feature, _place(feature, starts, most, task.head)) for feature in features]
    kept = [(feature, place) for feature, place in kept if len(place[0])]
    return Words(
        features=[feature for feature, _ in kept],
        places=[place for _, place in kept],
        labels=np.array(values, dtype=np.int64),
        types=[name for example in chosen for name in types_of(task, example, tokenizer.lowercase)][:most],
        examples=np.repeat(np.arange(len(drawn)), np.diff(starts))[:most],
    )


def _place(feature: Features, starts: Ids, most: int, head: str) -> tuple[Ids, Ids | None]:
    """The rows below `most` that a feature answers for, and their positions."""
    if head != "token":
        return np.array([feature.example], dtype=np.int64), None
    rows = starts[feature.example] + np.array(feature.words, dtype=np.int64)
    return rows[rows < most], np.array(feature.positions, dtype=np.int64)[rows < most]


def draw(sizes: Sequence[int], most: int, seed: int) -> list[int]:
    """Examples by seed until they have `most` rows between them; all, in their order, if there are no more."""
    if sum(sizes) <= most:
        return list(range(len(sizes)))
    order = np.random.default_rng(seed).permutation(len(sizes))
    before = np.cumsum(np.array(sizes)[order]) - np.array(sizes)[order]
    return [int(i) for i in order[before < most]]


def types_of(task: Task, example: Any, lowercase: bool) -> list[str]:
    """The words of a sentence, or the text as one, lower-cased for a model that reads no case; an image's digest."""
    names = example.words if task.head == "token" else ("\n".join(task.key(example)),)
    return [name.lower() if lowercase else name for name in names]


def say_cut(features: Sequence[Features], max_length: int) -> None:
    """Warn if texts were longer than the model."""
    cut = truncation(features)
    if cut["truncated"]:
        warn(
            f"{cut['truncated']:,} of {cut['examples']:,} examples hold more than {max_length} word pieces and were "
            f"cut; {cut['pieces_kept']:,} of {cut['pieces']:,} pieces are kept"
        )
