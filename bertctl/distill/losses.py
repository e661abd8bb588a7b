"""Distillation losses: pure functions of what student and teacher computed, each a sum that the loop divides later.

Shapes: N rows to imitate, M real tokens, C classes or vocabulary, E hidden size, H heads, T tokens. Every function is
0 for a student that equals its teacher. Nothing here imports torch at run time, so recipes are checked without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from bertctl.tasks.imitation import Measure


def soft_target_kl(student: "Tensor", teacher: "Tensor", *, temperature: float) -> "Tensor":
    """T^2 * KL(softmax(teacher / T) || softmax(student / T)), summed over rows, in nats.

    The factor keeps the gradient's size when T changes. Shapes: logits [N, C] each; returns a scalar.
    Source: Hinton et al., arXiv:1503.02531, section 2; DistilBERT, arXiv:1910.01108, section 2.
    """
    wanted = (teacher.float() / temperature).log_softmax(dim=-1)
    given = (student.float() / temperature).log_softmax(dim=-1)
    return (wanted.exp() * (wanted - given)).sum() * temperature**2


def hidden_cosine(student: "Tensor", teacher: "Tensor") -> "Tensor":
    """1 - cosine of the two vectors of a token, summed over tokens. Shapes: [M, E] each; returns a scalar.

    Source: DistilBERT, arXiv:1910.01108, section 2 (torch's CosineEmbeddingLoss with target 1).
    """
    student, teacher = student.float(), teacher.float()
    norms = student.norm(dim=-1) * teacher.norm(dim=-1)
    return (1.0 - (student * teacher).sum(dim=-1) / norms.clamp(min=1e-8)).sum()


def hidden_mse(student: "Tensor", teacher: "Tensor") -> "Tensor":
    """Mean over features of the squared difference, summed over tokens. Shapes: [M, E] each; returns a scalar.

    Source: TinyBERT, arXiv:1909.10351, equation 8, for the last layer.
    """
    return (student.float() - teacher.float()).square().mean(dim=-1).sum()


def attention_kl(student: "Tensor", teacher: "Tensor") -> "Tensor":
    """KL(teacher || student) of what a token attends to, mean over heads, summed over tokens, in nats.

    Shapes: attention weights [M, H, T] each, zero at padding; returns a scalar.
    Source: MiniLM, arXiv:2002.10957, section 3.1, for the last layer.
    """
    student, teacher = student.float().clamp(min=1e-9), teacher.float()
    kept = teacher.clamp(min=1e-9)
    return (teacher * (kept.log() - student.log())).sum(dim=-1).mean(dim=-1).sum()


@dataclass(frozen=True)
class View:
    """What one model computed for a batch: `rows` [N, C] logits to imitate, `hidden` [M, E] last states of the real
    tokens (the student's projected to the teacher's width), `attention` [M, H, T] of the last layer if asked for;
    `measure` says how rows are compared."""

    rows: "Tensor"
    hidden: "Tensor"
    attention: "Tensor | None" = None
    measure: "Measure" = "kl"


@dataclass(frozen=True)
class Loss:
    """A row of `LOSSES`: (student, teacher, temperature) -> sum; what a mean is taken over; which part it needs."""

    measure: "Callable[[View, View, float], Tensor]"
    per: Literal["rows", "tokens"]
    reads: Literal["rows", "hidden", "attention"]


MEASURES: "dict[Measure, Callable[[Tensor, Tensor, float], Tensor]]" = {
    "kl": lambda student, teacher, degree: soft_target_kl(student, teacher, temperature=degree),
    "squared_error": lambda student, teacher, _: hidden_mse(student, teacher),
    "cosine": lambda student, teacher, _: hidden_cosine(student, teacher),
}


def _attention(view: View) -> "Tensor":
    assert view.attention is not None  # the objective asks for it whenever a loss reads it
    return view.attention


LOSSES: dict[str, Loss] = {
    "soft_targets": Loss(lambda s, t, degree: MEASURES[s.measure](s.rows, t.rows, degree), "rows", "rows"),
    "hidden_cosine": Loss(lambda s, t, _: hidden_cosine(s.hidden, t.hidden), "tokens", "hidden"),
    "hidden_mse": Loss(lambda s, t, _: hidden_mse(s.hidden, t.hidden), "tokens", "hidden"),
    "attention_kl": Loss(lambda s, t, _: attention_kl(_attention(s), _attention(t)), "tokens", "attention"),
}

# Cross-entropies with what the data say, beside the teacher; which of them there are depends on the data.
PRETRAINING_LABELS = ("mlm", "sentence_pair")
TASK_LABELS = ("hard_labels",)

# DistilBERT's weights for the first three (its released training command; the paper gives none).
PRETRAINING_WEIGHTS = {"soft_targets": 5.0, "mlm": 2.0, "hidden_cosine": 1.0, "sentence_pair": 1.0}
TASK_WEIGHTS = {"soft_targets": 0.5, "hard_labels": 0.5}
