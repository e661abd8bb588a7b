"""The cross-entropy of a vocabulary's scores, in pieces that stay in the processor's cache.

Scores of 30,522 tokens are the largest thing that pretraining computes. Kept for the backward pass and turned to
float32 they cost more time than their products at small widths; here the gradient is computed with the loss, a piece at
a time. Forward and backward of 615 rows in bf16 on 2 CPU cores, against `cross_entropy(linear(...))`: 254 ms -> 136 at
width 256, 550 -> 432 at width 768. PyTorch's `linear_cross_entropy` takes as long as the two calls.

Shapes: N labels, R rows, at least as many, E width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertctl.encoder.product import biased

ROWS_OF_PRODUCT = 2048
"""Rows whose scores are in memory at once: 125 MB in bf16 for 30,522 tokens."""
ROWS_OF_SOFTMAX = 16
"""Of these, rows whose float32 shares are in memory at once on a CPU: 2 MB. 8 to 64 take the same time; all of 615 at
once took 213 ms with their products, 16 at a time 160 (width 256)."""
LEAST_SHARE = 1e-30
"""Of a label, to take its logarithm: float32 goes down to 1e-38."""


class _VocabularyLoss(torch.autograd.Function):
    """rows [R, E], weight [V, E] of one precision, float32 bias [V], labels [N] int64 -> the summed loss, float32."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64, device=rows.device)
        sums: list[Tensor] = []
        d_rows = torch.empty_like(rows)
        for start in range(0, len(rows), ROWS_OF_PRODUCT):
            part = slice(start, start + ROWS_OF_PRODUCT)
            scores = biased(rows[part], weight, bias.to(rows.dtype))
            total += _to_gradient(scores, labels[part])
            if any(ctx.needs_input_grad):
                torch.mm(scores, weight, out=d_rows[part])
                ones = scores.new_ones(1, len(scores))  # this product is 10 times as fast as a sum over rows
                found = [scores.t() @ rows[part], (ones @ scores)[0]]
                sums = [_plus(*pair) for pair in zip(sums, found, strict=True)] if sums else found
        ctx.save_for_backward(d_rows, *(sums or (torch.zeros_like(weight), torch.zeros_like(bias))))
        return total.float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * upstream[0] for gradient in ctx.saved_tensors), None  # autograd knows the precisions


def _plus(total: Tensor, part: Tensor) -> Tensor:
    """Sums of several parts are kept in float32."""
    return total.float().add_(part)


def _to_gradient(scores: Tensor, labels: Tensor) -> Tensor:
    """The summed loss of scores [N, V], which become softmax(scores) - 1 at the label: its gradient."""
    total = torch.zeros((), dtype=torch.float64, device=scores.device)
    step = ROWS_OF_SOFTMAX if scores.device.type == "cpu" else ROWS_OF_PRODUCT
    scores[len(labels) :] = 0  # rows that nothing is asked of
    for start in range(0, len(labels), step):
        wanted = labels[start : start + step, None]
        piece = scores[start : start + len(wanted)]
        exact = piece.float()
        shares = exact.softmax(dim=-1)
        total += _losses(exact, shares, wanted).sum()
        shares.scatter_add_(1, wanted, shares.new_full((), -1.0).expand(wanted.shape))
        piece.copy_(shares)
    return total


def _losses(scores: Tensor, shares: Tensor, wanted: Tensor) -> Tensor:
    """-log of the shares [N, V] at the labels [N, 1]; from the scores where a share may be too small to tell, as the
    largest never is. A GPU would have to be asked which it is, and what `describe` traces has no answer."""
    likely = shares.gather(1, wanted).squeeze(1)
    known = likely.device.type == "cpu" and type(likely) is Tensor
    if known and likely.min() > LEAST_SHARE:
        return -likely.log()
    log_sum = scores.amax(dim=-1) - shares.amax(dim=-1).log()
    return log_sum - scores.gather(1, wanted).squeeze(1)


def vocabulary_loss(rows: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """Summed cross-entropy of softmax(rows weight^T + bias) for `labels`, a float32 scalar; it can be differentiated
    once. Shapes: rows [R, E], of which the first N count, weight [V, E], bias [V], labels [N] int64, every one below V.
    Under autocast the products are in its precision, the softmax in float32."""
    kind = rows.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else rows.dtype
    given = [rows.to(dtype), weight.to(dtype), bias.float()]
    if not torch.is_grad_enabled():  # which a Function does not see by itself
        given = [tensor.detach() for tensor in given]
    return _VocabularyLoss.apply(*given, labels)
