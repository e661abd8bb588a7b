"""DistilBERT: BERT without segments and, outside its classifier, without a pooler. Source: arXiv:1910.01108."""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.bert import size
from bertctl.variants.family import Family, Fields

# ours -> theirs; its own names for the same sizes
RENAMED = {
    "vocab_size": "vocab_size",
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "max_position_embeddings": "max_position_embeddings",
    "pad_token_id": "pad_token_id",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "initializer_range": "initializer_range",
}
COMMON: Fields = {"type_vocab_size": 0, "pooler_act": "relu"}


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of a `DistilBertConfig`; what it has no field for is checked by reading it back. The classifier's own
    dropout is written equal to the encoder's: that is the one our head uses."""
    fields = {theirs: getattr(config, ours) for ours, theirs in RENAMED.items()}
    return fields | {"sinusoidal_pos_embds": False, "seq_classif_dropout": config.hidden_dropout_prob}


def from_hf(fields: Fields) -> EncoderConfig:
    """A `DistilBertConfig`'s fields as ours; sinusoidal positions are stored in the file like learned ones."""
    return EncoderConfig(**{ours: fields[theirs] for ours, theirs in RENAMED.items() if theirs in fields}, **COMMON)


LAYER = (
    ("attention.query", "attention.q_lin"),
    ("attention.key", "attention.k_lin"),
    ("attention.value", "attention.v_lin"),
    ("attention.output", "attention.out_lin"),
    ("attention_norm", "sa_layer_norm"),
    ("feed_forward.up", "ffn.lin1"),
    ("feed_forward.down", "ffn.lin2"),
    ("feed_forward_norm", "output_layer_norm"),
)

DISTILBERT = Family(
    model_type="distilbert",
    paper="arXiv:1910.01108",
    common=COMMON,
    sizes={"base": size(6, 768, 12)},
    to_hf=to_hf,
    from_hf=from_hf,
    base="distilbert.",
    decoder="vocab_projector",
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.word_embeddings"),
        ("encoder.position.table", "{base}embeddings.position_embeddings"),
        ("encoder.embeddings.norm", "{base}embeddings.LayerNorm"),
        *((f"encoder.layers.{{n}}.{ours}", f"{{base}}transformer.layer.{{n}}.{theirs}") for ours, theirs in LAYER),
        ("pooler.dense", "pre_classifier"),
        ("heads.masked_lm.transform", "vocab_transform"),
        ("heads.masked_lm.norm", "vocab_layer_norm"),
        ("heads.masked_lm", "vocab_projector"),
        ("heads.sequence.output", "classifier"),
        ("heads.token.output", "classifier"),
        ("heads.span.output", "qa_outputs"),
        ("heads.choice.output", "classifier"),
    ),
    architectures={
        frozenset(): "DistilBertModel",
        frozenset({"masked_lm"}): "DistilBertForMaskedLM",
        frozenset({"sequence"}): "DistilBertForSequenceClassification",
        frozenset({"token"}): "DistilBertForTokenClassification",
        frozenset({"span"}): "DistilBertForQuestionAnswering",
        frozenset({"choice"}): "DistilBertForMultipleChoice",
    },
)
