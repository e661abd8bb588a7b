"""ModernBERT: rotary positions with two bases, gated feed-forward layers, no biases, norms before, and a window in two
layers of three. Source: arXiv:2412.13663, its table 4, and the released config.json files.
"""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.family import Family, Fields

COMMON: Fields = {
    "max_position_embeddings": 8192,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-5,
    "pooling": "mean",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "position": "rotary",
    "rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
    "attention": ("full", "local", "local"),
    "norm_place": "pre",
    "skip_first_norm": True,
    "feed_forward": "glu",
    "use_bias": False,
    "label_transform": True,
    "initializer": "depth_scaled",
}
SAME_NAME = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "pad_token_id",
    "initializer_range",
)
# theirs -> ours, several for one where their class could tell apart what ours does not
RENAMED = {
    "norm_eps": "layer_norm_eps",
    "hidden_activation": "hidden_act",
    "classifier_activation": "hidden_act",
    "classifier_pooling": "pooling",
    "embedding_dropout": "hidden_dropout_prob",
    "mlp_dropout": "hidden_dropout_prob",
    "classifier_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "attention_bias": "use_bias",
    "mlp_bias": "use_bias",
    "norm_bias": "use_bias",
    "classifier_bias": "use_bias",
    "local_attention": "attention_window_tokens",
    "global_rope_theta": "rope_theta",
    "local_rope_theta": "local_rope_theta",
}
CLASS_DEFAULTS: Fields = {  # of `ModernBertConfig`
    **{theirs: COMMON[ours] for theirs, ours in RENAMED.items() if ours in COMMON},
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
    "classifier_pooling": "cls",
    "local_attention": 128,
    "pad_token_id": 50283,
    "decoder_bias": True,
}
NO_TOKENS: Fields = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
KINDS = {"full_attention": "full", "sliding_attention": "local"}


def to_hf(config: EncoderConfig) -> Fields | None:
    """The fields of a `ModernBertConfig`, without the ids that its class would take for those of special tokens; None
    unless every n-th layer, from the first on, sees everything and the others a window, and for pooling that its
    classifier does not have."""
    every = len(config.attention)
    if config.attention != ("full", *["local"] * (every - 1)) or config.pooling not in ("cls", "mean"):
        return None
    theirs = {ours: name for name, ours in KINDS.items()}
    kinds = [theirs[config.attention_of(layer)] for layer in range(config.num_hidden_layers)]
    fields = {name: getattr(config, name) for name in SAME_NAME}
    fields |= {name: getattr(config, ours) for name, ours in RENAMED.items()}
    fields |= {"global_attn_every_n_layers": every, "layer_types": kinds, "decoder_bias": True}
    return fields | NO_TOKENS


def from_hf(fields: Fields) -> EncoderConfig:
    """A `ModernBertConfig`'s fields as ours, as released and as transformers 5 writes them. Errors: ValueError for
    what this encoder does not tell apart."""
    fields = CLASS_DEFAULTS | rotary_bases(fields)
    found: Fields = {"attention": layer_kinds(fields)}
    for theirs, ours in RENAMED.items():
        if found.setdefault(ours, fields[theirs]) != fields[theirs] and not theirs.endswith("dropout"):
            raise ValueError(f"{theirs} is {fields[theirs]!r}, but another field of its kind {found[ours]!r}")
    if not fields["decoder_bias"]:
        raise ValueError("decoder_bias is false, but the output of masked tokens always has a bias here")
    return EncoderConfig(**(COMMON | {name: fields[name] for name in SAME_NAME if name in fields} | found))


def rotary_bases(fields: Fields) -> Fields:
    """The fields with the rotary bases as they were released, which transformers 5 writes as `rope_parameters`."""
    found: Fields = {}
    for kind, theta in (("full_attention", "global_rope_theta"), ("sliding_attention", "local_rope_theta")):
        rope = (fields.get("rope_parameters") or {}).get(kind) or {}
        if rope.get("rope_type", "default") != "default":
            raise ValueError(f"rope_type is {rope['rope_type']!r}, only 'default' is known")
        if "rope_theta" in rope:
            found[theta] = rope["rope_theta"]
    return fields | found


def layer_kinds(fields: Fields) -> tuple[str, ...]:
    """What each layer sees: by name in transformers 5, by number in the released files."""
    kinds = fields.get("layer_types")
    if kinds is None:
        return ("full", *["local"] * (fields.get("global_attn_every_n_layers", 3) - 1))
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"layer_types holds {unknown[0]!r}, only {' and '.join(KINDS)} are known")
    return tuple(KINDS[kind] for kind in kinds)


LAYER = (
    (("attention.query", "attention.key", "attention.value"), "attn.Wqkv"),
    (("attention.output",), "attn.Wo"),
    (("attention_norm",), "attn_norm"),
    (("feed_forward.gate", "feed_forward.up"), "mlp.Wi"),
    (("feed_forward.down",), "mlp.Wo"),
    (("feed_forward_norm",), "mlp_norm"),
)
LABEL_HEADS = ("sequence", "token", "span", "choice")

MODERNBERT = Family(
    model_type="modernbert",
    paper="arXiv:2412.13663",
    common=COMMON,
    sizes={
        "base": {
            "num_hidden_layers": 22,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "intermediate_size": 1152,
        },
        "large": {
            "num_hidden_layers": 28,
            "hidden_size": 1024,
            "num_attention_heads": 16,
            "intermediate_size": 2624,
        },
    },
    to_hf=to_hf,
    from_hf=from_hf,
    base="model.",
    decoder="decoder",
    tensor_names=(
        ("encoder.embeddings.word", "{base}embeddings.tok_embeddings"),
        ("encoder.embeddings.norm", "{base}embeddings.norm"),
        *((tuple(f"encoder.layers.{{n}}.{part}" for part in ours), f"{{base}}layers.{{n}}.{to}") for ours, to in LAYER),
        ("encoder.final_norm", "{base}final_norm"),
        ("heads.masked_lm.transform", "head.dense"),
        ("heads.masked_lm.norm", "head.norm"),
        ("heads.masked_lm", "decoder"),
        *((f"heads.{head}.transform.{part}", f"head.{part}") for head in LABEL_HEADS for part in ("dense", "norm")),
        *((f"heads.{head}.output", "classifier") for head in LABEL_HEADS),
    ),
    architectures={
        frozenset(): "ModernBertModel",
        frozenset({"masked_lm"}): "ModernBertForMaskedLM",
        frozenset({"sequence"}): "ModernBertForSequenceClassification",
        frozenset({"token"}): "ModernBertForTokenClassification",
        frozenset({"span"}): "ModernBertForQuestionAnswering",
        frozenset({"choice"}): "ModernBertForMultipleChoice",
    },
)
