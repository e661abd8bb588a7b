"""What a task minimises: a loss summed over the items of a batch, and how many items that are.

Sums and counts stay apart, so that a step in micro-batches or over ranks has the loss of the whole step.
Shapes: B rows, T tokens, C outputs. torch is imported where it is used: tasks are read without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertctl.tasks.task import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

    from bertctl.training.batching import Batch


@dataclass(frozen=True)
class LossOptions:
    """What a recipe may change about a loss. `class_weights` [C] count an item of class c as so many."""

    class_weights: "Tensor | None" = None
    label_smoothing: float = 0.0
    focal_gamma: float = 0.0


PLAIN = LossOptions()


@dataclass(frozen=True)
class TaskLoss:
    """`sum`: (logits, batch, options) -> the loss over all labelled items; `count`: (batch, options) -> its divisor.
    `takes`: the options that this loss knows what to do with."""

    sum: "Callable[[Tensor, Batch, LossOptions], Tensor]"
    count: "Callable[[Batch, LossOptions], Tensor]"
    takes: tuple[str, ...] = ()


def summed_cross_entropy(logits: "Tensor", labels: "Tensor", options: LossOptions = PLAIN) -> "Tensor":
    """Sum over the items that have a label; with class weights, smoothing (arXiv:1512.00567) spreads the label over all
    classes first, as in PyTorch. Shapes: logits [..., C], labels [...] with -100 where there is none."""
    from torch.nn import functional as F

    logits, labels = logits.float().flatten(0, -2), labels.flatten()
    if options.focal_gamma:
        return _focal(logits, labels, options)
    return F.cross_entropy(
        logits,
        labels,
        weight=options.class_weights,
        label_smoothing=options.label_smoothing,
        ignore_index=IGNORED,
        reduction="sum",
    )


def _focal(logits: "Tensor", labels: "Tensor", options: LossOptions) -> "Tensor":
    """Sum of -w (1 - p)^gamma log p over labelled items, p the probability of the label and w its class weight.
    Shapes: logits [N, C], labels [N]. Source: arXiv:1708.02002, equation 5."""
    kept = labels != IGNORED
    labels = labels[kept]
    log_p = logits[kept].log_softmax(dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    losses = -focus(log_p, options.focal_gamma) * log_p
    return (losses if options.class_weights is None else losses * options.class_weights[labels]).sum()


def focus(log_p: "Tensor", gamma: float) -> "Tensor":
    """(1 - p)^gamma. Where p is 1 in float32, the power's gradient is infinite for gamma below 1: hence the floor."""
    return (-log_p.expm1()).clamp(min=1e-12) ** gamma


def _label_loss(logits: "Tensor", batch: "Batch", options: LossOptions) -> "Tensor":
    return summed_cross_entropy(logits, batch["labels"], options)


def _labelled(batch: "Batch", options: LossOptions) -> "Tensor":
    """Items, or the sum of their class weights."""
    kept = batch["labels"] != IGNORED
    return kept.sum() if options.class_weights is None else options.class_weights[batch["labels"][kept]].sum()


CROSS_ENTROPY = TaskLoss(_label_loss, _labelled, ("class_weights", "label_smoothing", "focal_gamma"))


def _binary_cross_entropy(logits: "Tensor", batch: "Batch", options: LossOptions) -> "Tensor":
    """Sum over rows and outputs. Shapes: logits, labels [B, C]; NaN where there is no label."""
    from torch.nn import functional as F

    known = ~batch["labels"].isnan()
    losses = F.binary_cross_entropy_with_logits(logits.float()[known], batch["labels"][known], reduction="none")
    if options.focal_gamma:  # the loss is -log p of what holds
        losses = losses * focus(-losses, options.focal_gamma)
    return losses.sum()


def _squared_error(logits: "Tensor", batch: "Batch", options: LossOptions) -> "Tensor":
    """Sum over rows. Shapes: logits [B, 1], labels [B]; NaN where there is no number."""
    known = ~batch["labels"].isnan()
    return ((logits.float().squeeze(-1)[known] - batch["labels"][known]) ** 2).sum()


def _known(batch: "Batch", options: LossOptions) -> "Tensor":
    return (~batch["labels"].isnan()).sum()


BINARY_CROSS_ENTROPY = TaskLoss(_binary_cross_entropy, _known, ("focal_gamma",))
SQUARED_ERROR = TaskLoss(_squared_error, _known)


def _span_cross_entropy(logits: "Tensor", batch: "Batch", options: LossOptions) -> "Tensor":
    """Mean of the cross-entropies of start and end, summed over rows. Shapes: logits [B, T, 2], labels [B, T], of which
    the first two columns are the positions. What a model says of padding does not count, so that the loss of a text is
    the same in any batch."""
    from torch import finfo

    masked = logits.float()
    if "attention_mask" in batch:  # else nothing is padding
        padding = ~batch["attention_mask"].bool().unsqueeze(-1)
        masked = masked.masked_fill(padding, finfo().min)  # not -inf: the gradient of a row of padding alone is 0
    return summed_cross_entropy(masked.transpose(1, 2), batch["labels"][:, :2]) / 2


def _with_span(batch: "Batch", options: LossOptions) -> "Tensor":
    return (batch["labels"][:, 0] != IGNORED).sum()


def _choice_cross_entropy(logits: "Tensor", batch: "Batch", options: LossOptions) -> "Tensor":
    """Cross-entropy of the right choice among those of its example, summed. Shapes: logits [B, 1]; labels [B]: 1 right,
    0 wrong; groups [B]."""
    scores, groups = logits.float().squeeze(-1), batch["groups"]
    apart = groups.unsqueeze(1) != groups.unsqueeze(0)
    totals = scores.expand(len(scores), -1).masked_fill(apart, float("-inf")).logsumexp(dim=-1)
    return ((totals - scores) * (batch["labels"] == 1)).sum()


def _right_choices(batch: "Batch", options: LossOptions) -> "Tensor":
    return (batch["labels"] == 1).sum()


SPAN_CROSS_ENTROPY = TaskLoss(_span_cross_entropy, _with_span)
CHOICE_CROSS_ENTROPY = TaskLoss(_choice_cross_entropy, _right_choices)
