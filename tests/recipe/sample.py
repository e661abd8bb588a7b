"""A small recipe type for the tests of this folder, with every shape that real sections use."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bertctl.recipe.section import Section


class Adam(Section):
    name: Literal["adam"] = "adam"
    """The kind."""
    lr: float = Field(default=1e-3, gt=0, le=1)
    """Peak rate."""


class Sgd(Section):
    name: Literal["sgd"]
    """The kind."""
    momentum: float = 0.9
    """How much of the last step is kept."""


class Train(Section):
    steps: int = Field(gt=0)
    """Updates of the weights.

    More about it."""
    batch_size: int = Field(default=32, ge=1)
    """Examples in a step."""
    optimizer: Annotated[Adam | Sgd, Field(discriminator="name")] = Adam()
    """The optimizer."""
    precision: Literal["bf16", "float32"] = "bf16"
    """Arithmetic."""
    save: bool = True
    """Whether to save."""
    probability: float = Field(default=0.15, gt=0, lt=1)
    """A share."""
    labels: list[str] | None = None
    """Names."""
    encoder: str | Adam = "half"
    """A name or a section."""

    @model_validator(mode="after")
    def _fit(self) -> "Train":
        if self.steps < 2 and self.batch_size == 77:
            raise ValueError("batch_size 77 needs 2 steps")
        return self


class Root(Section):
    workdir: Path = Path("runs")
    """Where."""
    seed: int = 0
    """Random."""
    pretrain: Train | None = None
    """First."""
    finetune: list[Train] | None = None
    """Then."""
