"""What an encoder is, as data. No torch here: recipes are checked without it."""

from dataclasses import dataclass
from typing import Literal, get_args

Position = Literal["learned", "sinusoidal", "rotary", "none"]
Norm = Literal["layer", "rms"]
NormPlace = Literal["post", "pre"]
FeedForward = Literal["mlp", "glu"]
Pooling = Literal["cls", "mean", "max", "attention"]
Activation = Literal["gelu", "gelu_new", "relu", "silu", "tanh"]
AXES: dict[str, tuple[str, ...]] = {
    "position": get_args(Position),
    "norm": get_args(Norm),
    "norm_place": get_args(NormPlace),
    "feed_forward": get_args(FeedForward),
    "hidden_act": get_args(Activation),
    "pooler_act": get_args(Activation),
    "pooling": get_args(Pooling),
}
COUNTS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes under their Hugging Face names, and one field for each axis along which encoders differ.

    `embedding_size` below `hidden_size` factorises the embeddings (ALBERT, arXiv:1909.11942); `type_vocab_size` 0
    leaves the segment embeddings out (DistilBERT, arXiv:1910.01108). `pooling` is how heads for whole texts see one:
    cls through a dense layer with `pooler_act`, attention by learned weights, mean and max as they are. Errors:
    ValueError for sizes that do not fit.
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
    layer_norm_eps: float = 1e-12
    hidden_act: Activation = "gelu"
    pooler_act: Activation = "tanh"
    pooling: Pooling = "cls"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    initializer_range: float = 0.02
    position: Position = "learned"
    rope_theta: float = 10_000.0
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

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads
