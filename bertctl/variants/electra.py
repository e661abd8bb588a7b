"""ELECTRA: BERT's encoder, trained to tell which tokens a small generator replaced. Source: arXiv:2003.10555.

The sizes are those of the discriminator, which is what is fine-tuned; the generator is as wide as a recipe's
`pretrain.objective.generator_width` makes it.
"""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.bert import LAYER, SAME_NAME, only_absolute, size
from bertctl.variants.family import Family, Fields

COMMON: Fields = {"pooler_act": "gelu"}  # of its classifier; it has no pooler of its own


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of an `ElectraConfig`; None without segments, which ElectraModel needs, for another activation than
    gelu, which its heads always have, and for a projection between equal widths, which it leaves out."""
    if config.type_vocab_size == 0 or config.hidden_act != "gelu" or config.embedding_size == config.hidden_size:
        return None
    fields = {name: getattr(config, name) for name in SAME_NAME}
    summary = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
    summary["summary_last_dropout"] = config.hidden_dropout_prob
    return fields | {"embedding_size": config.embedding_size or config.hidden_size} | summary


def from_hf(fields: Fields) -> EncoderConfig:
    """An `ElectraConfig`'s fields as ours."""
    only_absolute(fields)
    if fields.get("hidden_act", "gelu") != "gelu":
        raise ValueError(f"hidden_act is {fields['hidden_act']!r}, but ELECTRA's heads have gelu")
    given = {name: fields[name] for name in SAME_NAME if name in fields}
    width = fields.get("embedding_size", 128)
    return EncoderConfig(**given, **COMMON, embedding_size=None if width == given["hidden_size"] else width)


ELECTRA = Family(
    model_type="electra",
    paper="arXiv:2003.10555",
    common=COMMON,
    sizes={
        "small": {**size(12, 256, 4), "embedding_size": 128},
        "base": size(12, 768, 12),
        "large": size(24, 1024, 16),
    },
    to_hf=to_hf,
    from_hf=from_hf,
    base="electra.",
    decoder="generator_lm_head",
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.word_embeddings"),
        ("encoder.position.table", "{base}embeddings.position_embeddings"),
        ("encoder.embeddings.segment", "{base}embeddings.token_type_embeddings"),
        ("encoder.embeddings.norm", "{base}embeddings.LayerNorm"),
        ("encoder.embeddings.project", "{base}embeddings_project"),
        *((f"encoder.layers.{{n}}.{ours}", f"{{base}}encoder.layer.{{n}}.{theirs}") for ours, theirs in LAYER),
        ("pooler.dense", "classifier.dense"),
        ("heads.masked_lm.transform", "generator_predictions.dense"),
        ("heads.masked_lm.norm", "generator_predictions.LayerNorm"),
        ("heads.masked_lm", "generator_lm_head"),
        ("heads.replaced_token.dense", "discriminator_predictions.dense"),
        ("heads.replaced_token.output", "discriminator_predictions.dense_prediction"),
        ("heads.sequence.output", "classifier.out_proj"),
        ("heads.token.output", "classifier"),
        ("heads.span.output", "qa_outputs"),
        ("heads.choice.output", "classifier"),
    ),
    renamed={frozenset({"choice"}): (("pooler.dense", "sequence_summary.summary"),)},
    architectures={
        frozenset(): "ElectraModel",
        frozenset({"masked_lm"}): "ElectraForMaskedLM",
        frozenset({"replaced_token"}): "ElectraForPreTraining",
        frozenset({"sequence"}): "ElectraForSequenceClassification",
        frozenset({"token"}): "ElectraForTokenClassification",
        frozenset({"span"}): "ElectraForQuestionAnswering",
        frozenset({"choice"}): "ElectraForMultipleChoice",
    },
)
