"""Batches without their padding: the encoder works on the real tokens of all texts, one after the other, as if they
were one text.

Only attention has to know which tokens belong together: queries, keys and values are spread out to the rows of the
batch for it, and what it returns is collected again. Everything else (norms, linear layers, feed-forward, dropout)
meets real tokens only, so padding costs nothing there.

Shapes: B batch, T tokens, N real tokens of the batch, H heads, D head size, E hidden size, W any width.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bertctl.encoder.kernels import attend
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.scope import Scope

LEAST_PADDING = 0.05
"""The share of padding from which on it is left out: the only place where this is decided, and by the mask alone.

Measured with a first form of it in the way of benchmarks/padding.py, a training step of 32 texts, one thread: of 4
layers x 256 in bf16 with 1, 2, 5, 10% of padding it takes 1.00, 1.00, 1.03, 0.97 of the padded time (a busy machine,
+-0.03). With the 19% that batches of like length hold in SST-2 it takes 0.88 (float32 0.83), of 6 x 384 0.87 (0.85);
with the 67% of random order 0.45 (0.43), of 6 x 384 0.47 (0.43). Not measured on a GPU."""


def few_sizes(count: int) -> int:
    """The next number from `count` on that has no more than five binary digits before its zeros: at most a sixteenth
    more, and few different ones. On a processor oneDNN compiles a product for each number of rows, in about 0.5 ms and
    half a megabyte, and keeps 1,024. Peak of 64 steps of tiny: 1,180 MiB -> 850, of 34 of mini 1,500 -> 1,230."""
    step = 1 << max(0, count.bit_length() - 5)
    return -(-count // step) * step


def few_different(places: Tensor) -> Tensor:
    """Places [N], on a processor with the first one again and again until there are `few_sizes(N)`."""
    more = 0 if places.is_cuda else few_sizes(len(places)) - len(places)
    return torch.cat((places, places[:1].expand(more))) if more else places


@dataclass(frozen=True)
class Places:
    """Rows at places, some of which are empty. `place` [rows]: that of each row; `row` [places]: the one that is
    there, or the number of rows where there is none."""

    place: Tensor
    row: Tensor

    @classmethod
    def of(cls, place: Tensor, count: int) -> "Places":
        """Rows at `place`, different numbers below `count`."""
        row = place.new_full((count,), len(place))
        return cls(place, row.index_copy_(0, place, torch.arange(len(place), device=place.device)))

    def spread(self, x: Tensor) -> Tensor:
        """[rows, W], or [N, H, W] for N * H rows -> [places, W], zeros where there is no row."""
        return _Spread.apply(x, self)

    def collect(self, x: Tensor) -> Tensor:
        """[places, W] -> [rows, W]."""
        return _Collect.apply(x, self)


class _Spread(torch.autograd.Function):
    """Copies rows, and so does its backward pass; that of `index_select` would add them up instead."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Places) -> Tensor:
        ctx.places, ctx.shape = places, x.shape
        return _spread(x, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].index_select(0, ctx.places.place).view(ctx.shape), None


