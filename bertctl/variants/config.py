"""The recipe section that names an encoder, and the `EncoderConfig` it stands for. No torch."""

import dataclasses
import difflib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from bertctl.encoder.config import (
    Activation,
    AttentionKind,
    EncoderConfig,
    FeedForward,
    Initializer,
    LayerSharing,
    Norm,
    NormPlace,
    Position,
    RelativePosition,
)
from bertctl.errors import BertctlError
from bertctl.recipe.section import Section
from bertctl.variants.family import Family
from bertctl.variants.table import VARIANTS

OWN_TYPE = "bertctl"  # of what no published code computes


class EncoderSection(Section):
    """A family, a size of it, and whatever should differ from that preset."""

    name: str = "bert"
    """The family, a row of the table in `bertctl/variants/table.py`."""
    size: str = "base"
    """The preset within the family; for BERT: tiny, mini, small, medium, base, large."""
    hidden_size: int | None = Field(default=None, ge=1)
    """Width of a token's vector; the preset's if not given, as for the fields below."""
    num_hidden_layers: int | None = Field(default=None, ge=1)
    """Number of layers."""
    num_attention_heads: int | None = Field(default=None, ge=1)
    """Number of attention heads in a layer; must divide the width."""
    intermediate_size: int | None = Field(default=None, ge=1)
    """Width inside the feed-forward layers."""
    embedding_size: int | None = Field(default=None, ge=1)
    """Width of the embeddings, which are then projected to hidden_size (factorised embeddings)."""
    embedding_norm: bool | None = None
    """Whether a norm follows the sum of the embeddings."""
    scale_embedding: bool | None = None
    """Whether word embeddings are multiplied by the root of their width."""
    max_position_embeddings: int | None = Field(default=None, ge=1)
    """Longest input in tokens."""
    type_vocab_size: int | None = Field(default=None, ge=0)
    """Number of segments; 0 leaves segment embeddings out."""
    hidden_dropout_prob: float | None = Field(default=None, ge=0, lt=1)
    """Dropout on embeddings and on the output of each part."""
    attention_probs_dropout_prob: float | None = Field(default=None, ge=0, lt=1)
    """Dropout on attention weights."""
    layer_norm_eps: float | None = Field(default=None, gt=0)
    """Added to the variance in every norm."""
    initializer: Initializer | None = None
    """How fresh weights are drawn: normal (BERT), depth_scaled (Megatron, ModernBERT), fan_in (T5), xavier (the first
    Transformer), small_embedding. `bertctl describe` shows what each tensor gets."""
    initializer_range: float | None = Field(default=None, gt=0)
    """Standard deviation of fresh weights where the scheme has no other."""
    hidden_act: Activation | None = None
    """Activation of the feed-forward layers."""
    position: Position | None = None
    """How a token knows its place."""
    position_after_padding: bool | None = None
    """Count learned places from the padding id + 1, as RoBERTa does."""
    rope_theta: float | None = Field(default=None, gt=1)
    """Base of the angles of rotary positions."""
    local_rope_theta: float | None = Field(default=None, gt=1)
    """The same for layers that see a window only; rope_theta if not given."""
    relative_position: RelativePosition | None = None
    """What the distance of two tokens adds to their score: nothing, a bias for each bucket of distances (bucketed, as
    T5 and MPNet), or products of contents and positions (disentangled, as DeBERTa)."""
    relative_buckets: int | None = Field(default=None, ge=4)
    """Buckets that distances fall into; near ones have one each."""
    relative_max_distance: int | None = Field(default=None, ge=2)
    """Distance in tokens from which on all fall into the same bucket."""
    attention: tuple[AttentionKind, ...] | None = Field(default=None, min_length=1)
    """What each layer sees, over and over: [full, local, local] is ModernBERT's. full, causal (nothing later), local (a
    window), local_global (a window and the global tokens, which see all), linear, causal_linear (no softmax)."""
    attention_window_tokens: int | None = Field(default=None, ge=2, multiple_of=2)
    """Width of the window of local layers: so many tokens, half of them on either side."""
    global_every_tokens: int | None = Field(default=None, ge=0)
    """With local_global: every so many tokens one is global; 0 makes only the first token so."""
    layer_sharing: LayerSharing | None = None
    """What layers have in common: none, all (as ALBERT), attention or feed_forward."""
    num_hidden_groups: int | None = Field(default=None, ge=1)
    """With layer_sharing: so many groups of layers, each with weights of its own."""
    norm: Norm | None = None
    """Kind of norm."""
    norm_place: NormPlace | None = None
    """Norm after each residual sum (post, as BERT) or before each part (pre)."""
    skip_first_norm: bool | None = None
    """With norm_place pre: no norm before the first attention, since one follows the embeddings."""
    feed_forward: FeedForward | None = None
    """Plain (mlp) or gated (glu) feed-forward layers."""
    conv_kernel_size: int | None = Field(default=None, ge=0)
    """Width in tokens of a convolution of the embeddings beside the first layer, as in DeBERTa-v2; 0 for none."""
    mask_decoder: bool | None = None
    """Predict masked tokens by DeBERTa's enhanced mask decoder, which alone knows absolute places (arXiv:2006.03654,
    section 3.2); with position none and norm_place post."""
    use_bias: bool | None = None
    """Whether linear layers and norms have biases."""
    image_size: int | None = Field(default=None, ge=1)
    """Of an encoder that reads images: their width and height in pixels, a multiple of patch_size."""
    patch_size: int | None = Field(default=None, ge=1)
    """Width and height in pixels of the patches that an image is cut into."""
    num_channels: Literal[1, 3] | None = None
    """Channels of an image: 1 for shades of grey, 3 for colours."""


