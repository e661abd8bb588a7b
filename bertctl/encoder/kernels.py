"""Attention kernels: pure functions from queries, keys and values to context.

Shapes: B batch, H heads, T tokens, D head size; q, k, v [B, H, T, D]; key_mask [B, T], True = real token, None = all
real; score_bias broadcasts to [B, H, T, T]. A row with no key to look at gives zeros, never NaN, in every kernel.
"""

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Kernel(Protocol):
    """What every kernel is called with."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, score_bias: Tensor | None, dropout: float
    ) -> Tensor: ...


def reference(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, score_bias: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(D) + bias) v in plain arithmetic; also returns the weights [B, H, T, T] before dropout.

    Source: arXiv:1706.03762, equation 1. Masked scores get the smallest finite number instead of -inf, so that a row
    with nothing to see stays finite in the backward pass too; its weights are then set to zero.
    """
    scores = torch.matmul(q, k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
    if score_bias is not None:
        scores = scores + score_bias
    if key_mask is not None:
        scores = scores.masked_fill(~key_mask[:, None, None, :], torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if key_mask is not None:
        weights = weights.masked_fill(~key_mask[:, None, None, :], 0.0)
    dropped = F.dropout(weights, dropout) if dropout else weights
    return torch.matmul(dropped.to(v.dtype), v), weights


def explicit(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, score_bias: Tensor | None, dropout: float
) -> Tensor:
    """`reference` without the weights: two batched products."""
    return reference(q, k, v, key_mask, score_bias, dropout)[0]


def fused(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, score_bias: Tensor | None, dropout: float
) -> Tensor:
    """PyTorch's scaled_dot_product_attention: memory linear in T where the backend allows it."""
    mask: Tensor | None = None
    if key_mask is not None:
        # A row with no real token sees every key here and is set to zero below: no backend then meets an empty row.
        mask = (key_mask | ~key_mask.any(dim=-1, keepdim=True))[:, None, None, :]
    if score_bias is not None:
        mask = score_bias if mask is None else score_bias.masked_fill(~mask, torch.finfo(score_bias.dtype).min)
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    if key_mask is not None:
        context = context.masked_fill(~key_mask.any(dim=-1)[:, None, None, None], 0.0)
    return context


KERNELS: dict[str, Kernel] = {"explicit": explicit, "fused": fused}

# Measured by benchmarks/attention_kernels.py, forward and backward on 2 CPU cores: in bf16 the explicit products take
# 0.21 of the fused kernel's time at 32 tokens and 0.48 at 128, but 1.35 at 256; in float32 fused wins at every length.
LONGEST_EXPLICIT_TOKENS = 128


def choose_kernel(device_type: str, dtype: torch.dtype, tokens: int) -> str:
    """The faster kernel for a device, precision and sequence length; the only place where this is decided."""
    short = tokens <= LONGEST_EXPLICIT_TOKENS
    return "explicit" if device_type == "cpu" and dtype == torch.bfloat16 and short else "fused"
