"""The `evaluate` section. No torch."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bertctl.encoder.config import Pooling
from bertctl.pretrain.config import MaskingSection
from bertctl.recipe.section import Section
from bertctl.tasks.config import DataSection, TaskName

MASKED_LM = "masked_lm"


class EvaluateSection(Section):
    """Score a checkpoint on data: the metrics of its task, or how well it predicts masked tokens."""

    name: str | None = None
    """Name of the output folder below workdir/evaluate; the task's name if not given."""
    task: Literal["masked_lm", TaskName] | None = None
    """What to score; what the checkpoint was made for if not given."""
    model: str | None = None
    """The checkpoint: a folder or a hub name; the workdir's pretrained or fine-tuned model if not given."""
    against: str | None = None
    """A second checkpoint, scored on the same data and compared with the first."""
    predictions: tuple[Path, ...] = ()
    """Files with what other systems predicted for the data, scored in place of a checkpoint or compared with one; two
    systems at most. SQuAD's JSON of id -> text, CoNLL columns, and else JSONL, CSV, TSV or Parquet in input order."""
    no_answer_probabilities: tuple[Path, ...] = ()
    """qa: for each of the predictions a JSON file of id -> how probable it is that the question has no answer."""
    no_answer_threshold: float = Field(default=1.0, ge=0.0, le=1.0)
    """qa: a question whose no-answer probability is above this counts as unanswered."""
    data: DataSection = DataSection()
    """Labelled data of the task: one file, or test (dev if there is none) of a folder. For masked_lm: text files, or
    the folder that build-pairs wrote."""
    pairs: Path | None = None
    """masked_lm without data: score the held-out part of what build-pairs wrote; workdir/build_pairs if not given."""
    tokens: Path | None = None
    """The folder that tokenize wrote and that the pairs point into; workdir/tokenize if not given."""
    pooling: Pooling | None = None
    """embedding: how the vector of a text is made of those of its tokens, `cls`, `mean` or `max`; if not given the
    checkpoint's own way, else the mean."""
    max_length: int | None = Field(default=None, ge=3)
    """Longest input in word pieces, special tokens included; if not given what the model was fine-tuned with, else what
    it can read, at most 512."""
    masking: MaskingSection = MaskingSection()
    """How tokens are masked: always the same ones for the same seed."""
    held_out_examples: int = Field(default=2000, ge=1)
    """masked_lm: at most so many held-out pairs are scored, the same ones as in pretraining."""
    bootstrap_samples: int = Field(default=1000, ge=1, le=1_000_000)
    """Resampled sets of examples from which the 95% intervals are read off."""
    randomisation_rounds: int = Field(default=10_000, ge=1, le=1_000_000)
    """Two systems: how often their answers are swapped at random to find the p-value, which is never below one over
    this number plus one."""
    batch_size: int = Field(default=32, ge=1)
    """Examples in one forward pass; it changes the speed, not the result."""
    precision: Literal["auto", "float32", "bf16"] = "float32"
    """Arithmetic of the forward pass; float32 gives the same numbers on every machine to a few digits."""

    @model_validator(mode="after")
    def _two_systems(self) -> Self:
        systems = sum(name is not None for name in (self.model, self.against)) + len(self.predictions)
        if systems > 2:
            raise ValueError(f"got {systems} systems (model, against, predictions), expected one, or two to compare")
        if self.predictions and (self.task == MASKED_LM or (self.task is None and self.model is None)):
            raise ValueError("got `predictions` and no `task` with labelled data, such as `--task classification`")
        if self.pooling is not None and self.task != "embedding":
            raise ValueError("`pooling` belongs to the task embedding; any other head was trained with one")
        if self.no_answer_probabilities and len(self.no_answer_probabilities) != len(self.predictions):
            raise ValueError("`no_answer_probabilities` need one file for each of the predictions")
        return self
