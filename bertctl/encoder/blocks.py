"""Local attention by blocks of queries that see their own window only: time and memory are linear in the length.

The texts of a batch stand one after the other, filled up to whole blocks, so that the window of block m starts m blocks
after the first: all windows are then one strided view of the keys, and nothing is copied. Windows that reach from one
text into the next belong to blocks of filling, which are dropped.

Shapes: B batch, H heads, T tokens, D head size, M blocks of the batch, N of one text, S of a stretch, Q queries in a
block, K keys in its window, G global tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bertctl.encoder.patterns import Pattern, distances, places
from bertctl.encoder.scope import Scope
from bertctl.encoder.softmax import Softmax

SMALLEST_BLOCK_TOKENS = 64
# On a processor blocks are computed in stretches: what is built meanwhile stays below the 32 MiB from which on the C
# library asks for fresh pages each time. One layer of 8192 tokens in bf16 took 477 ms instead of 650.
STRETCH_TOKENS = 2048


def block_tokens(pattern: Pattern) -> int:
    """Queries in a block: half a window, so that two thirds of the keys of a block are in a query's own window, but not
    so few that the products get small."""
    return max(pattern.window_tokens // 2, SMALLEST_BLOCK_TOKENS)


def keys_of_block(pattern: Pattern) -> int:
    """Keys that a block of queries sees: its own and half a window on either side."""
    return block_tokens(pattern) + pattern.window_tokens


def blocks(q: Tensor, k: Tensor, v: Tensor, scope: Scope, *, softmax: Softmax) -> Tensor:
    """A pattern that is local or local_global over q, k, v [B, H, T, D]; returns [B, H, T, D].

    Source: the sliding chunks of Longformer, arXiv:2004.05150, section 3.2 and appendix A.
    """
    (batch, _, tokens, _), key_mask, pattern, score_bias = q.shape, scope.key_mask, scope.pattern, scope.score_bias
    real = key_mask if key_mask is not None else torch.ones(batch, tokens, dtype=torch.bool, device=q.device)
    stretch = STRETCH_TOKENS if q.device.type == "cpu" else None
    cut = Cut(batch, tokens, pattern.window_tokens // 2, block_tokens(pattern), stretch)
    spots = pattern.global_places(tokens, q)
    beside = [cut.spots(x[:, :, spots]) for x in (k, v)] if len(spots) else []
    seen_spots = cut.seen_spots(real[:, spots])
    parts = []
    for first, queries, keys, values, seen in cut.stretches(q, k, v, real):
        here = slice(first, first + len(queries))
        query_places, key_places = cut.places(here, q)
        mask = (distances(query_places[0], key_places[0]).abs() <= cut.half) & seen[:, None]
        if beside:  # each block sees them once, next to its window
            mask = torch.cat([mask & ~pattern.is_global(key_places)[:, None], seen_spots[here]], dim=-1)
            keys, values = (torch.cat([x, y[here]], dim=2) for x, y in zip((keys, values), beside, strict=True))
            away = distances(query_places, torch.cat([key_places, spots.expand(len(queries), -1)], dim=-1))
        else:
            away = distances(query_places[0], key_places[0])
        bias = None if score_bias is None else score_bias(queries, keys, away)
        parts.append(softmax(queries, keys, values, mask[:, None], bias, scope.dropout))
    context = cut.together(torch.cat(parts))
    if not beside:
        return context
    bias = None if score_bias is None else score_bias(q[:, :, spots], k, distances(spots, places(tokens, q)))
    return context.index_copy(2, spots, softmax(q[:, :, spots], k, v, real[:, None, None], bias, scope.dropout))


@dataclass(frozen=True)
class Cut:
    """How a batch of texts is cut into blocks of `size` queries whose windows reach `half` tokens further, and these
    into stretches of about `stretch` queries, or one of all."""

    batch: int
    tokens: int
    half: int
    size: int
    stretch: int | None

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

    def stretches(
        self, q: Tensor, k: Tensor, v: Tensor, real: Tensor
    ) -> Iterator[tuple[int, Tensor, Tensor, Tensor, Tensor]]:
        """q, k, v [B, H, T, D], real tokens [B, T] -> for each stretch the number of its first block, queries
        [S, H, Q, D], keys and values [S, H, K, D], in which neighbours overlap, and which keys are real [S, K]."""
        most = self.batch * self.each if self.stretch is None else max(self.stretch // self.size, self.filling)
        length = most * self.size
        queries = self.line(q.transpose(1, 2), 0).split(length)
        others = [self.line(x, self.half).split(length) for x in (k.transpose(1, 2), v.transpose(1, 2), real)]
        for number, part in enumerate(queries):
            first = number * length // self.size
            count = min(len(part) // self.size, self.kept - first)
            if count > 0:
                keys, values, seen = (self.windows(pieces[number : number + 2]) for pieces in others)
                yield first, part.unflatten(0, (-1, self.size))[:count].transpose(1, 2), keys.mT, values.mT, seen

    def windows(self, pieces: Sequence[Tensor]) -> Tensor:
        """A stretch of a line and what follows, [tokens, ...] -> [S, ..., K]: a view in which neighbours overlap."""
        whole = torch.cat([pieces[0], *(piece[: 2 * self.half] for piece in pieces[1:])])
        return whole.unfold(0, self.size + 2 * self.half, self.size)

    def places(self, here: slice, like: Tensor) -> tuple[Tensor, Tensor]:
        """Where queries [S, Q] and keys [S, K] of some blocks stand in their text; its first keys stand before it."""
        start = (places(self.kept, like)[here] % self.each * self.size)[:, None]
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
