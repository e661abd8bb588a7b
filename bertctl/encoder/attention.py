"""Multi-head self-attention.

Shapes: B batch, T tokens, H heads, D head size, E hidden size.
"""

from torch import Tensor, nn

from bertctl.encoder.kernels import attend, reference
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.positions import NoPosition
from bertctl.encoder.product import project
from bertctl.encoder.scope import Scope
from bertctl.encoder.unpadding import Packing, attend_packed


def at_places(hidden: Tensor, places: Tensor | None) -> Tensor:
    """[B, T, E] -> the rows [N, E] at `places` [N] of the flattened tokens; all as they are without `places`."""
    return hidden if places is None else hidden.flatten(0, 1)[places]


class Attention(nn.Module):
    """Every token looks at the real tokens that its layer's pattern lets it see. Source: arXiv:1706.03762, section
    3.2.2."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float, use_bias: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.query = nn.Linear(hidden_size, hidden_size, bias=use_bias)
        self.key = nn.Linear(hidden_size, hidden_size, bias=use_bias)
        self.value = nn.Linear(hidden_size, hidden_size, bias=use_bias)
        self.output = nn.Linear(hidden_size, hidden_size, bias=use_bias)

    def forward(
        self,
        hidden: Tensor,
        key_mask: Tensor | None,
        position: NoPosition,
        pattern: Pattern,
        want_weights: bool = False,
        places: Tensor | None = None,
        packing: Packing | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """[B, T, E] -> ([B, T, E], or [N, E] for `places` [N] of the flattened tokens; weights [B, H, T, T] if asked
        for). With a `packing` of the batch [B, T], `hidden` and what is returned are [1, tokens, E]."""
        q, k, v = self._projected(hidden)
        q, k = position.rotate(q, k, pattern.is_local, None if packing is None else packing.places)
        score_bias = position.score_bias(self.queries, self.keys)
        scope = Scope(key_mask, pattern, score_bias, self.dropout if self.training else 0.0)
        weights: Tensor | None = None
        if want_weights:
            context, weights = reference(q, k, v, scope)
        elif packing is not None:
            context = attend_packed(q, k, v, packing, scope)
        else:
            context = attend(q, k, v, scope)
        return project(at_places(context.transpose(1, 2).flatten(2), places), (self.output,)), weights

    def queries(self, hidden: Tensor) -> Tensor:
        """[B, T, E] -> [B, H, T, D]."""
        return self._split(self.query(hidden))

    def keys(self, hidden: Tensor) -> Tensor:
        """[B, T, E] -> [B, H, T, D]."""
        return self._split(self.key(hidden))

    def _projected(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [B, H, T, D]."""
        q, k, v = project(hidden, (self.query, self.key, self.value)).chunk(3, dim=-1)
        return self._split(q), self._split(k), self._split(v)

    def _split(self, projected: Tensor) -> Tensor:
        """[B, T, E] -> [B, H, T, D]."""
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
