"""How to train, as a recipe section: the same for pretraining, fine-tuning and distillation. No torch."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bertctl.recipe.section import Section


class AdamWSection(Section):
    """AdamW (arXiv:1711.05101); weight decay leaves biases and norms alone."""

    name: Literal["adamw"] = "adamw"
    """The only optimizer so far."""
    lr: float = Field(default=1e-4, gt=0, lt=1e30)
    """Peak learning rate."""
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = Field(default=[0.9, 0.999], min_length=2, max_length=2)
    """Decay rates of the two moments."""
    eps: float = Field(default=1e-6, gt=0)
    """Added to the denominator; BERT's value is 1e-6."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled weight decay."""


class ScheduleSection(Section):
    """The learning rate over the run, as a share of its peak: a linear warm-up, then the named curve."""

    exclusive = (("warmup_steps", "warmup_fraction"),)

    name: Literal["linear", "cosine", "wsd", "constant"] = "linear"
    """linear and cosine fall to the final share; wsd stays at the peak and falls at the end; constant stays."""
    warmup_steps: int | None = Field(default=None, ge=0)
    """Length of the warm-up in steps; give this or warmup_fraction."""
    warmup_fraction: float | None = Field(default=None, ge=0, lt=1)
    """Length of the warm-up as a share of all steps; 0.1 if neither is given."""
    decay_fraction: float = Field(default=0.2, gt=0, le=1)
    """wsd only: the share of all steps in which the rate falls."""
    final_fraction: float = Field(default=0.0, ge=0, le=1)
    """The rate at the end, as a share of the peak."""


class TrainingSection(Section):
    """Length, batch, optimizer and bookkeeping of one training run. A step is one optimizer update."""

    exclusive = (("steps", "epochs"),)

    steps: int | None = Field(default=None, ge=1)
    """Number of steps; give this or epochs."""
    epochs: float | None = Field(default=None, gt=0)
    """Number of passes over the training examples."""
    batch_size: int = Field(default=32, ge=1)
    """Examples in one step, over all ranks and micro-batches."""
    micro_batch_size: int | None = Field(default=None, ge=1)
    """Examples in one forward pass on one rank; the whole share of the rank if not given. The gradient is the same."""
    optimizer: AdamWSection = AdamWSection()
    """The optimizer."""
    schedule: ScheduleSection = ScheduleSection()
    """The learning-rate schedule."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """Arithmetic of the forward pass; weights stay float32. auto: bf16 where the processor has instructions for it."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are scaled down to this norm."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them: less memory, about a third slower."""
    log_every_steps: int = Field(default=20, ge=1)
    """A line in metrics.jsonl every so many steps."""
    evaluate_every_steps: int | None = Field(default=None, ge=1)
    """Held-out evaluation every so many steps; only at the end if not given."""
    save_every_steps: int | None = Field(default=None, ge=1)
    """A checkpoint every so many steps, besides the one that a signal asks for; if not given, runs for a task save at
    every evaluation."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """How many checkpoints stay."""

    @model_validator(mode="after")
    def _parts_fit(self) -> "TrainingSection":
        if self.micro_batch_size is not None and self.micro_batch_size > self.batch_size:
            raise ValueError(f"micro_batch_size {self.micro_batch_size} is above batch_size {self.batch_size}")
        return self

    def steps_for(self, examples: int, default_epochs: float) -> int:
        """The number of steps for a training set of `examples`."""
        if self.steps is not None:
            return self.steps
        epochs = default_epochs if self.epochs is None else self.epochs
        return max(1, round(epochs * max(1, -(-examples // self.batch_size))))
