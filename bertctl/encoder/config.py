"""What an encoder is, as data. No torch here: recipes are checked without it."""

from dataclasses import dataclass
from typing import Literal, get_args

Position = Literal["learned", "sinusoidal", "rotary", "none"]
Norm = Literal["layer", "rms"]
LayerSharing = Literal["none", "all", "attention", "feed_forward"]
NormPlace = Literal["post", "pre"]
FeedForward = Literal["mlp", "glu"]
Pooling = Literal["cls", "mean", "max", "attention"]
Activation = Literal["gelu", "gelu_new", "relu", "silu", "tanh"]
AXES: dict[str, tuple[str, ...]] = {
    "position": get_args(Position),
    "norm": get_args(Norm),
    "norm_place": get_args(NormPlace),
    "layer_sharing": get_args(LayerSharing),
    "feed_forward": get_args(FeedForward),
    "hidden_act": get_args(Activation),
    "pooler_act": get_args(Activation),
    "pooling": get_args(Pooling),
}
COUNTS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes under their Hugging Face names, and one field for each axis along which encoders differ.

    `embedding_size` factorises the embeddings: they are projected to `hidden_size` (ALBERT, arXiv:1909.11942);
    `type_vocab_size` 0 leaves the segment embeddings out (DistilBERT, arXiv:1910.01108). `position_after_padding`
    counts places from `pad_token_id` + 1 (RoBERTa, arXiv:1907.11692). `layer_sharing` says which part of a layer all
    layers of a group have in common; there are `num_hidden_groups` of these (ALBERT). `pooling` is how heads for whole
    texts see one: cls through a dense layer with `pooler_act`, attention by learned weights, mean and max as they are.
    Errors: ValueError for sizes that do not fit.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    pad_token_id: int = 0
    embedding_size: int | None = None
    embedding_norm: bool = True
    scale_embedding: bool = False
    layer_norm_eps: float = 1e-12
    hidden_act: Activation = "gelu"
    pooler_act: Activation = "tanh"
    pooling: Pooling = "cls"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    initializer_range: float = 0.02
    position: Position = "learned"
    position_after_padding: bool = False
    rope_theta: float = 10_000.0
    layer_sharing: LayerSharing = "none"
    num_hidden_groups: int = 1
    norm: Norm = "layer"
    norm_place: NormPlace = "post"
    feed_forward: FeedForward = "mlp"
    use_bias: bool = True

    def __post_init__(self) -> None:
        for name in COUNTS:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}, expected a whole number of at least 1")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        if self.position == "rotary" and self.head_size % 2:
            raise ValueError(f"rotary positions need an even head size, got {self.head_size}")
        for name, choices in AXES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}")
        check_sharing(self)
        if self.position_after_padding and self.position != "learned":
            raise ValueError(f"position_after_padding is for learned positions, got {self.position}")

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def position_offset(self) -> int:
        """Rows of the position table before that of the first token."""
        return self.pad_token_id + 1 if self.position_after_padding else 0

    def group_of(self, layer: int) -> int:
        """The group that layer number `layer` (the first is 0) is in; groups are as even as they can be."""
        return layer * self.num_hidden_groups // self.num_hidden_layers


def check_sharing(config: EncoderConfig) -> None:
    """Raise ValueError if there are more groups of layers than layers, or groups that share nothing."""
    groups = config.num_hidden_groups
    if not 1 <= groups <= config.num_hidden_layers:
        raise ValueError(f"num_hidden_groups is {groups}, expected 1 to {config.num_hidden_layers}")
    if groups > 1 and config.layer_sharing == "none":
        raise ValueError(f"num_hidden_groups is {groups}, but with layer_sharing none layers have nothing in common")
