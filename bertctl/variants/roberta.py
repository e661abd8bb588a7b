"""RoBERTa: BERT's encoder with places counted from the padding id, one segment, and byte-level BPE.

Source: arXiv:1907.11692. It is pretrained on full sentences (`second_segment: none`) with masks drawn anew each epoch.
"""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.bert import LAYER, SAME_NAME, only_absolute, size
from bertctl.variants.family import Family, Fields

COMMON: Fields = {"type_vocab_size": 1, "position_after_padding": True, "layer_norm_eps": 1e-5}
CLASS_DEFAULTS: Fields = {"pad_token_id": 1, "type_vocab_size": 2, "layer_norm_eps": 1e-12}  # of `RobertaConfig`


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of a `RobertaConfig`, whose max_position_embeddings counts the rows of the table. None without
    segments, which RobertaModel needs, and for another activation than gelu, which its masked-LM head always has."""
    if config.type_vocab_size == 0 or config.hidden_act != "gelu":
        return None
    rows = config.max_position_embeddings + config.position_offset
    return {name: getattr(config, name) for name in SAME_NAME} | {"max_position_embeddings": rows}


def from_hf(fields: Fields) -> EncoderConfig:
    """A `RobertaConfig`'s fields as ours."""
    only_absolute(fields)
    if fields.get("hidden_act", "gelu") != "gelu":
        raise ValueError(f"hidden_act is {fields['hidden_act']!r}, but RoBERTa's masked-LM head has gelu")
    given = CLASS_DEFAULTS | {name: fields[name] for name in SAME_NAME if name in fields}
    offset = given["pad_token_id"] + 1
    given["max_position_embeddings"] = given.get("max_position_embeddings", 512) - offset
    return EncoderConfig(**given, position_after_padding=True)


HEADS = (
    ("pooler.dense", "{base}pooler.dense"),
    ("heads.masked_lm.transform", "lm_head.dense"),
    ("heads.masked_lm.norm", "lm_head.layer_norm"),
    ("heads.masked_lm", "lm_head"),
    ("heads.sequence.output", "classifier.out_proj"),
    ("heads.token.output", "classifier"),
    ("heads.span.output", "qa_outputs"),
    ("heads.choice.output", "classifier"),
)
RENAMED = {frozenset({"sequence"}): (("pooler.dense", "classifier.dense"),)}

ROBERTA = Family(
    model_type="roberta",
    paper="arXiv:1907.11692",
    common=COMMON,
    sizes={"base": size(12, 768, 12), "large": size(24, 1024, 16)},
    to_hf=to_hf,
    from_hf=from_hf,
    base="roberta.",
    decoder="lm_head.decoder",
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.word_embeddings"),
        ("encoder.position.table", "{base}embeddings.position_embeddings"),
        ("encoder.embeddings.segment", "{base}embeddings.token_type_embeddings"),
        ("encoder.embeddings.norm", "{base}embeddings.LayerNorm"),
        *((f"encoder.layers.{{n}}.{ours}", f"{{base}}encoder.layer.{{n}}.{theirs}") for ours, theirs in LAYER),
        *HEADS,
    ),
    renamed=RENAMED,
    architectures={
        frozenset(): "RobertaModel",
        frozenset({"masked_lm"}): "RobertaForMaskedLM",
        frozenset({"sequence"}): "RobertaForSequenceClassification",
        frozenset({"token"}): "RobertaForTokenClassification",
        frozenset({"span"}): "RobertaForQuestionAnswering",
        frozenset({"choice"}): "RobertaForMultipleChoice",
    },
)
