"""Optimizers over groups of parameters that share a rate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from bertctl.training.config import AdamWSection


@dataclass(frozen=True)
class Group:
    """Parameters by name with their peak rate `lr`, trained from step `first_step` on, or never if `frozen`."""

    name: str
    parameters: Mapping[str, nn.Parameter]
    lr: float
    frozen: bool = False
    first_step: int = 1

    def trains_at(self, step: int) -> bool:
        """Whether step number `step` (the first is 1) trains the group."""
        return not self.frozen and step >= self.first_step


def decays(parameter: nn.Parameter) -> bool:
    """Whether weight decay applies: matrices yes; biases and the weights of norms, which are vectors, no. Source:
    google-research/bert, which excludes LayerNorm and bias."""
    return parameter.ndim >= 2


def build_optimizer(section: AdamWSection, module: nn.Module) -> torch.optim.AdamW:
    """AdamW over the trainable parameters of `module`, all with the section's rate."""
    trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
    return group_optimizer(section, [Group("all", trainable, section.lr)])


def group_optimizer(section: AdamWSection, groups: Sequence[Group]) -> torch.optim.AdamW:
    """AdamW over all groups that are not frozen for good; what is not trained yet has no gradient and stays as it is.

    The schedule's share multiplies each group's `peak_lr`. `fused` updates in one pass: measured 4 times as fast as the
    default on a CPU.
    """
    parts = [
        {"params": chosen, "weight_decay": section.weight_decay if decayed else 0.0, "peak_lr": group.lr}
        for group in groups
        if not group.frozen
        for decayed in (True, False)
        if (chosen := [p for p in group.parameters.values() if decays(p) is decayed])
    ]
    return torch.optim.AdamW(
        parts, lr=section.lr, betas=(section.betas[0], section.betas[1]), eps=section.eps, fused=True
    )


def set_lr(optimizer: torch.optim.Optimizer, share: float) -> float:
    """Set every group's rate to `share` of its peak; returns that share of the optimizer's own rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * share
    return float(optimizer.defaults["lr"]) * share


def stretches(groups: Sequence[Group], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Steps `start` + 1 to `stop` cut where a group begins to be trained, as (steps done before, last step)."""
    borders = {group.first_step - 1 for group in groups if not group.frozen}
    yield from pairwise(sorted({start, stop} | {border for border in borders if start < border < stop}))


def set_trainable(groups: Sequence[Group], step: int) -> None:
    """Have exactly those parameters take part in gradients that `step` trains."""
    for group in groups:
        for parameter in group.parameters.values():
            parameter.requires_grad_(group.trains_at(step))
