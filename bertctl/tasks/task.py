"""What a task is: a row of functions, and the examples and features that pass between them.

A task reads records, knows its labels, turns examples into model inputs, logits into predictions, and predictions into
metrics. It knows no model and no trainer. The tasks themselves stand in `table.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bertctl.metrics.rows import Metric
from bertctl.tasks.config import DataSection
from bertctl.text.tokenizer import Tokenizer

IGNORED = -100  # the label of a position that has no loss


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text or a pair with its label; None where nothing is known."""

    text: str
    pair: str | None
    label: str | None
    where: str
    """`file:line` of the record."""

    def place(self) -> str:
        """`file:line` of the record."""
        return self.where


@dataclass(frozen=True, slots=True)
class TokenExample:
    """The words of a sentence with a tag each; None where nothing is known."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    file: str
    lines: tuple[int, ...]
    """The line of each word."""
    scheme: str = "none"
    """How the tags mark entities, found over the whole data set."""

    def place(self, word: int = 0) -> str:
        """`file:line` of a word."""
        return f"{self.file}:{self.lines[word]}" if self.lines else self.file


Example = TextExample | TokenExample
Prediction = dict[str, Any]


@dataclass(slots=True)
class Features:
    """One model input; a long sentence has several.

    `labels`: a class number, a number a position (-100: no loss), or None without gold labels. `words` and `positions`
    (token labels): the words that this window answers for, and the position of the first piece of each.
    """

    input_ids: list[int]
    token_type_ids: list[int]
    labels: int | list[int] | None
    example: int
    pieces: int
    """Word pieces of the text before anything was cut."""
    cut: int = 0
    """Word pieces that were cut off."""
    words: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Splits:
    """Examples by split, in file order; each may be empty. `notes` say what was decided on the way."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    notes: tuple[str, ...] = ()

    def items(self) -> list[tuple[str, list[Any]]]:
        """(name, examples) of the splits that have any."""
        return [(name, split) for name, split in vars(self).items() if name != "notes" and split]


@dataclass(frozen=True)
class Task:
    """One task. E stands for its kind of example, predictions are JSON-able dicts, one an example, in input order."""

    name: str
    head: str
    """Key of the model's head: sequence (one label a text) or token (one label a word)."""
    metric: str
    """The metric that picks the best checkpoint; higher is better."""
    read_file: Callable[[Path, DataSection, bool, list[str]], list[Any]]
    """(file, data, labelled, problems) -> examples; appends to problems what is wrong, as `file:line: ...`."""
    read_table: Callable[..., list[Any]]
    """(table, data, labelled, problems) -> examples, for records that come from elsewhere than a file."""
    demo: Callable[[DataSection], Splits]
    """The task's examples of `python_docs`."""
    finish: Callable[[Mapping[str, list[Any]], DataSection, list[str]], dict[str, list[Any]]]
    """What can be said only when all splits are known: label kinds, tag schemes. Appends to problems."""
    labels: Callable[[Sequence[Any]], list[str]]
    """Training examples -> label names in the order of their numbers."""
    gold: Callable[[Any], list[tuple[str, str]]]
    """Example -> (label, `file:line`) of everything in it that is labelled."""
    key: Callable[[Any], tuple[str, ...]]
    """Example -> its input text, for finding repeats."""
    input: Callable[[str | Mapping[str, Any], DataSection, str], Any]
    """(line of text or record, data, where) -> an example without label, for `predict`. Errors: BertctlError."""
    encode: Callable[[Sequence[Any], Tokenizer, Sequence[str], int, int | None], list[Features]]
    """(examples, tokenizer, labels, max_length, overlap) -> features, those of one example next to each other."""
    predictions: Callable[[Sequence[Any], Sequence[Features], Sequence[np.ndarray], Sequence[str]], list[Prediction]]
    """(examples, features, logits a feature: [C] or [T, C], labels) -> predictions."""
    constant: Callable[[Sequence[Any], str], list[Prediction]]
    """(examples, label) -> predictions of somebody who always says `label`: the majority baseline."""
    score: Callable[[Sequence[Any], Sequence[Prediction], Sequence[str]], dict[str, Metric]]
    """(labelled examples, predictions, labels) -> metrics by name."""
    details: Callable[[Sequence[Any], Sequence[Prediction], Sequence[str]], dict[str, Any]]
    """The same -> what the report shows besides: a row a class or entity type with its support, the tag scheme."""
