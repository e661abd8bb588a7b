"""The `probe` section. No torch."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from bertctl.recipe.section import Section
from bertctl.tasks.config import DataSection, LabelTaskName

Pooled = Literal["mean", "cls", "max"]


class ProbeSection(Section):
    """See what each layer of a checkpoint knows: a linear probe and its control task, and the layer's geometry."""

    name: str | None = None
    """Name of the output folder below workdir/probe; the task's name if not given."""
    task: LabelTaskName
    """What to read off the states: a label a word (ner, pos), a text (classification) or an image
    (image_classification)."""
    model: str | None = None
    """The checkpoint: a folder or a hub name; the workdir's pretrained model if not given. It is never trained."""
    data: DataSection = DataSection()
    """Labelled data: train fits the probes, dev picks their strength, test (dev if there is none) scores them."""
    layers: Literal["all"] | list[int] = "all"
    """`all`, or the layers to probe, counted from 0, the output of the embeddings, to L, that of the last block."""
    pooling: Pooled = "mean"
    """What stands for a text or an image as a whole: the mean over its real tokens, the first one (cls: `[CLS]`, an
    image's class token), or each number's largest (max)."""
    max_length: int | None = Field(default=None, ge=3)
    """Longest input in word pieces, special tokens included; if not given what the model can read, at most 512."""
    train_words: int = Field(default=10_000, ge=1)
    """Fit on at most so many words (texts or images, for their tasks), those of whole examples drawn by the seed."""
    test_words: int = Field(default=5_000, ge=1)
    """Pick on, and score, at most so many words (texts, images) each."""
    control: bool = True
    """Also fit the control task, random labels, which tells how much a probe learns by itself."""
    strengths: tuple[Annotated[float, Field(ge=0, le=1e6)], ...] = Field(
        default=(0.0001, 0.001, 0.01, 0.1), min_length=1
    )
    """L2 penalties to try; the one with the best dev accuracy is kept, the stronger one of equals."""
    iterations: int = Field(default=100, ge=1)
    """At most so many steps of L-BFGS for each fit."""
    bootstrap_samples: int = Field(default=1000, ge=1, le=1_000_000)
    """Resampled sets of examples (whole sentences) from which the 95% intervals are read off."""
    geometry_states: int = Field(default=2000, ge=2)
    """At most so many states give a layer's effective rank, and so many random pairs its mean cosine."""
    attention_tokens: int = Field(default=20_000, ge=1)
    """The attention of the first test inputs with at most so many word pieces (patches, of images) is looked at."""
    memory_megabytes: int = Field(default=512, ge=1)
    """States that need more than this are kept in a temporary file that is mapped into memory."""
    batch_size: int = Field(default=32, ge=1)
    """Inputs in one forward pass; it changes the speed, not the result."""
    precision: Literal["auto", "float32", "bf16"] = "float32"
    """Arithmetic of the forward pass; the probes themselves are fitted in float32."""

    @field_validator("layers")
    @classmethod
    def _count_from_zero(cls, layers: Literal["all"] | list[int]) -> Literal["all"] | list[int]:
        wrong = next((layer for layer in layers if isinstance(layer, int) and layer < 0), None)
        if wrong is not None or not layers:
            got = "no layer" if wrong is None else wrong
            raise ValueError(f"got {got}, expected layers from 0 (the embeddings) to L (the last block), or `all`")
        return layers
