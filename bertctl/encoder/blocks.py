"""Local attention by blocks of queries that see their own window only: time and memory are linear in the length.

The texts of a batch stand one after the other, filled up to whole blocks, so that the window of block m starts m blocks
after the first: all windows are then one strided view of the keys, and nothing is copied. Windows that reach from one
text into the next belong to blocks of filling, which are dropped.

Shapes: B batch, H heads, T tokens, D head size, M blocks of the batch, N of one text, Q queries in a block, K keys in
its window, G global tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bertctl.encoder.patterns import Pattern, distances, places
from bertctl.encoder.relative import ScoreBias
from bertctl.encoder.softmax import Softmax

SMALLEST_BLOCK_TOKENS = 64


def block_tokens(pattern: Pattern) -> int:
    """Queries in a block: half a window, so that two thirds of the keys of a block are in a query's own window, but not
    so few that the products get small."""
    return max(pattern.window_tokens // 2, SMALLEST_BLOCK_TOKENS)


def keys_of_block(pattern: Pattern) -> int:
    """Keys that a block of queries sees: its own and half a window on either side."""
    return block_tokens(pattern) + pattern.window_tokens


def blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_mask: Tensor | None,
    pattern: Pattern,
    score_bias: ScoreBias | None,
    dropout: float,
    *,
    softmax: Softmax,
) -> Tensor:
    """`pattern`, which is local or local_global, over q, k, v [B, H, T, D]; key_mask [B, T], True = real token, None =
    all real; returns [B, H, T, D].

    Source: the sliding chunks of Longformer, arXiv:2004.05150, section 3.2 and appendix A.
    """
    batch, _, tokens, _ = q.shape
    real = key_mask if key_mask is not None else torch.ones(batch, tokens, dtype=torch.bool, device=q.device)
    cut = Cut(batch, tokens, pattern.window_tokens // 2, block_tokens(pattern))
    spots = pattern.global_places(tokens, q)
    queries, keys, values, seen = cut.queries(q), cut.windows(k), cut.windows(v), cut.seen(real)
    query_places, key_places = cut.places(q)
    mask = (distances(query_places[0], key_places[0]).abs() <= cut.half) & seen[:, None]
    if len(spots):  # each block sees them once, beside its window
        mask = torch.cat([mask & ~pattern.is_global(key_places)[:, None], cut.seen_spots(real[:, spots])], dim=-1)
        keys, values = (torch.cat([x, cut.spots(y[:, :, spots])], dim=2) for x, y in ((keys, k), (values, v)))
        away = distances(query_places, torch.cat([key_places, spots.expand(cut.kept, -1)], dim=-1))
    else:
        away = distances(query_places[0], key_places[0])
    bias = None if score_bias is None else score_bias(queries, keys, away)
    context = cut.together(softmax(queries, keys, values, mask[:, None], bias, dropout))
    if not len(spots):
        return context
    bias = None if score_bias is None else score_bias(q[:, :, spots], k, distances(spots, places(tokens, q)))
    return context.index_copy(2, spots, softmax(q[:, :, spots], k, v, real[:, None, None], bias, dropout))


@dataclass(frozen=True)
class Cut:
    """How a batch of texts is cut into blocks of `size` queries whose windows reach `half` tokens further."""

    batch: int
    tokens: int
    half: int
    size: int

    @property
    def filling(self) -> int:
        """Blocks after each text, so that its last window ends before the next text's first block."""
        return -(-2 * self.half // self.size)

    @property
    def each(self) -> int:
        """N: blocks of one text, with its filling."""
        return -(-self.tokens // self.size) + self.filling

    @property
    def kept(self) -> int:
        """M: blocks whose window does not reach beyond the end of the batch."""
        return self.batch * self.each - self.filling

    def line(self, x: Tensor, before: int) -> Tensor:
        """[B, T, ...] -> [B * N * size, ...], each text with `before` empty places first."""
        after = self.each * self.size - self.tokens - before
        return F.pad(x, (0, 0) * (x.ndim - 2) + (before, after)).flatten(0, 1)

    def queries(self, q: Tensor) -> Tensor:
        """[B, H, T, D] -> [M, H, Q, D]."""
        return self.line(q.transpose(1, 2), 0).unflatten(0, (-1, self.size))[: self.kept].transpose(1, 2)

    def windows(self, x: Tensor) -> Tensor:
        """[B, H, T, D] -> [M, H, K, D], a view in which neighbours overlap."""
        return self.line(x.transpose(1, 2), self.half).unfold(0, self.size + 2 * self.half, self.size).mT

    def seen(self, real: Tensor) -> Tensor:
        """[B, T] -> [M, K]: which keys of a window are real tokens of a text."""
        return self.line(real, self.half).unfold(0, self.size + 2 * self.half, self.size)

    def places(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Where queries [M, Q] and keys [M, K] stand in their text; the first keys of a text stand before it."""
        start = (places(self.kept, like) % self.each * self.size)[:, None]
        return start + places(self.size, like), start + places(self.size + 2 * self.half, like) - self.half

    def spots(self, x: Tensor) -> Tensor:
        """Global tokens [B, H, G, D] -> [M, H, G, D], for each block those of its text."""
        return x[:, None].expand(-1, self.each, -1, -1, -1).flatten(0, 1)[: self.kept]

    def seen_spots(self, real: Tensor) -> Tensor:
        """[B, G] -> [M, Q, G]."""
        return real.repeat_interleave(self.each, dim=0)[: self.kept, None].expand(-1, self.size, -1)

    def together(self, context: Tensor) -> Tensor:
        """[M, H, Q, D] -> [B, H, T, D]."""
        whole = F.pad(context, (0, 0) * 3 + (0, self.filling)).unflatten(0, (self.batch, self.each))
        return whole.transpose(1, 2).flatten(2, 3)[:, :, : self.tokens]
