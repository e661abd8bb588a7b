"""Softmax attention over a mask, in plain arithmetic and by PyTorch's fused call.

Shapes: `*` any leading dimensions (B batch or B, N blocks), H heads, Q queries, K keys, D head size; q [*, H, Q, D];
k, v [*, H, K, D]; mask, true = may look, broadcasts to [*, H, Q, K], None = everywhere; bias is added to the scores and
broadcasts likewise. A query with no key to look at gives zeros, never NaN.
"""

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from bertctl.encoder.dropout import dropout as apply_dropout


class Softmax(Protocol):
    """What both are called with."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
    ) -> Tensor: ...


def weighted(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(D) + bias) v; also returns the weights [*, H, Q, K] before dropout, which mean nothing for a
    query with no key to look at.

    Source: arXiv:1706.03762, equation 1. To masked scores a huge finite number is added instead of -inf, so that a row
    with nothing to see stays finite in the backward pass too; what comes out of it is then set to zero. Filling them
    takes three times as long as this sum, and again as long in the backward pass.
    """
    scores = torch.matmul(q * (1.0 / math.sqrt(q.shape[-1])), k.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        # half of the smallest number: with a score, float16 would round the smallest one to -inf
        scores += scores.new_zeros(mask.shape).masked_fill_(~mask, torch.finfo(scores.dtype).min / 2)
    weights = scores.softmax(dim=-1)
    context = torch.matmul(apply_dropout(weights, dropout).to(v.dtype), v)
    return _blanked(context, mask), weights


def _blanked(context: Tensor, mask: Tensor | None) -> Tensor:
    """`context` with zeros where there is no key to look at."""
    if mask is None:
        return context
    empty = ~seen(mask)
    # two passes less over the context; a GPU would have to be asked, and what `describe` traces has no answer
    known = empty.device.type == "cpu" and type(empty) is Tensor
    return context if known and not empty.any() else context.masked_fill(empty, 0.0)


def seen(mask: Tensor) -> Tensor:
    """[*, H, Q, 1] bool: which queries have a key to look at."""
    return mask.any(dim=-1, keepdim=True)


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float) -> Tensor:
    """`weighted` without the weights: two batched products."""
    return weighted(q, k, v, mask, bias, dropout)[0]


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float) -> Tensor:
    """PyTorch's scaled_dot_product_attention: memory linear in K where the backend allows it."""
    opened = None
    if mask is not None:
        # A row with nothing to see sees every key here and is set to zero below: no backend then meets an empty row.
        opened = mask | ~seen(mask)
    if bias is not None:
        bias = bias.to(q.dtype)
        opened = bias if opened is None else bias.masked_fill(~opened, torch.finfo(bias.dtype).min)
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=opened, dropout_p=dropout)
    return _blanked(context, mask)
