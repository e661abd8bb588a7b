"""What a student imitates of a teacher's answers to a task: which numbers are compared, and how.

Shapes: B inputs, T tokens, C outputs, N rows, G examples. torch is imported where it is used: tasks are read without.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bertctl.tasks.task import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

    from bertctl.training.batching import Batch

Measure = Literal["kl", "squared_error", "cosine"]
FAR = -1e30  # the logit of what cannot be; at any temperature above 1e-8 still a finite number


@dataclass(frozen=True)
class Imitation:
    """`rows`: (logits, batch) -> [N, C], compared row by row; `count`: batch -> N, known before the model runs.
    `measure`: kl = divergence of softmax(row / T), squared_error or cosine of the rows as they are."""

    rows: "Callable[[Tensor, Batch], Tensor]"
    count: "Callable[[Batch], Tensor]"
    measure: Measure = "kl"


def _labelled(logits: "Tensor", batch: "Batch") -> "Tensor":
    """[B, C] or [B, T, C] -> the rows of what has a label."""
    return logits[batch["labels"] != IGNORED]


def _labels(batch: "Batch") -> "Tensor":
    return (batch["labels"] != IGNORED).sum()


def _switches(logits: "Tensor", batch: "Batch") -> "Tensor":
    """[B, C] -> [N, 2], a row for each label of each text: softmax of (x, 0) is the sigmoid of x."""
    from torch import stack, zeros_like

    known = logits[~batch["labels"].isnan()]
    return stack([known, zeros_like(known)], dim=-1)


def _numbers(logits: "Tensor", batch: "Batch") -> "Tensor":
    """[B, 1] -> the rows that have a number to learn."""
    return logits[~batch["labels"].isnan()]


def _known(batch: "Batch") -> "Tensor":
    return (~batch["labels"].isnan()).sum()


def _ends(logits: "Tensor", batch: "Batch") -> "Tensor":
    """[B, T, 2] -> [N, T], for each labelled window where an answer begins and where it ends; never in padding."""
    if "attention_mask" in batch:
        logits = logits.float().masked_fill(~batch["attention_mask"].bool().unsqueeze(-1), FAR)
    return logits[batch["labels"][:, 0] != IGNORED].transpose(1, 2).flatten(0, 1)


def _both_ends(batch: "Batch") -> "Tensor":
    return 2 * (batch["labels"][:, 0] != IGNORED).sum()


def _choices(logits: "Tensor", batch: "Batch") -> "Tensor":
    """[B, 1] -> [G, most choices], a row an example with a right choice; examples may have fewer choices."""
    from torch import arange

    groups, scores = batch["groups"], logits.float().squeeze(-1)
    sizes = groups.bincount()
    places = arange(len(groups), device=groups.device) - (sizes.cumsum(0) - sizes)[groups]
    rows = scores.new_full((len(sizes), int(sizes.max())), FAR).index_put((groups, places), scores)
    return rows[groups[batch["labels"] == 1]]


def _right_choices(batch: "Batch") -> "Tensor":
    return (batch["labels"] == 1).sum()


def _vectors(logits: "Tensor", batch: "Batch") -> "Tensor":
    """[B, E] -> the vectors of the texts that there are."""
    return logits[batch["attention_mask"].any(dim=1)] if "attention_mask" in batch else logits


def _texts(batch: "Batch") -> "Tensor":
    ids = batch["input_ids"]
    return batch["attention_mask"].any(dim=1).sum() if "attention_mask" in batch else ids.new_tensor(len(ids))


LABELS = Imitation(_labelled, _labels)
SWITCHES = Imitation(_switches, _known)
NUMBERS = Imitation(_numbers, _known, "squared_error")
ENDS = Imitation(_ends, _both_ends)
CHOICES = Imitation(_choices, _right_choices)
VECTORS = Imitation(_vectors, _texts, "cosine")
