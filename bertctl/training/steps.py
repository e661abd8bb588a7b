"""What every consumer of the loop says about a step and a model."""

from typing import Any

from bertctl.heads.model import Model
from bertctl.training.loop import Step
from bertctl.variants.config import OWN_TYPE
from bertctl.variants.hf import written_as


def due(step: int, every: int | None) -> bool:
    """Whether something that happens every so many steps happens at this one."""
    return every is not None and step % every == 0


def step_line(step: Step, speed: float) -> dict[str, Any]:
    """A line of metrics.jsonl; `speed` in real tokens per second."""
    return {
        "step": step.number,
        "split": "train",
        "loss": step.loss,
        **{f"loss_{term}": value for term, value in step.losses.items()},
        "grad_norm": step.grad_norm,
        "lr": step.lr,
        "tokens_per_second": round(speed, 1),
    }


def parameters(model: Model) -> int:
    """Numbers that a model has learnt, shared ones once."""
    return sum(p.numel() for p in model.parameters())


def describe(model: Model) -> str:
    """One phrase about a model, which says so if transformers cannot load it."""
    config = model.config
    own = f" (model_type {OWN_TYPE}, which transformers cannot load)" if written_as(model) == OWN_TYPE else ""
    return f"{config.num_hidden_layers} layers x {config.hidden_size}, {parameters(model):,} parameters{own}"
