"""BERT. Source: arXiv:1810.04805; the small sizes: arXiv:1908.08962."""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.family import Family, Fields

SAME_NAME = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "pad_token_id",
    "layer_norm_eps",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
)


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of a `BertConfig`; None without segments, which BertModel needs."""
    if config.type_vocab_size == 0:
        return None
    return {name: getattr(config, name) for name in SAME_NAME} | {"position_embedding_type": "absolute"}


def from_hf(fields: Fields) -> EncoderConfig:
    """A `BertConfig`'s fields as ours; fields that are not there have BERT's published defaults."""
    only_absolute(fields)
    return EncoderConfig(**{name: fields[name] for name in SAME_NAME if name in fields})


def only_absolute(fields: Fields) -> None:
    """Raise ValueError for the relative positions that some checkpoints of BERT's kind have."""
    if fields.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError(f"position_embedding_type is {fields['position_embedding_type']!r}, only 'absolute' is known")


LAYER = (
    ("attention.query", "attention.self.query"),
    ("attention.key", "attention.self.key"),
    ("attention.value", "attention.self.value"),
    ("attention.output", "attention.output.dense"),
    ("attention_norm", "attention.output.LayerNorm"),
    ("feed_forward.up", "intermediate.dense"),
    ("feed_forward.down", "output.dense"),
    ("feed_forward_norm", "output.LayerNorm"),
)


def size(layers: int, width: int, heads: int) -> Fields:
    """BERT's proportions: the feed-forward layer is four times as wide."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }


BERT = Family(
    model_type="bert",
    paper="arXiv:1810.04805",
    common={},
    sizes={
        "tiny": size(2, 128, 2),
        "mini": size(4, 256, 4),
        "small": size(4, 512, 8),
        "medium": size(8, 512, 8),
        "base": size(12, 768, 12),
        "large": size(24, 1024, 16),
    },
    to_hf=to_hf,
    from_hf=from_hf,
    base="bert.",
    decoder="cls.predictions.decoder",
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.word_embeddings"),
        ("encoder.position.table", "{base}embeddings.position_embeddings"),
        ("encoder.embeddings.segment", "{base}embeddings.token_type_embeddings"),
        ("encoder.embeddings.norm", "{base}embeddings.LayerNorm"),
        *((f"encoder.layers.{{n}}.{ours}", f"{{base}}encoder.layer.{{n}}.{theirs}") for ours, theirs in LAYER),
        ("pooler.dense", "{base}pooler.dense"),
        ("heads.masked_lm.transform", "cls.predictions.transform.dense"),
        ("heads.masked_lm.norm", "cls.predictions.transform.LayerNorm"),
        ("heads.masked_lm", "cls.predictions"),
        ("heads.sentence_pair.output", "cls.seq_relationship"),
        ("heads.sequence.output", "classifier"),
        ("heads.token.output", "classifier"),
        ("heads.span.output", "qa_outputs"),
        ("heads.choice.output", "classifier"),
    ),
    architectures={
        frozenset(): "BertModel",
        frozenset({"masked_lm", "sentence_pair"}): "BertForPreTraining",
        frozenset({"masked_lm"}): "BertForMaskedLM",
        frozenset({"sentence_pair"}): "BertForNextSentencePrediction",
        frozenset({"sequence"}): "BertForSequenceClassification",
        frozenset({"token"}): "BertForTokenClassification",
        frozenset({"span"}): "BertForQuestionAnswering",
        frozenset({"choice"}): "BertForMultipleChoice",
    },
)
