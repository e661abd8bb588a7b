"""What a task is: a row of functions, and the examples and features that pass between them.

A task reads records, knows its labels, turns examples into model inputs, logits into predictions, and predictions into
metrics. It knows no model and no trainer. The tasks themselves stand in `table.py`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertctl.metrics.rows import Metric
from bertctl.tasks.config import DataSection

if TYPE_CHECKING:
    from torch import nn

    from bertctl.heads.model import Model
    from bertctl.tasks.embedding_section import EmbeddingSection
    from bertctl.tasks.imitation import Imitation
    from bertctl.tasks.losses import TaskLoss
    from bertctl.training.runtime import Runtime

    MakeObjective = Callable[[Model, Runtime, int | None], nn.Module]

IGNORED = -100  # the label of a position that has no loss
WHOLE = "whole"  # what `Task.read_folder` calls a folder without splits


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text or a pair with what it is labelled with; None where nothing is known."""

    text: str
    pair: str | None
    label: Any
    """A name, a tuple of names, or a number, as the task has it."""
    where: str
    """`file:line` of the record."""
    id: str | None = None
    """What the data call it, by which predictions of other systems find it."""

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
    id: str | None = None
    """What the data call the sentence."""

    def place(self, word: int = 0) -> str:
        """`file:line` of a word."""
        return f"{self.file}:{self.lines[word]}" if self.lines else self.file


Prediction = dict[str, Any]


@dataclass(slots=True)
class Features:
    """One model input; a long text has several, and so has an example of a grouped task.

    `labels`: a class number, a value, a number a position (-100: no loss), a value an output, or None without gold
    labels. `words` and `positions` (token labels): the words that this window answers for, and the position of the
    first piece of each. `positions` and `spans` (questions): the pieces of the context, and the code points of the
    original text that each stands for. `role`: which part of its example an input of a grouped task is. `pixels`: what
    reads an image, [channels, height, width], which then has no ids.
    """

    input_ids: list[int]
    token_type_ids: list[int]
    labels: int | float | list[int] | list[float] | None
    example: int
    pieces: int
    """Word pieces of the text before anything was cut."""
    cut: int = 0
    """Word pieces that were cut off."""
    words: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    role: int = 0
    pixels: Callable[[], NDArray[np.float32]] | None = None


@dataclass(frozen=True)
class Limits:
    """How long an input may be: `max_length` word pieces with the special tokens, `overlap` pieces that neighbouring
    windows share (None: the task's default), and whether whole texts are read in `windows` instead of cut. Of the task
    embedding also what is put before a text that asks and one that answers."""

    max_length: int
    overlap: int | None = None
    windows: bool = False
    query_prefix: str = ""
    passage_prefix: str = ""


