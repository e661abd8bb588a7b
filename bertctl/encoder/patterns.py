"""Which keys a query may look at, judged by their places alone.

Shapes: Q places of queries, K places of keys, T tokens; `*` any leading dimensions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bertctl.encoder.config import AttentionKind, EncoderConfig


@dataclass(frozen=True)
class Pattern:
    """The attention of one layer.

    full and linear see every token; causal and causal_linear none that comes later; local those at most
    `window_tokens // 2` away on either side (ModernBERT, arXiv:2412.13663); local_global those and the global tokens,
    which see all and are seen by all (Longformer, arXiv:2004.05150, here with one set of projections): the first
    token, and every `global_every_tokens`-th if that is not 0.
    """

    kind: AttentionKind = "full"
    window_tokens: int = 128
    global_every_tokens: int = 0

    @property
    def is_linear(self) -> bool:
        """Whether weights come from a feature map instead of a softmax."""
        return self.kind in ("linear", "causal_linear")

    @property
    def is_local(self) -> bool:
        """Whether most tokens see a window only."""
        return self.kind in ("local", "local_global")

    def is_global(self, places: Tensor) -> Tensor:
        """Places [*] -> [*] bool: the tokens that see all and are seen by all in local_global."""
        first = places == 0
        return first | (places % self.global_every_tokens == 0) if self.global_every_tokens else first

    def global_places(self, tokens: int, like: Tensor) -> Tensor:
        """[G] int64: where the global tokens of a text stand; none for other kinds than local_global."""
        step = self.global_every_tokens or tokens
        return torch.arange(0, tokens if self.kind == "local_global" else 0, step, device=like.device)

    def visible(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Places of queries [*, Q] and of keys [*, K] -> [*, Q, K], true where one may look at the other; None if
        everywhere."""
        if self.kind in ("full", "linear"):
            return None
        away = distances(queries, keys)
        if self.kind in ("causal", "causal_linear"):
            return away <= 0
        near = away.abs() <= self.window_tokens // 2
        if self.kind == "local":
            return near
        return near | self.is_global(queries)[..., :, None] | self.is_global(keys)[..., None, :]


def distances(queries: Tensor, keys: Tensor) -> Tensor:
    """Places of queries [*, Q] and of keys [*, K] -> [*, Q, K]: how far after its query each key stands."""
    return keys[..., None, :] - queries[..., :, None]


def places(tokens: int, like: Tensor) -> Tensor:
    """[tokens] int64: 0, 1, 2, ... where `like` lies."""
    return torch.arange(tokens, device=like.device)


def layer_patterns(config: EncoderConfig) -> tuple[Pattern, ...]:
    """The pattern of each layer: the kinds that `config.attention` lists, over and over."""
    kinds = map(config.attention_of, range(config.num_hidden_layers))
    return tuple(Pattern(kind, config.attention_window_tokens, config.global_every_tokens) for kind in kinds)
