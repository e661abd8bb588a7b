"""The encoder of the first Transformer: fixed sines, scaled words, relu, no segments. Source: arXiv:1706.03762.

No published encoder-only format has it, so its models are saved as bertctl's own.
"""

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.bert import size
from bertctl.variants.family import Family, Fields

COMMON: Fields = {
    "position": "sinusoidal",
    "type_vocab_size": 0,
    "embedding_norm": False,
    "scale_embedding": True,
    "hidden_act": "relu",
    "attention_probs_dropout_prob": 0.0,  # section 5.4 names the sums of embeddings and the outputs of parts only
    "layer_norm_eps": 1e-6,
    "initializer": "xavier",  # scaled word embeddings then have the deviation of the sines, about 1
}


def to_hf(config: EncoderConfig) -> Fields | None:
    """There is no published format."""
    return None


def from_hf(fields: Fields) -> EncoderConfig:
    """There is nothing to read. Errors: ValueError."""
    raise ValueError("model_type transformer is no published format")


TRANSFORMER = Family(
    model_type="transformer",
    paper="arXiv:1706.03762",
    common=COMMON,
    sizes={
        "base": size(6, 512, 8),
        "big": {**size(6, 1024, 16), "hidden_dropout_prob": 0.3},
    },
    to_hf=to_hf,
    from_hf=from_hf,
    base="",
    tensor_names=(),
    architectures={},
)
