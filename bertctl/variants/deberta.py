"""DeBERTa, second and third version: disentangled attention over log buckets of distances, no absolute positions.

Source: arXiv:2006.03654 and, for the third, arXiv:2111.09543; sizes from the released config.json files. The third is
pretrained on replaced tokens. The enhanced mask decoder of the other two, which the released encoders come without, is
a recipe's `encoder.mask_decoder`.
"""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.bert import LAYER, SAME_NAME, size
from bertctl.variants.family import Family, Fields

COMMON: Fields = {
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "pooler_act": "gelu",
    "position": "none",
    "relative_position": "disentangled",
    "relative_buckets": 256,
    "relative_max_distance": 512,
}
RENAMED = {  # ours -> theirs
    **{name: name for name in SAME_NAME},
    "conv_kernel_size": "conv_kernel_size",
    "pooler_act": "pooler_hidden_act",
    "relative_buckets": "position_buckets",
    "relative_max_distance": "max_relative_positions",
}
FIXED: Fields = {  # what the released models have, and what a field that is not there means
    "relative_attention": (True, False),
    "share_att_key": (True, False),
    "norm_rel_ebd": ("layer_norm", "none"),
    "pos_att_type": (["c2p", "p2c"], []),
}
POSITIONS = {False: "none", True: "learned"}  # by their position_biased_input


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of a `DebertaV2Config`; the masked-LM head as Microsoft trained it (`legacy` false)."""
    if config.position not in POSITIONS.values():
        return None
    fields = {theirs: getattr(config, ours) for ours, theirs in RENAMED.items()}
    fields |= {name: value for name, (value, _) in FIXED.items()} | {"conv_act": config.hidden_act}
    return fields | {"position_biased_input": config.position == "learned", "pooler_dropout": 0.0, "legacy": False}


def from_hf(fields: Fields) -> EncoderConfig:
    """A `DebertaV2Config`'s fields as ours. Errors: ValueError for attention of another kind than the released."""
    kinds = fields.get("pos_att_type") or []
    kinds = sorted(kinds.split("|") if isinstance(kinds, str) else kinds)
    for name, (value, absent) in FIXED.items():
        got = kinds if name == "pos_att_type" else fields.get(name, absent)
        if got != value:
            raise ValueError(f"{name} is {got!r}, only {value!r} is known")
    if fields.get("position_buckets", -1) < 1:
        raise ValueError(f"position_buckets is {fields.get('position_buckets', -1)}, expected at least 1")
    if fields.get("conv_kernel_size", 0) and fields.get("conv_act", "tanh") != fields.get("hidden_act", "gelu"):
        raise ValueError(f"conv_act is {fields.get('conv_act', 'tanh')!r}, expected the same as hidden_act")
    if fields.get("conv_groups", 1) != 1:
        raise ValueError(f"conv_groups is {fields['conv_groups']!r}, only 1 is known")
    given = {ours: fields[theirs] for ours, theirs in RENAMED.items() if theirs in fields}
    given["position"] = POSITIONS[fields.get("position_biased_input", True)]
    if given.get("relative_max_distance", -1) < 1:
        given["relative_max_distance"] = given.get("max_position_embeddings", 512)
    return EncoderConfig(**(COMMON | given))


DEBERTA = Family(
    model_type="deberta-v2",
    paper="arXiv:2111.09543",
    common=COMMON,
    sizes={
        "xsmall": size(12, 384, 6),
        "small": size(6, 768, 12),
        "base": size(12, 768, 12),
        "large": size(24, 1024, 16),
        "v2-xlarge": {**size(24, 1536, 24), "conv_kernel_size": 3},
        "v2-xxlarge": {**size(48, 1536, 24), "conv_kernel_size": 3},
    },
    to_hf=to_hf,
    from_hf=from_hf,
    base="deberta.",
    decoder="lm_predictions.lm_head.decoder",
    spellings=(
        ("cls.predictions.transform.", "lm_predictions.lm_head."),
        ("cls.predictions.", "lm_predictions.lm_head."),
    ),
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.word_embeddings"),
        ("encoder.embeddings.segment", "{base}embeddings.token_type_embeddings"),
        ("encoder.embeddings.norm", "{base}embeddings.LayerNorm"),
        ("encoder.position.table", "{base}embeddings.position_embeddings"),
        ("encoder.position.relative.table", "{base}encoder.rel_embeddings"),
        ("encoder.position.relative.norm", "{base}encoder.LayerNorm"),
        *((f"encoder.layers.{{n}}.{ours}", f"{{base}}encoder.layer.{{n}}.{theirs}") for ours, theirs in LAYER),
        *(
            (f"encoder.layers.{{n}}.attention.{part}", f"{{base}}encoder.layer.{{n}}.attention.self.{part}_proj")
            for part in ("query", "key", "value")
        ),
        ("encoder.convolution.conv", "{base}encoder.conv.conv"),
        ("encoder.convolution.norm", "{base}encoder.conv.LayerNorm"),
        ("pooler.dense", "pooler.dense"),
        ("heads.masked_lm.transform", "lm_predictions.lm_head.dense"),
        ("heads.masked_lm.norm", "lm_predictions.lm_head.LayerNorm"),
        ("heads.masked_lm", "lm_predictions.lm_head"),
        ("heads.sequence.output", "classifier"),
        ("heads.token.output", "classifier"),
        ("heads.span.output", "qa_outputs"),
        ("heads.choice.output", "classifier"),
    ),
    architectures={
        frozenset(): "DebertaV2Model",
        frozenset({"masked_lm"}): "DebertaV2ForMaskedLM",
        frozenset({"sequence"}): "DebertaV2ForSequenceClassification",
        frozenset({"token"}): "DebertaV2ForTokenClassification",
        frozenset({"span"}): "DebertaV2ForQuestionAnswering",
        frozenset({"choice"}): "DebertaV2ForMultipleChoice",
    },
)
