"""What a family of encoders is: presets, and how Hugging Face writes its config and names its tensors. No torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bertctl.encoder.config import EncoderConfig

Fields = dict[str, Any]
Pair = tuple[str | tuple[str, ...], str]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One row of `VARIANTS`.

    `sizes` maps a preset's name to the fields of `EncoderConfig` in which it differs from `common`. `to_hf` writes the
    fields of config.json, or None for an encoder that this family's published code cannot express; `from_hf` reads
    them. `tensor_names` pairs our module path with theirs: `{n}` is the layer, `{group}` its group of layers that share
    weights, `{base}` the prefix that a checkpoint with a head puts before its encoder; several paths of ours are stored
    as one tensor, one below the other. `renamed` holds the pairs that a set of heads names otherwise. `decoder` is the
    output matrix of their masked-LM head, which is the word embeddings; `spellings` are beginnings of names that older
    files have, and what they are read as. `architectures` names the published class for a set of heads.
    """

    model_type: str
    paper: str
    common: Fields
    sizes: Mapping[str, Fields]
    to_hf: Callable[[EncoderConfig], Fields | None]
    from_hf: Callable[[Fields], EncoderConfig]
    base: str
    tensor_names: tuple[Pair, ...]
    architectures: Mapping[frozenset[str], str]
    decoder: str = ""
    spellings: tuple[tuple[str, str], ...] = ()
    renamed: Mapping[frozenset[str], tuple[Pair, ...]] = field(default_factory=dict)


def expresses(family: Family, config: EncoderConfig, heads: frozenset[str]) -> bool:
    """Whether the family's published code computes exactly this encoder with these heads: what it would write reads
    back as the same config. How weights were first drawn does not matter, nor a mask decoder where masked tokens are
    not predicted. No family reads both texts and images."""
    if bool(config.image_size) != reads_images(family):
        return False
    fields = family.to_hf(config)
    if heads not in family.architectures or fields is None or (config.mask_decoder and "masked_lm" in heads):
        return False
    read = family.from_hf(fields)
    return read == replace(config, initializer=read.initializer, mask_decoder=False)


def reads_images(family: Family) -> bool:
    """Whether the family's encoders read images in place of tokens."""
    return bool(family.common.get("image_size"))
