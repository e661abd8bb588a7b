"""The `pretrain` section. No torch."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bertctl.recipe.section import Section
from bertctl.training.config import TrainingSection
from bertctl.variants.config import EncoderSection, reads_images


class MaskingSection(Section):
    """Which tokens are hidden and what replaces them; what is left of the two shares keeps its token."""

    probability: float = Field(default=0.15, gt=0, lt=1)
    """Share of the ordinary tokens of an example that are predicted."""
    unit: Literal["token", "word"] = "token"
    """Choose single tokens, or whole words."""
    mask_share: float = Field(default=0.8, ge=0, le=1)
    """Share of the chosen tokens that become [MASK]."""
    random_share: float = Field(default=0.1, ge=0, le=1)
    """Share of the chosen tokens that become a random ordinary token."""

    @model_validator(mode="after")
    def _shares(self) -> "MaskingSection":
        if self.mask_share + self.random_share > 1:
            raise ValueError(f"mask_share {self.mask_share} and random_share {self.random_share} add up to more than 1")
        return self


class PhaseSection(Section):
    """A stretch of the run on examples of one length, as BERT's 128 tokens and then 512."""

    name: str
    """A phase that build-pairs wrote."""
    share: float = Field(gt=0, le=1)
    """Its share of the steps."""


class MaskedLMObjectiveSection(Section):
    """Predict masked tokens, and sentence pairs if the examples are labelled ones."""

    name: Literal["masked_lm"] = "masked_lm"
    """BERT's objective."""


class ReplacedTokenObjectiveSection(Section):
    """Tell which tokens a small generator put in place of masked ones (ELECTRA, arXiv:2003.10555); pairs count as two
    segments of one input."""

    name: Literal["replaced_token"] = "replaced_token"
    """ELECTRA's objective."""
    generator_width: float = Field(default=0.25, gt=0, le=1)
    """Width of the generator as a share of the encoder's; it has as many layers and embeddings of the same size."""
    generator_from: str | None = None
    """A checkpoint folder to take the generator from, such as `generator` in a finished run; drawn anew if not given.
    With shared embeddings the encoder's are taken."""
    embedding_sharing: Literal["shared", "disentangled"] = "shared"
    """`shared`: one table learns from both losses (ELECTRA); `disentangled`: the encoder reads the generator's words
    without teaching them, plus a table of its own (DeBERTa-v3, arXiv:2111.09543)."""
    masked_lm_weight: float = Field(default=1.0, gt=0)
    """Weight of the generator's loss, a mean over masked tokens."""
    replaced_token_weight: float = Field(default=50.0, gt=0)
    """Weight of the loss of telling replaced tokens, a mean over all real ones."""


class MaskedImageObjectiveSection(Section):
    """Draw the pixels of hidden patches (SimMIM, arXiv:2111.09886), for an encoder that reads images."""

    name: Literal["masked_image"] = "masked_image"
    """SimMIM's objective."""
    mask_ratio: float = Field(default=0.6, gt=0, lt=1)
    """Share of an image that is hidden, rounded up to whole squares."""
    mask_patch_size: int = Field(default=32, ge=1)
    """Width in pixels of the squares that are hidden whole; a multiple of the encoder's patch_size."""


class ImagesSection(Section):
    """Images to pretrain on; labels are not needed."""

    path: Path
    """A folder with images at any depth, Parquet files with a column `image` among them, or one such file."""
    held_out_fraction: float = Field(default=0.01, gt=0, lt=1)
    """Share of the images that is held out; at least one is."""


class PretrainSection(Section):
    """Pretraining on masked tokens, with sentence pairs if the examples have them, on replaced ones, or on images."""

    pairs: Path | None = None
    """The folder that build-pairs wrote; workdir/build_pairs if not given."""
    tokens: Path | None = None
    """The folder that tokenize wrote and that the pairs point into; workdir/tokenize if not given."""
    images: ImagesSection | None = None
    """Of the objective masked_image, in place of tokens and pairs: the images."""
    init_from: str | None = None
    """A checkpoint folder or hub name to continue from, in place of fresh weights; its encoder is then used."""
    resize: bool = False
    """Make the encoder described by `encoder` out of the checkpoint's: wider, deeper, smaller, or for longer inputs."""
    stretch: Literal["tile", "interpolate"] = "tile"
    """How `resize` makes a longer table of learned positions: repeat it, or spread it over the new length."""
    encoder: EncoderSection = EncoderSection()
    """The encoder to train from scratch."""
    pad_vocab_to_multiple_of: int = Field(default=1, ge=1)
    """Rows of the word embeddings are rounded up to a multiple of this (64 suits GPUs); the further rows stand for no
    token and are never predicted."""
    objective: Annotated[
        MaskedLMObjectiveSection | ReplacedTokenObjectiveSection | MaskedImageObjectiveSection,
        Field(discriminator="name"),
    ] = MaskedLMObjectiveSection()
    """What is learned: `{name: masked_lm}`, `{name: replaced_token}` or `{name: masked_image}`."""
    masking: MaskingSection = MaskingSection()
    """How tokens are masked, anew in every epoch."""
    phases: list[PhaseSection] = Field(default=[])
    """Phases in order; all that build-pairs wrote, in equal shares, if not given."""
    held_out_examples: int = Field(default=2000, ge=1)
    """At most so many held-out examples are scored, always the same with the same masks."""
    training: TrainingSection = TrainingSection()
    """Length, batch, optimizer, bookkeeping."""

    @model_validator(mode="after")
    def _resize_needs_a_start(self) -> "PretrainSection":
        if self.resize and self.init_from is None:
            raise ValueError("`resize` needs `init_from`, the checkpoint to make larger or smaller")
        return self

    @model_validator(mode="after")
    def _texts_or_images(self) -> "PretrainSection":
        about_images = self.objective.name == "masked_image"
        if self.images is not None and not about_images:
            raise ValueError(f"`images` belongs to the objective masked_image, not to {self.objective.name}")
        if self.resize and about_images:
            raise ValueError("`resize` is not for encoders of images")
        if self.init_from is None and reads_images(self.encoder) != about_images:
            fits = "vit" if about_images else "bert"
            raise ValueError(f"the objective {self.objective.name} needs another encoder, such as `name: {fits}`")
        return self

    @model_validator(mode="after")
    def _phase_shares(self) -> "PretrainSection":
        total = sum(phase.share for phase in self.phases)
        if self.phases and abs(total - 1) > 1e-6:
            raise ValueError(f"the phases' shares add up to {total}, expected 1")
        return self
