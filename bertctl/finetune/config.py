"""The `finetune` section. No torch."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bertctl.encoder.config import Pooling
from bertctl.finetune.search_config import SearchSection, faults
from bertctl.finetune.strategy_config import LossSection, StrategySection
from bertctl.recipe.section import Section, raise_at
from bertctl.tasks.config import DataSection, TaskName
from bertctl.tasks.embedding_section import EmbeddingSection
from bertctl.training.config import AdamWSection, TrainingSection


class FinetuneOptimizerSection(AdamWSection):
    """AdamW (arXiv:1711.05101); weight decay leaves biases and norms alone."""

    lr: float | None = Field(default=None, gt=0, lt=1e30)  # type: ignore[assignment]  # resolved before it is used
    """Peak learning rate. If not given: 5e-5, of BERT's own list, for an encoder 768 wide, ten times as much where the
    encoder itself is not trained (LoRA, or frozen); narrower ones proportionally more, at most 1e-3."""


class FinetuneTrainingSection(TrainingSection):
    """Length, batch, optimizer and bookkeeping of one training run. Without steps and epochs: 3 epochs, or as many as
    make 500 steps but at most 20, since small data needs more than 3 (arXiv:2006.04884). Evaluation and checkpoints
    come at the end of every epoch unless a number of steps is given."""

    optimizer: FinetuneOptimizerSection = FinetuneOptimizerSection()
    """The optimizer."""


class FinetuneSection(Section):
    """Train an encoder with a head for a task; the dev set picks the weights, the test set is scored once."""

    exclusive = (("folds", "train_fraction", "search"),)

    name: str | None = None
    """Name of the output folder below workdir/finetune; the task's name if not given."""
    task: TaskName
    """For one text or a pair: classification, multi_label (any number of labels) or regression (a number); for each
    word: ner or pos; qa (the span of a context that answers a question); multiple_choice (which of some texts fits);
    embedding (vectors that are near each other where texts belong together)."""
    model: str | None = None
    """The checkpoint to start from: a folder or a hub name; the stage pretrain's if not given."""
    data: DataSection = DataSection()
    """The labelled data."""
    max_length: int | None = Field(default=None, ge=3)
    """Longest input in word pieces, special tokens included; what the encoder can read, at most 512, if not given."""
    seeds: int = Field(default=1, ge=1, le=1000)
    """Train so many times, with seeds seed, seed + 1, ...; the result then has mean and standard deviation."""
    from_scratch: bool = False
    """Also train the same encoder from fresh weights, to see what pretraining is worth."""
    baselines: bool = True
    """For whole texts: also score a linear model on counts of word pieces, and of pairs one on their lengths."""
    folds: int | None = Field(default=None, ge=2, le=100)
    """Cross-validate: train so many times, each time leaving out another part of train and dev, which is scored."""
    train_fraction: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    """Learning curve: train on each of these shares of the training data, and from fresh weights beside it."""
    search: SearchSection | None = None
    """Look for better values of some keys first; dev picks them. `--search FILE` takes this section from a file."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout in place of the checkpoint's own rates."""
    pooling: Pooling | None = None
    """How a head for whole texts sees one: `cls`, `mean` or `max` over tokens, or `attention` with learned weights; the
    checkpoint's own if not given, and for a new embedding head the mean."""
    embedding: EmbeddingSection = EmbeddingSection()
    """Of embedding: the loss, its temperature, a projection, prefixes."""
    thresholds: Literal["one", "each"] = "one"
    """Of multi_label: one threshold for all labels, or one for each, found on dev for the best micro-F1 together."""
    strategy: StrategySection = StrategySection()
    """What is trained and how fast: frozen layers, rates by layer, gradual unfreezing, LoRA; everything by default."""
    loss: LossSection = LossSection()
    """Class weights, label smoothing, focal loss."""
    patience: int | None = Field(default=None, ge=1)
    """Stop early after so many evaluations in a row without a better dev metric; never if not given."""
    training: FinetuneTrainingSection = FinetuneTrainingSection()
    """Length, batch, optimizer, bookkeeping."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.train_fraction)) < len(self.train_fraction):
            raise ValueError("train_fraction: each share may stand there once")
        if self.task != "embedding" and self.embedding != EmbeddingSection():
            raise ValueError(f"`embedding` belongs to the task of this name, not to {self.task}")
        return self

    @model_validator(mode="after")
    def _searchable(self) -> Self:
        if self.search is not None:
            raise_at([(("search", *path), text) for path, text in faults(self.search, self)])
        return self
