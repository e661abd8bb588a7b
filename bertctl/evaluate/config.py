"""The `evaluate` section. No torch."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from bertctl.pretrain.config import MaskingSection
from bertctl.recipe.section import Section
from bertctl.tasks.config import DataSection

MASKED_LM = "masked_lm"


class EvaluateSection(Section):
    """Score a checkpoint on data: the metrics of its task, or how well it predicts masked tokens."""

    name: str | None = None
    """Name of the output folder below workdir/evaluate; the task's name if not given."""
    task: Literal["masked_lm", "classification", "ner", "pos"] | None = None
    """What to score; what the checkpoint was made for if not given."""
    model: str | None = None
    """The checkpoint: a folder or a hub name; the workdir's pretrained or fine-tuned model if not given."""
    data: DataSection = DataSection()
    """Labelled data of the task: one file, or test (dev if there is none) of a folder. For masked_lm: text files, or
    the folder that build-pairs wrote."""
    pairs: Path | None = None
    """masked_lm without data: score the held-out part of what build-pairs wrote; workdir/build_pairs if not given."""
    tokens: Path | None = None
    """The folder that tokenize wrote and that the pairs point into; workdir/tokenize if not given."""
    max_length: int | None = Field(default=None, ge=3)
    """Longest input in word pieces, special tokens included; if not given what the model was fine-tuned with, else what
    it can read, at most 512."""
    masking: MaskingSection = MaskingSection()
    """How tokens are masked: always the same ones for the same seed."""
    held_out_examples: int = Field(default=2000, ge=1)
    """masked_lm: at most so many held-out pairs are scored, the same ones as in pretraining."""
    bootstrap_samples: int = Field(default=1000, ge=1, le=1_000_000)
    """Resampled sets of examples from which the 95% intervals are read off."""
    batch_size: int = Field(default=32, ge=1)
    """Examples in one forward pass; it changes the speed, not the result."""
    precision: Literal["auto", "float32", "bf16"] = "float32"
    """Arithmetic of the forward pass; float32 gives the same numbers on every machine to a few digits."""
