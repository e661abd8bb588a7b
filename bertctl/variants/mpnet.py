"""MPNet: RoBERTa's encoder with the bucketed bias of T5 in every layer, shared by all. Source: arXiv:2004.09297.

Its permuted training is not here: as with any family, `pretrain` masks tokens.
"""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants import bert
from bertctl.variants.family import Family, Fields
from bertctl.variants.roberta import HEADS, RENAMED

COMMON: Fields = {
    "type_vocab_size": 0,
    "position_after_padding": True,
    "layer_norm_eps": 1e-5,
    "relative_position": "bucketed",
    "relative_buckets": 32,
    "relative_max_distance": 128,
}
SAME_NAME = tuple(name for name in bert.SAME_NAME if name != "type_vocab_size")
CLASS_DEFAULTS: Fields = {
    "pad_token_id": 1,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
}  # of `MPNetConfig`
FIXED: Fields = {"pad_token_id": 1, "hidden_act": "gelu", "relative_attention_num_buckets": 32}  # in its code


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of an `MPNetConfig`, whose max_position_embeddings counts the rows of the table. None for what its
    code has fixed: places from 2 on, gelu in the masked-LM head, 32 buckets."""
    fields = {name: getattr(config, name) for name in SAME_NAME}
    fields |= {"max_position_embeddings": config.max_position_embeddings + config.position_offset}
    fields |= {"relative_attention_num_buckets": config.relative_buckets}
    return fields if all(fields[name] == value for name, value in FIXED.items()) else None


def from_hf(fields: Fields) -> EncoderConfig:
    """An `MPNetConfig`'s fields as ours. Errors: ValueError for one that its code would not heed."""
    for name, value in FIXED.items():
        if fields.get(name, value) != value:
            raise ValueError(f"{name} is {fields[name]!r}, but MPNet's code always has {value!r}")
    given = CLASS_DEFAULTS | {name: fields[name] for name in SAME_NAME if name in fields}
    given["max_position_embeddings"] -= given["pad_token_id"] + 1
    return EncoderConfig(**(COMMON | given))


LAYER = (
    ("attention.query", "attention.attn.q"),
    ("attention.key", "attention.attn.k"),
    ("attention.value", "attention.attn.v"),
    ("attention.output", "attention.attn.o"),
    ("attention_norm", "attention.LayerNorm"),
    ("feed_forward.up", "intermediate.dense"),
    ("feed_forward.down", "output.dense"),
    ("feed_forward_norm", "output.LayerNorm"),
)

MPNET = Family(
    model_type="mpnet",
    paper="arXiv:2004.09297",
    common=COMMON,
    sizes={"base": bert.size(12, 768, 12)},
    to_hf=to_hf,
    from_hf=from_hf,
    base="mpnet.",
    decoder="lm_head.decoder",
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.word_embeddings"),
        ("encoder.position.table", "{base}embeddings.position_embeddings"),
        ("encoder.position.relative.table", "{base}encoder.relative_attention_bias"),
        ("encoder.embeddings.norm", "{base}embeddings.LayerNorm"),
        *((f"encoder.layers.{{n}}.{ours}", f"{{base}}encoder.layer.{{n}}.{theirs}") for ours, theirs in LAYER),
        *HEADS,
    ),
    renamed=RENAMED,
    architectures={
        frozenset(): "MPNetModel",
        frozenset({"masked_lm"}): "MPNetForMaskedLM",
        frozenset({"sequence"}): "MPNetForSequenceClassification",
        frozenset({"token"}): "MPNetForTokenClassification",
        frozenset({"span"}): "MPNetForQuestionAnswering",
        frozenset({"choice"}): "MPNetForMultipleChoice",
    },
)
