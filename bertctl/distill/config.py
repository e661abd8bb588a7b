"""The `distill` section. No torch."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core.core_schema import ValidationInfo

from bertctl.distill.losses import LOSSES, PRETRAINING_LABELS, PRETRAINING_WEIGHTS, TASK_LABELS, TASK_WEIGHTS
from bertctl.finetune.config import FinetuneOptimizerSection, FinetuneTrainingSection
from bertctl.pretrain.config import MaskingSection, PhaseSection
from bertctl.recipe.section import Section
from bertctl.tasks.config import DataSection, TaskName
from bertctl.variants.config import EncoderSection, unknown


class StudentSection(EncoderSection):
    """The teacher's encoder, but for a family's preset, if one is named, and for the sizes and parts that are given."""

    name: str | None = None  # type: ignore[assignment]  # here without a preset
    """The family of a preset; bert if only a size is given."""
    size: str | None = None  # type: ignore[assignment]
    """The preset within the family; base if only a family is given. Neither: all sizes are the teacher's."""


class DistillOptimizerSection(FinetuneOptimizerSection):
    """AdamW (arXiv:1711.05101); weight decay leaves biases and norms alone."""

    lr: float | None = Field(default=None, gt=0, lt=1e30)
    """Peak learning rate. If not given: DistilBERT's 5e-4 on pretraining data; for a task as finetune chooses it."""


class DistillTrainingSection(FinetuneTrainingSection):
    """Length, batch, optimizer and bookkeeping. Without steps and epochs: 3 epochs of pretraining data, as DistilBERT;
    for a task as finetune chooses them."""

    optimizer: DistillOptimizerSection = DistillOptimizerSection()
    """The optimizer."""


class DistillSection(Section):
    """Train a smaller encoder to do as a larger one: on pretraining data, or for a task that the teacher knows."""

    name: str | None = None
    """Name of the output folder below workdir/distill; the task's name, else masked_lm, if not given."""
    teacher: str | None = None
    """Checkpoint folder or hub name of the teacher; the workdir's pretrained or fine-tuned model if not given."""
    student: str | StudentSection = "half"
    """`half`: the teacher's encoder with half its layers. A preset (`distilbert`, `mini`, `tiny`, ...), an encoder
    section or a YAML file with one: the teacher's encoder but for what it says. A checkpoint: start from that."""
    layer_map: list[int] | None = Field(default=None, min_length=1)
    """Teacher layers (1 is the first) that the student's layers start from; spread evenly if not given."""
    task: TaskName | None = None
    """The task whose fine-tuned teacher is distilled; not given: masked-LM distillation on pretraining data."""
    data: DataSection = DataSection()
    """The task's labelled data."""
    max_length: int | None = Field(default=None, ge=3)
    """Longest input of a task in word pieces; what the teacher was fine-tuned with, else can read, if not given."""
    patience: int | None = Field(default=None, ge=1)
    """For a task: stop early after so many evaluations in a row without a better dev metric; never if not given."""
    pairs: Path | None = None
    """The folder that build-pairs wrote, for distilling on pretraining data; workdir/build_pairs if not given."""
    tokens: Path | None = None
    """The folder that tokenize wrote and that the pairs point into; workdir/tokenize, else the one beside the pairs,
    if not given."""
    masking: MaskingSection = MaskingSection()
    """How tokens are masked on pretraining data."""
    phases: list[PhaseSection] = Field(default=[])
    """Phases of the pairs in order; all that build-pairs wrote, in equal shares, if not given."""
    held_out_examples: int = Field(default=2000, ge=1)
    """At most so many held-out pretraining examples are scored."""
    temperature: float = Field(default=2.0, gt=0)
    """Softens both distributions of the soft targets."""
    soft_positions: Literal["all", "masked"] = "masked"
    """Imitate the teacher at the masked tokens only, or at all real ones as DistilBERT, which takes several times as
    long: logits over the whole vocabulary are most of the work then."""
    weights: dict[str, float] = Field(default={}, validate_default=True)
    """Weight of each loss; those left out have their defaults (soft_targets 5, mlm 2, hidden_cosine 1, sentence_pair 1;
    for a task soft_targets 0.5, hard_labels 0.5, which embedding does not have) and 0 switches one off. Also:
    hidden_mse, attention_kl."""
    training: DistillTrainingSection = DistillTrainingSection()
    """Length, batch, optimizer, bookkeeping."""

    @field_validator("weights")
    @classmethod
    def _fill_weights(cls, given: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        task = info.data.get("task")
        known = [*LOSSES, *(PRETRAINING_LABELS if task is None else TASK_LABELS)]
        for name, weight in given.items():
            if name not in known:
                raise ValueError(unknown("a loss", name, known))
            if weight < 0:
                raise ValueError(f"{name} has weight {weight}, expected 0 or more")
        weights = {**(PRETRAINING_WEIGHTS if task is None else TASK_WEIGHTS), **given}
        if not any(weights[name] for name in weights if name != "sentence_pair"):
            raise ValueError("all losses are switched off")
        return {name: weights[name] for name in known if name in weights}

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.task is None and self.data.is_given():
            raise ValueError("`data` is labelled data, which needs a `task`")
        total = sum(phase.share for phase in self.phases)
        if self.phases and abs(total - 1) > 1e-6:
            raise ValueError(f"the phases' shares add up to {total}, expected 1")
        return self
