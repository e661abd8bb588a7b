"""ALBERT: narrow embeddings projected up, and layers that share all their weights. Source: arXiv:1909.11942.

Its pairs are two segments in order or swapped (`second_segment: sentence_order`). The presets are version 2 of the
released models: no dropout, and the tanh form of gelu.
"""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.bert import SAME_NAME, only_absolute, size
from bertctl.variants.family import Family, Fields

FIELDS = (*SAME_NAME, "embedding_size", "num_hidden_groups")
COMMON: Fields = {
    "embedding_size": 128,
    "layer_sharing": "all",
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of an `AlbertConfig`; None without segments or without the projection, which AlbertModel needs. The
    classifier's own dropout is written equal to the encoder's: that is the one our heads use."""
    if config.type_vocab_size == 0 or config.embedding_size is None:
        return None
    fields = {name: getattr(config, name) for name in FIELDS}
    return fields | {"inner_group_num": 1, "classifier_dropout_prob": config.hidden_dropout_prob}


def from_hf(fields: Fields) -> EncoderConfig:
    """An `AlbertConfig`'s fields as ours; fields that are not there have the defaults of that class."""
    only_absolute(fields)
    if fields.get("inner_group_num", 1) != 1:
        raise ValueError(
            f"inner_group_num is {fields['inner_group_num']}, only 1 is known, as all released models have"
        )
    return EncoderConfig(**COMMON | {name: fields[name] for name in FIELDS if name in fields})


LAYER = (
    ("attention.query", "attention.query"),
    ("attention.key", "attention.key"),
    ("attention.value", "attention.value"),
    ("attention.output", "attention.dense"),
    ("attention_norm", "attention.LayerNorm"),
    ("feed_forward.up", "ffn"),
    ("feed_forward.down", "ffn_output"),
    ("feed_forward_norm", "full_layer_layer_norm"),
)
GROUP = "{base}encoder.albert_layer_groups.{group}.albert_layers.0."

ALBERT = Family(
    model_type="albert",
    paper="arXiv:1909.11942",
    common=COMMON,
    sizes={
        "base": size(12, 768, 12),
        "large": size(24, 1024, 16),
        "xlarge": size(24, 2048, 16),
        "xxlarge": size(12, 4096, 64),
    },
    to_hf=to_hf,
    from_hf=from_hf,
    base="albert.",
    decoder="predictions.decoder",
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.word_embeddings"),
        ("encoder.position.table", "{base}embeddings.position_embeddings"),
        ("encoder.embeddings.segment", "{base}embeddings.token_type_embeddings"),
        ("encoder.embeddings.norm", "{base}embeddings.LayerNorm"),
        ("encoder.embeddings.project", "{base}encoder.embedding_hidden_mapping_in"),
        *((f"encoder.layers.{{n}}.{ours}", GROUP + theirs) for ours, theirs in LAYER),
        ("pooler.dense", "{base}pooler"),
        ("heads.masked_lm.transform", "predictions.dense"),
        ("heads.masked_lm.norm", "predictions.LayerNorm"),
        ("heads.masked_lm", "predictions"),
        ("heads.sentence_pair.output", "sop_classifier.classifier"),
        ("heads.sequence.output", "classifier"),
        ("heads.token.output", "classifier"),
        ("heads.span.output", "qa_outputs"),
        ("heads.choice.output", "classifier"),
    ),
    architectures={
        frozenset(): "AlbertModel",
        frozenset({"masked_lm", "sentence_pair"}): "AlbertForPreTraining",
        frozenset({"masked_lm"}): "AlbertForMaskedLM",
        frozenset({"sequence"}): "AlbertForSequenceClassification",
        frozenset({"token"}): "AlbertForTokenClassification",
        frozenset({"span"}): "AlbertForQuestionAnswering",
        frozenset({"choice"}): "AlbertForMultipleChoice",
    },
)