def encoder_config(section: EncoderSection, *, vocab_size: int, pad_token_id: int) -> EncoderConfig:
    """The encoder that `section` describes for a vocabulary. Errors: BertctlError for an unknown name or size, or for
    sizes that do not fit each other."""
    family = VARIANTS.get(section.name)
    if family is None:
        raise BertctlError(unknown("encoder.name", section.name, VARIANTS))
    if section.size not in family.sizes:
        raise BertctlError(unknown(f"encoder.size of {section.name}", section.size, family.sizes))
    given = section.model_dump(exclude={"name", "size"}, exclude_none=True)
    fields: dict[str, Any] = {**family.common, **family.sizes[section.size], **given}
    try:
        return EncoderConfig(vocab_size=vocab_size, pad_token_id=pad_token_id, **fields)
    except ValueError as error:
        raise BertctlError(f"encoder: {error}") from error


def reads_images(section: EncoderSection) -> bool:
    """Whether the section describes an encoder of images."""
    family = VARIANTS.get(section.name)
    return bool(section.image_size or (family is not None and family.common.get("image_size")))


def preset(name: str) -> EncoderSection | None:
    """The section that a short name stands for: a family (`distilbert`) or a size of BERT (`mini`); None if neither."""
    if name in VARIANTS:
        return EncoderSection(name=name)
    return EncoderSection(size=name) if name in VARIANTS["bert"].sizes else None


def unknown(what: str, got: str, known: Any) -> str:
    """A sentence about a name that is not in a table, with the nearest one that is."""
    near = difflib.get_close_matches(got, list(known), n=1)
    guess = f"; did you mean '{near[0]}'?" if near else ""
    return f"{what}: got '{got}', expected one of {', '.join(known)}{guess}"


def read_encoder_config(folder: Path, fields: dict[str, Any]) -> tuple[Family | None, EncoderConfig]:
    """The family and the encoder that a config.json describes."""
    name = fields.get("model_type")
    own = {field.name for field in dataclasses.fields(EncoderConfig)}
    try:
        if name == OWN_TYPE:
            return None, EncoderConfig(**{key: value for key, value in fields.items() if key in own})
        if name in VARIANTS:
            return VARIANTS[name], VARIANTS[name].from_hf(fields)
    except (TypeError, ValueError) as error:
        raise BertctlError(f"{folder / 'config.json'}: {error}") from error
    raise BertctlError(unknown(f"{folder / 'config.json'}: model_type", str(name), [*VARIANTS, OWN_TYPE]))
