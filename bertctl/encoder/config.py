"""What an encoder is, as data. No torch here: recipes are checked without it."""

from dataclasses import dataclass
from typing import Literal, get_args

Position = Literal["learned", "grid", "sinusoidal", "rotary", "none"]
RelativePosition = Literal["none", "bucketed", "disentangled"]
AttentionKind = Literal["full", "causal", "local", "local_global", "linear", "causal_linear"]
Norm = Literal["layer", "rms"]
LayerSharing = Literal["none", "all", "attention", "feed_forward"]
NormPlace = Literal["post", "pre"]
FeedForward = Literal["mlp", "glu"]
Pooling = Literal["cls", "mean", "max", "attention"]
Activation = Literal["gelu", "gelu_new", "relu", "silu", "tanh"]
Initializer = Literal["normal", "depth_scaled", "fan_in", "xavier", "small_embedding"]
AXES: dict[str, tuple[str, ...]] = {
    "position": get_args(Position),
    "relative_position": get_args(RelativePosition),
    "norm": get_args(Norm),
    "norm_place": get_args(NormPlace),
    "layer_sharing": get_args(LayerSharing),
    "feed_forward": get_args(FeedForward),
    "hidden_act": get_args(Activation),
    "pooler_act": get_args(Activation),
    "pooling": get_args(Pooling),
    "initializer": get_args(Initializer),
}
COUNTS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes under their Hugging Face names, and one field for each axis along which encoders differ.

    `embedding_size` factorises the embeddings: they are projected to `hidden_size` (ALBERT, arXiv:1909.11942);
    `type_vocab_size` 0 leaves the segment embeddings out (DistilBERT, arXiv:1910.01108). `position_after_padding`
    counts places from `pad_token_id` + 1 (RoBERTa, arXiv:1907.11692). `layer_sharing` says which part of a layer all
    layers of a group have in common; there are `num_hidden_groups` of these (ALBERT). `pooling` is how heads for whole
    texts see one: cls through a dense layer with `pooler_act`, attention by learned weights, mean and max as they are;
    with `label_transform` all are as they are, and every head for labels starts with a dense layer and a norm instead.
    `conv_kernel_size` above 0 mixes neighbouring embeddings into the first layer's output (DeBERTa's second version).
    An encoder with an `image_size` reads square patches of images in place of tokens: it has no vocabulary, and its
    `max_position_embeddings` are the patches and a class token (ViT, arXiv:2010.11929).
    `mask_decoder` predicts masked tokens by DeBERTa's decoder (heads/mask_decoder.py).
    `attention` is the kind of each layer, over and over, and is kept in its shortest form. Errors: ValueError for
    fields that do not fit each other.
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
    initializer: Initializer = "normal"
    initializer_range: float = 0.02
    position: Position = "learned"
    position_after_padding: bool = False
    rope_theta: float = 10_000.0
    local_rope_theta: float | None = None
    relative_position: RelativePosition = "none"
    relative_buckets: int = 32
    relative_max_distance: int = 128
    attention: tuple[AttentionKind, ...] = ("full",)
    attention_window_tokens: int = 128
    global_every_tokens: int = 0
    layer_sharing: LayerSharing = "none"
    num_hidden_groups: int = 1
    norm: Norm = "layer"
    norm_place: NormPlace = "post"
    skip_first_norm: bool = False
    feed_forward: FeedForward = "mlp"
    use_bias: bool = True
    conv_kernel_size: int = 0
    label_transform: bool = False
    mask_decoder: bool = False
    image_size: int = 0
    patch_size: int = 16
    num_channels: int = 3

    def __post_init__(self) -> None:
        for name in (*COUNTS, *(("patch_size", "num_channels") if self.image_size else ("vocab_size",))):
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
        object.__setattr__(self, "attention", _shortest(tuple(self.attention), self.num_hidden_layers))
        check_attention(self)
        check_sharing(self)
        check_images(self)
        if self.initializer == "small_embedding" and not self.embedding_norm:
            raise ValueError("initializer small_embedding needs embedding_norm, which gives embeddings their length")
        if self.mask_decoder and (self.position, self.norm_place) != ("none", "post"):
            got = f"position {self.position} and norm_place {self.norm_place}"
            raise ValueError(f"mask_decoder adds places at the end, before norms: got {got}, expected none and post")
        if self.position_after_padding and self.position != "learned":
            raise ValueError(f"position_after_padding is for learned positions, got {self.position}")

    @property
    def num_patches(self) -> int:
        """Patches of an image of the size that the positions are made for; 0 if tokens are read."""
        return (self.image_size // self.patch_size) ** 2

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

    def attention_of(self, layer: int) -> AttentionKind:
        """What layer number `layer` (the first is 0) sees."""
        return self.attention[layer % len(self.attention)]


def check_attention(config: EncoderConfig) -> None:
    """Raise ValueError if the fields for attention and relative positions do not fit each other."""
    unknown = [kind for kind in config.attention if kind not in get_args(AttentionKind)]
    if unknown or not config.attention:
        got = repr(unknown[0]) if unknown else "nothing"
        raise ValueError(f"attention holds {got}, expected one or more of {', '.join(get_args(AttentionKind))}")
    window = config.attention_window_tokens
    if window < 2 or window % 2:
        raise ValueError(f"attention_window_tokens is {window}, expected an even number of at least 2")
    if config.global_every_tokens < 0:
        raise ValueError(f"global_every_tokens is {config.global_every_tokens}, expected 0 or more")
    if config.skip_first_norm and config.norm_place != "pre":
        raise ValueError("skip_first_norm leaves out a norm before attention, which norm_place post does not have")
    if config.conv_kernel_size and (config.conv_kernel_size % 2 == 0 or "causal" in " ".join(config.attention)):
        raise ValueError(
            f"conv_kernel_size is {config.conv_kernel_size}, expected 0 or an odd number, and 0 beside causal attention"
        )
    if config.relative_position == "none":
        return
    if {"linear", "causal_linear"} & set(config.attention):
        raise ValueError("relative_position adds to scores, and linear attention has none")
    exact = config.relative_buckets // (4 if config.relative_position == "bucketed" else 2)
    if exact < 1 or config.relative_max_distance <= exact + 1:
        raise ValueError(
            f"relative_buckets {config.relative_buckets} with relative_max_distance {config.relative_max_distance}: "
            f"the first has to be at least 4, and the second more than {exact + 1} for it"
        )


def _shortest(kinds: tuple[AttentionKind, ...], layers: int) -> tuple[AttentionKind, ...]:
    """The shortest pattern that gives each of `layers` layers the same kind as `kinds` over and over, so that equal
    encoders have equal configs."""
    each = [kinds[layer % len(kinds)] for layer in range(layers)] if kinds else []
    period = next((n for n in range(1, layers) if all(kind == each[i % n] for i, kind in enumerate(each))), layers)
    return tuple(each[:period])


def check_sharing(config: EncoderConfig) -> None:
    """Raise ValueError if there are more groups of layers than layers, or groups that share nothing."""
    groups = config.num_hidden_groups
    if not 1 <= groups <= config.num_hidden_layers:
        raise ValueError(f"num_hidden_groups is {groups}, expected 1 to {config.num_hidden_layers}")
    if groups > 1 and config.layer_sharing == "none":
        raise ValueError(f"num_hidden_groups is {groups}, but with layer_sharing none layers have nothing in common")
    if config.layer_sharing in ("all", "attention") and config.skip_first_norm:
        raise ValueError(
            f"skip_first_norm sets the first layer apart, which layer_sharing {config.layer_sharing} shares"
        )


NOT_OF_IMAGES = ("vocab_size", "type_vocab_size", "embedding_size", "scale_embedding", "position_after_padding")


def check_images(config: EncoderConfig) -> None:
    """Settle the number of positions of an image. Raise ValueError if the fields for images do not fit each other."""
    if not config.image_size:
        if config.position == "grid":
            raise ValueError("position grid is for images, and there is no image_size")
        return
    if config.image_size < 0 or config.image_size % config.patch_size:
        raise ValueError(f"image_size {config.image_size} is not a multiple of patch_size {config.patch_size}")
    given = [name for name in NOT_OF_IMAGES if getattr(config, name)]
    if given or config.conv_kernel_size:
        name = given[0] if given else "conv_kernel_size"
        raise ValueError(f"{name} is {getattr(config, name)!r}, but an encoder of images has no such thing")
    object.__setattr__(config, "max_position_embeddings", 1 + config.num_patches)
