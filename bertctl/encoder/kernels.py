"""Attention kernels: pure functions from queries, keys and values to context, and the choice among them.

Shapes: B batch, H heads, T tokens, D head size; q, k, v [B, H, T, D]; what they may look at is a `Scope`. A row with no
key to look at gives zeros, never NaN, in every kernel.
"""

from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from bertctl.encoder.blocks import blocks, keys_of_block
from bertctl.encoder.config import AttentionKind
from bertctl.encoder.linear import linear, linear_weights
from bertctl.encoder.patterns import Pattern, distances, places
from bertctl.encoder.scope import Scope
from bertctl.encoder.softmax import Softmax, fused, plain, seen, weighted


class Kernel(Protocol):
    """What every kernel is called with."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scope: Scope) -> Tensor: ...


def reference(q: Tensor, k: Tensor, v: Tensor, scope: Scope) -> tuple[Tensor, Tensor]:
    """Any pattern in plain arithmetic, every pair of tokens one by one; also returns the weights [B, H, T, T] before
    dropout."""
    mask, bias = _whole(q, k, scope)
    if not scope.pattern.is_linear:
        context, weights = weighted(q, k, v, mask, bias, scope.dropout)
        return context, weights if mask is None else weights.masked_fill(~seen(mask), 0.0)
    weights = linear_weights(q, k, mask)
    return (weights @ v.float()).to(v.dtype), weights


def dense(q: Tensor, k: Tensor, v: Tensor, scope: Scope, *, softmax: Softmax) -> Tensor:
    """Every query with every key, what it may not see masked: for any pattern but the linear ones."""
    return softmax(q, k, v, *_whole(q, k, scope), scope.dropout)


def feature_map(q: Tensor, k: Tensor, v: Tensor, scope: Scope) -> Tensor:
    """`linear` for the linear patterns. Errors: ValueError if there is a bias, which needs a softmax to be added in."""
    if scope.score_bias is not None:
        raise ValueError("linear attention has no scores to bias")
    return linear(q, k, v, scope.key_mask, causal=scope.pattern.kind == "causal_linear")


def _whole(q: Tensor, k: Tensor, scope: Scope) -> tuple[Tensor | None, Tensor | None]:
    """Mask and bias of all pairs of tokens, both broadcasting to [B, H, T, T]."""
    spots = places(q.shape[2], q)
    mask = None if scope.key_mask is None else scope.key_mask[:, None, None, :]
    visible = scope.pattern.visible(spots, spots)
    if visible is not None:
        mask = visible if mask is None else mask & visible
    return mask, None if scope.score_bias is None else scope.score_bias(q, k, distances(spots, spots))


KERNELS: dict[str, Kernel] = {
    "explicit": partial(dense, softmax=plain),
    "fused": partial(dense, softmax=fused),
    "explicit_blocks": partial(blocks, softmax=plain),
    "fused_blocks": partial(blocks, softmax=fused),
    "feature_map": feature_map,
}
DENSE = ("explicit", "fused")
KERNELS_OF: dict[AttentionKind, tuple[str, ...]] = {
    "full": DENSE,
    "causal": DENSE,
    "local": (*DENSE, "explicit_blocks", "fused_blocks"),
    "local_global": (*DENSE, "explicit_blocks", "fused_blocks"),
    "linear": ("feature_map",),
    "causal_linear": ("feature_map",),
}
"""The kernels that can compute each kind of attention."""

# Measured by benchmarks/attention_kernels.py, forward and backward on 2 CPU cores: in bf16 the explicit products take
# 0.21 of the fused kernel's time at 32 tokens and 0.48 at 128, but 1.35 at 256; in float32 fused wins at every length.
LONGEST_EXPLICIT_TOKENS = 128
# Blocks of 64 queries with windows of 128 tokens, on one core: against the better of the dense kernels they take 1.1
# times as long at 256 tokens (bf16: 1.6), 0.75 (0.67) at 512, 0.16 (0.29) at 2048. In bf16 explicit products win inside
# blocks too: 0.4 to 0.7 of the fused time with 192 keys a block, equal with 384.
LONGEST_EXPLICIT_BLOCK_KEYS = 256


def attend(q: Tensor, k: Tensor, v: Tensor, scope: Scope) -> Tensor:
    """The context [B, H, T, D], by the kernel that is chosen for it."""
    kernel = KERNELS[choose_kernel(q.device.type, q.dtype, q.shape[2], scope.pattern)]
    return kernel(q, k, v, scope)


def choose_kernel(device_type: str, dtype: torch.dtype, tokens: int, pattern: Pattern) -> str:
    """The faster kernel for a device, precision, sequence length and pattern; the only place where this is decided."""
    if pattern.is_linear:
        return "feature_map"
    on_cpu_in_bf16 = device_type == "cpu" and dtype == torch.bfloat16
    if pattern.is_local and tokens > 2 * keys_of_block(pattern):
        few = keys_of_block(pattern) <= LONGEST_EXPLICIT_BLOCK_KEYS
        return "explicit_blocks" if on_cpu_in_bf16 and few else "fused_blocks"
    return "explicit" if on_cpu_in_bf16 and tokens <= LONGEST_EXPLICIT_TOKENS else "fused"
