"""Linear layers, on a processor in bf16 with a backward pass of their own.

PyTorch copies a layer's bias to every row and adds the product to that: a fifth to a third of the product's time, which
oneDNN's own call does not take. And the product for a weight's gradient reads one side across its rows, which with AMX
takes twice the time of the other two; where one side is much the narrower, a turned copy of it costs less than that.
Forward and backward with both, of PyTorch's time, one thread of a processor with AMX: 2816 tokens, 768 to 3072 0.92,
back 0.93, to 2304 0.96; 4096 tokens, 512 to 2048 0.90; at 256 and below nothing, so PyTorch's own stays there.

Shapes: N tokens, I inputs, O outputs.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

LEAST_WIDTH = 512
"""The narrowest layer that this is for."""
TURNED_ROWS = 128


def _has_biased_product() -> bool:
    """Whether oneDNN is there, with its call for a product and bias, and computes in bf16 on this processor. What
    PyTorch's compiler asks and calls; not public API, so it may be absent."""
    asks = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(asks and asks() and hasattr(torch.ops.mkldnn, "_linear_pointwise"))


HAS_BIASED_PRODUCT = _has_biased_product()


def project(x: Tensor, layers: Sequence[nn.Linear]) -> Tensor:
    """What linear layers give for x [..., I], side by side: [..., O], O outputs in all. Plain layers share a product;
    others, as LoRA's, are called."""
    if any(type(layer) is not nn.Linear for layer in layers):
        found = [layer(x) for layer in layers]
        return found[0] if len(found) == 1 else torch.cat(found, dim=-1)
    weights = [layer.weight for layer in layers]
    bias = joined([layer.bias for layer in layers]) if layers[0].bias is not None else None
    if not has_own(x, weights):
        return F.linear(x, joined(weights), bias)
    rows = x.to(torch.bfloat16).reshape(-1, x.shape[-1])
    with torch.autocast("cpu", enabled=False):
        product: Tensor = _Product.apply(rows, bias, *weights)
    return product.reshape(*x.shape[:-1], -1)


def has_own(x: Tensor, weights: Sequence[Tensor]) -> bool:
    """Whether `_Product` computes this: the only place where that is decided."""
    bf16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    training = x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) and torch.is_grad_enabled()
    return training and bf16 and HAS_BIASED_PRODUCT and min(weights[0].shape) >= LEAST_WIDTH


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other; a single one as it is."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def biased(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` for x [N, I] in the precision of the others, without gradients."""
    if x.device.type != "cpu" or x.dtype != torch.bfloat16 or not HAS_BIASED_PRODUCT:
        return F.linear(x, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


class _Product(torch.autograd.Function):
    """x [N, I] bf16, bias [O] or None, weights, O rows of I in all -> [N, O]. Both passes turn weights to bf16,
    0.4% of a step of base by the time of the copies alone: kept, layers that share them would keep a copy each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, *weights: Tensor) -> Tensor:
        ctx.save_for_backward(x, *weights)
        return biased(x, joined([part.to(x.dtype) for part in weights]), None if bias is None else bias.to(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient = upstream[0]
        x, *weights = ctx.saved_tensors
        wants_x, wants_bias, *wants_weights = ctx.needs_input_grad
        d_x = gradient @ joined([part.to(x.dtype) for part in weights]) if wants_x else None
        d_bias = gradient.sum(dim=0).float() if wants_bias else None
        if not any(wants_weights):
            return d_x, d_bias, *(None for _ in wants_weights)
        return d_x, d_bias, *weight_gradient(gradient, x).split([len(part) for part in weights])


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """gradient^T x in float32; gradient [N, O], x [N, I] -> [O, I]."""
    outputs, inputs = gradient.shape[1], x.shape[1]
    if inputs >= 4 * outputs:
        return (gradient.t().contiguous() @ x).float()
    if outputs >= 4 * inputs:
        return turned(x.t().contiguous() @ gradient).float()
    return (gradient.t() @ x).float()


def turned(x: Tensor) -> Tensor:
    """[I, O] -> [O, I], contiguous: PyTorch's own copy, but in pieces that stay in the cache."""
    out = x.new_empty(x.shape[1], x.shape[0])
    for start in range(0, len(x), TURNED_ROWS):
        out[:, start : start + TURNED_ROWS].copy_(x[start : start + TURNED_ROWS].t())
    return out