@dataclass(frozen=True)
class Splits:
    """Examples by split, in file order; each may be empty. `notes` say what was decided on the way."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    notes: tuple[str, ...] = ()
    misfits: Mapping[str, int] = field(default_factory=dict)
    """Examples of each split whose gold answer is not where the data say; those of train are left out."""

    def items(self) -> list[tuple[str, list[Any]]]:
        """(name, examples) of the splits that have any."""
        return [(name, split) for name, split in vars(self).items() if name in ("train", "dev", "test") and split]


def nothing_to_tune(
    examples: Sequence[Any], features: Sequence[Features], logits: Sequence[np.ndarray], labels: Sequence[str]
) -> dict[str, Any]:
    """Most tasks have no setting that is found on dev."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. Predictions are JSON-able dicts, one an example, in input order."""

    name: str
    head: str
    """Key of the model's head: sequence (a text), token (a word), span, choice or embedding."""
    metric: str
    """The metric that picks the best checkpoint; higher is better."""
    loss: "TaskLoss | None" = None
    """What is minimised; None if the task has an objective of its own."""
    imitation: "Imitation | None" = None
    """What a student imitates of a teacher's answers; None if the task cannot be distilled."""
    classes: bool = True
    """Whether gold answers are names of a closed set, which the checkpoint keeps."""
    images: bool = False
    """Whether examples are images; the encoder then reads pixels, and what stands for a tokenizer is an
    `ImageProcessor`."""
    grouped: bool = False
    """Whether the inputs of one example must stay together in a batch."""
    outputs: Callable[[Sequence[str]], int] = len
    """Labels -> number of the head's outputs."""
    problem_type: str | None = None
    """What transformers calls the problem, where a head for whole texts can be for several."""
    first_answer: Callable[[Sequence[Any]], float] | None = None
    """Training examples -> the bias with which a new head starts; None: zero."""
    vectors: bool = False
    """Whether the answer to a text is its vector: what any encoder gives, with no head that was trained."""
    together: bool = False
    """Whether predictions can only be made of all examples at once, as in a ranking."""
    objective: "Callable[[EmbeddingSection, Sequence[Any]], MakeObjective] | None" = None
    """An objective of the task's own, in place of the loss of its head's logits: (section, training examples) -> what
    makes it for a model, a runtime and a micro-batch size. It gets the whole share of a rank and parts it itself."""
    noted: "Callable[[EmbeddingSection], dict[str, Any]]" = lambda _: {}
    """What a checkpoint keeps besides, of how its vectors are made."""
    scored: Callable[[Sequence[Any]], list[Any]] = list
    """Examples of dev or test -> the same as they are scored, where that is not one by one."""
    metric_of: Callable[[Sequence[Any]], str] | None = None
    """Examples of dev or test -> the metric, where it depends on the kind of data."""
    read_file: Callable[[Path, DataSection, bool, list[str]], list[Any]]
    """(file, data, labelled, problems) -> examples; appends to problems what is wrong, as `file:line: ...`."""
    read_folder: Callable[[Path, DataSection, list[str]], dict[str, list[Any]] | None] = lambda *_: None
    """(folder, data, problems) -> the splits of a folder in a layout of the task's own, `WHOLE` alone if it has none;
    None for any other folder."""
    read_table: Callable[..., list[Any]]
    """(table, data, labelled, problems) -> examples, for records that come from elsewhere than a file."""
    demo: Callable[[DataSection], Splits]
    """The task's examples of `python_docs`."""
    finish: Callable[[Mapping[str, list[Any]], DataSection, list[str]], dict[str, list[Any]]]
    """What can be said only when all splits are known: label kinds, tag schemes. Appends to problems."""
    labels: Callable[[Sequence[Any]], list[str]]
    """Training examples -> label names in the order of their numbers."""
    gold: Callable[[Any], list[tuple[str, str]]]
    """Example -> (answer, `file:line`) of everything in it that is labelled."""
    misfit: Callable[[Any], str | None] = lambda _: None
    """Labelled example -> what is wrong with its gold answer, so that it cannot be learnt; None if nothing is."""
    truth: Callable[[Any], Any]
    """Labelled example -> its gold answer as predictions.jsonl shows it: a label, a list, a number."""
    key: Callable[[Any], tuple[str, ...]]
    """Example -> its input text, for finding repeats."""
    input: Callable[[str | Mapping[str, Any], DataSection, str], Any]
    """(line of text or record, data, where) -> an example without label, for `predict`. Errors: BertctlError."""
    encode: Callable[[Sequence[Any], Any, Sequence[str], Limits], list[Features]]
    """(examples, tokenizer, labels, limits) -> features, those of one example next to each other."""
    tune: Callable[[Sequence[Any], Sequence[Features], Sequence[np.ndarray], Sequence[str]], dict[str, Any]] = (
        nothing_to_tune
    )
    """(dev examples, features, logits, labels) -> settings, such as a threshold, that the checkpoint keeps."""
    tune_each: (
        Callable[[Sequence[Any], Sequence[Features], Sequence[np.ndarray], Sequence[str]], dict[str, Any]] | None
    ) = None
    """The same with a threshold for each label, where that can be had."""
    predictions: Callable[
        [Sequence[Any], Sequence[Features], Sequence[np.ndarray], Sequence[str], Mapping[str, Any]], list[Prediction]
    ]
    """(examples, features, logits a feature: [C] or [T, C], labels, settings) -> predictions."""
    majority: Callable[[Sequence[Any], Sequence[Any], Sequence[str]], tuple[str, list[Prediction]] | None]
    """(train, examples, labels) -> what somebody says who always says the same, as train suggests, and the predictions
    that this makes; None if there is no such answer."""
    said: Callable[[Prediction], Sequence[Hashable]]
    """Prediction -> what was answered, so that a model which always answers the same is found."""
    score: Callable[[Sequence[Any], Sequence[Prediction], Sequence[str]], dict[str, Metric]]
    """(labelled examples, predictions, labels) -> metrics by name."""
    details: Callable[[Sequence[Any], Sequence[Prediction], Sequence[str]], dict[str, Any]]
    """The same -> what the report shows besides: a row a class or entity type with its support, the tag scheme."""
    report: Callable[[Sequence[Any], Sequence[Prediction], Sequence[str], int], dict[str, Any]] = lambda *_: {}
    """The same and bootstrap samples -> what `evaluate` alone shows: calibration, confusions, costliest errors."""
    submission: Callable[[Path, Sequence[Any], DataSection, list[str]], list[Prediction]] | None = None
    """(file, examples, data, problems) -> what any other system predicted, one an example; appends to problems. None:
    the task's predictions cannot be read from a file."""
    files: Callable[[Sequence[Any], Sequence[Prediction]], Mapping[str, str]] = lambda *_: {}
    """(examples, predictions) -> further files with the predictions, by name, in the form of the task's own scripts."""

    def untrained(self) -> dict[str, int] | None:
        """The head that any encoder has for this task, with its outputs; None if a head must be trained."""
        return {self.head: self.outputs([])} if self.vectors else None

    def fitted(self, examples: Sequence[Any]) -> "Task":
        """The task with the metric that fits examples of this kind."""
        return self if self.metric_of is None else replace(self, metric=self.metric_of(examples))