class _Collect(torch.autograd.Function):
    """The other way round."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Places) -> Tensor:
        ctx.places = places
        return x.index_select(0, places.place)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _spread(gradients[0], ctx.places), None


def _spread(x: Tensor, places: Places) -> Tensor:
    # torch.cat reads x as it lies, a third of what one product gave for queries, keys and values
    return torch.cat((x, x.new_zeros(1, *x.shape[1:]))).flatten(0, -2).index_select(0, places.row)


@dataclass(frozen=True)
class Packing:
    """Where the real tokens of a batch with padding are.

    `key_mask` [B, T] says which these are; `tokens` are they among the B * T places of the batch, `heads` the same for
    each head of each token among B * H * T; `places` [N] is where each stands in its row. The longest of the texts,
    which begin at `starts` [B + 1] int32 (and the last one ends), has `longest` tokens; `gapless`: no padding between
    two tokens of a text.
    """

    key_mask: Tensor
    tokens: Places
    heads: Places
    places: Tensor
    starts: Tensor
    longest: int
    gapless: bool

    def pack(self, x: Tensor) -> Tensor:
        """[B, T, E] -> [1, N, E]."""
        return self.tokens.collect(x.flatten(0, 1))[None]

    def unpack(self, x: Tensor) -> Tensor:
        """[1, N, E] -> [B, T, E], zeros at padding that is not among the N."""
        return self.tokens.spread(x[0]).unflatten(0, self.key_mask.shape)

    def to_rows(self, x: Tensor) -> Tensor:
        """[1, H, N, D] -> [B, H, T, D], zeros at padding."""
        batch, tokens = self.key_mask.shape
        return self.heads.spread(x[0].transpose(0, 1)).unflatten(0, (batch, x.shape[1], tokens))

    def from_rows(self, x: Tensor) -> Tensor:
        """[B, H, T, D] -> [1, H, N, D]."""
        by_token = x.transpose(1, 2)
        if by_token.is_contiguous():  # as the fused kernel leaves it
            collected = self.tokens.collect(by_token.flatten(0, 1).flatten(1)).unflatten(1, by_token.shape[2:])
        else:
            collected = self.heads.collect(x.flatten(0, 2)).unflatten(0, (-1, x.shape[1]))
        return collected.transpose(0, 1)[None]

    def rows_of(self, places: Tensor) -> Tensor:
        """Places [M] in the flattened batch -> [M] those among the real tokens; for padding that of any token."""
        return self.tokens.row[places].clamp(max=len(self.places) - 1)


def find_packing(key_mask: Tensor | None, heads: int) -> Packing | None:
    """How to leave out the padding of a batch with this mask [B, T], True = real token, for an encoder with so many
    heads; None if that does not pay, or there is no token. Depends on the mask alone."""
    if key_mask is None:
        return None
    lengths = key_mask.sum(dim=1)
    gaps = (key_mask[:, 1:] & ~key_mask[:, :-1]).sum(dim=1) + key_mask[:, 0] > 1
    real, longest, gapped = torch.stack([lengths.sum(), lengths.max(), gaps.any()]).tolist()  # a GPU is asked once
    padding, rows = key_mask.numel() - real, real if key_mask.is_cuda else few_sizes(real)
    if not real or rows >= key_mask.numel() or padding < LEAST_PADDING * key_mask.numel():
        return None
    batch, tokens = key_mask.shape
    place = torch.nonzero_static(key_mask.flatten(), size=real).squeeze(1)
    if rows > real:
        place = torch.cat((place, torch.nonzero_static(~key_mask.flatten(), size=rows - real).squeeze(1)))
    row, within = place // tokens, place % tokens
    of_heads = (row[:, None] * heads + torch.arange(heads, device=place.device)) * tokens + within[:, None]
    return Packing(
        key_mask,
        Places.of(place, batch * tokens),
        Places.of(of_heads.flatten(), batch * heads * tokens),
        within,
        torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int(),
        longest,
        not gapped,
    )


def attend_packed(q: Tensor, k: Tensor, v: Tensor, packing: Packing, scope: Scope) -> Tensor:
    """`attend` for the tokens of a packing: q, k, v [1, H, N, D], of each token with those of its own text, whatever
    key_mask the scope has."""
    if q.is_cuda and fits_varlen(q, packing, scope):
        return varlen(q, k, v, packing, scope.pattern)
    q, k, v = (packing.to_rows(x) for x in (q, k, v))
    return packing.from_rows(attend(q, k, v, replace(scope, key_mask=packing.key_mask)))


def fits_varlen(q: Tensor, packing: Packing, scope: Scope) -> bool:
    """Whether PyTorch's attention over texts of any lengths computes this: it knows no bias and no dropout, and takes
    neighbours in the packing for neighbours in the text."""
    half = q.dtype in (torch.bfloat16, torch.float16) and q.shape[3] % 8 == 0 and q.shape[3] <= 256
    kind = scope.pattern.kind
    known = kind in ("full", "causal") or (kind == "local" and packing.gapless)
    return half and known and scope.score_bias is None and not scope.dropout


def varlen(q: Tensor, k: Tensor, v: Tensor, packing: Packing, pattern: Pattern) -> Tensor:
    """Attention without rows at all: flash attention over the texts of a packing. Shapes: as `attend_packed`."""
    from torch.nn.attention.varlen import varlen_attn  # brings torch.compile's machinery along: 2.5 s on 2 cores

    half = pattern.window_tokens // 2
    window = {"full": (-1, -1), "causal": (-1, 0), "local": (half, half)}[pattern.kind]
    q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))
    starts, longest = packing.starts, packing.longest
    context = varlen_attn(q, k, v, starts, starts, longest, longest, window_size=window)
    assert isinstance(context, Tensor)  # nothing else was asked for
    return context.transpose(0, 1)[None]
