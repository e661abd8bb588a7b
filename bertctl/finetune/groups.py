"""Which parameters are trained, from which step on, and at which rate: one table, which is also printed and saved.

From bottom to top the groups are the embeddings (with learned positions), layer 1 to layer L, and the head with its
pooler and whatever else an objective trains. What several layers share belongs to the topmost of them, which has the
most to say in how it is trained: ALBERT's one set of weights and tables of relative positions are part of layer L, and
so is a final norm. Shared weights therefore decay once, freeze with the whole encoder, and unfreeze first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from torch import nn

from bertctl.console import note, warn
from bertctl.errors import BertctlError
from bertctl.finetune.strategy_config import StrategySection
from bertctl.heads.model import Model
from bertctl.training.config import AdamWSection
from bertctl.training.optim import Group, decays

EMBEDDINGS, HEAD, LORA = "embeddings", "head", "lora"
LORA_PARTS = ("lora_a", "lora_b")
Named = dict[str, nn.Parameter]


def parameter_groups(
    objective: nn.Module, model: Model, strategy: StrategySection, lr: float, *, steps_in_epoch: int
) -> list[Group]:
    """The trainable parameters of `objective`, which holds `model`, in groups from bottom to top.

    The head learns at `head_lr` or `lr`; n groups below it, a group learns at lr * layer_decay^n. With L layers of
    their own that is lr * d^(L + 1 - l) for layer l and lr * d^(L + 1) for the embeddings, as in BEiT
    (arXiv:2106.08254). ELECTRA's published code starts at d^2 for layer L, which its author calls a mistake
    (github.com/google-research/electra/issues/51).
    Errors: BertctlError if nothing is left to train.
    """
    parts = parts_of(objective, model)
    every = steps_in_epoch if strategy.unfreeze_every == "epoch" else strategy.unfreeze_every or 0
    frozen = frozen_parts(strategy, parts)
    groups: list[Group] = []
    for below, (name, parameters) in enumerate(reversed(parts.items())):
        rate = lr * strategy.layer_decay**below if below else strategy.head_lr or lr
        groups.insert(0, Group(name, parameters, rate, name in frozen, 1 + every * below))
    if strategy.lora is not None:
        groups = lora_groups(groups)
    groups = [group for group in groups if group.parameters]
    if all(group.frozen for group in groups):
        problem = "strategy: freezes every parameter there is, as the head has none; expected something to train"
        raise BertctlError(problem, hint="freeze fewer layers, or use `lora`")
    early = min(group.first_step for group in groups if not group.frozen) - 1  # not 0 if the head has no parameters
    return [replace(group, first_step=group.first_step - early) for group in groups]


def parts_of(objective: nn.Module, model: Model) -> dict[str, Named]:
    """Name of the group, from bottom to top -> its parameters."""
    encoder, owner = model.encoder, dict[int, str]()
    top = f"layer {len(encoder.layers)}"
    owned: list[tuple[nn.Module | None, str]] = [
        (encoder, top),  # which a final norm keeps
        (encoder.embeddings, EMBEDDINGS),
        (encoder.position, EMBEDDINGS),
        (encoder.position.relative, top),
        *((layer, f"layer {number}") for number, layer in enumerate(encoder.layers, 1)),
    ]
    for part, name in owned:
        owner |= {id(p): name for p in ([] if part is None else part.parameters())}
    layers = [name for _, name in owned[4:] if name in owner.values()]
    parts: dict[str, Named] = {name: {} for name in (EMBEDDINGS, *layers, HEAD)}
    for name, parameter in objective.named_parameters():
        if parameter.requires_grad:
            parts[owner.get(id(parameter), HEAD)][name] = parameter
    return parts


def frozen_parts(strategy: StrategySection, parts: Iterable[str]) -> set[str]:
    """Names of the groups that are never trained."""
    if strategy.lora is not None or strategy.freeze is None:
        return set()  # `lora_groups` freezes what is not LoRA's
    if strategy.freeze == "encoder":
        return set(parts) - {HEAD}
    layers = 0 if strategy.freeze == "embeddings" else strategy.freeze
    return {EMBEDDINGS, *(f"layer {number}" for number in range(1, 1 + layers))}


def lora_groups(groups: Sequence[Group]) -> list[Group]:
    """The encoder's groups, frozen; then what LoRA adds to each, at one rate; then the head."""
    *encoder, head = groups
    frozen, added = [], []
    for group in encoder:
        names = {name for name in group.parameters if name.rpartition(".")[2] in LORA_PARTS}
        kept = {name: p for name, p in group.parameters.items() if name not in names}
        frozen.append(Group(group.name, kept, group.lr, frozen=True))
        added.append(
            Group(
                f"{group.name} {LORA}",
                {name: group.parameters[name] for name in group.parameters if name in names},
                group.lr,
            )
        )
    return [*frozen, *added, head]


def table(groups: Sequence[Group], section: AdamWSection) -> list[dict[str, Any]]:
    """A row a group, as the result of a run has it. `weight_decay` is that of the group's matrices; vectors have none.
    Rate, decay and first step of a frozen group are None."""
    return [
        {
            "group": group.name,
            "tensors": len(group.parameters),
            "parameters": sum(p.numel() for p in group.parameters.values()),
            "frozen": group.frozen,
            "lr": None if group.frozen else group.lr,
            "weight_decay": None if group.frozen else section.weight_decay,
            "decayed_parameters": 0 if group.frozen else sum(p.numel() for p in group.parameters.values() if decays(p)),
            "first_step": None if group.frozen else group.first_step,
        }
        for group in groups
    ]


def show_table(rows: Sequence[dict[str, Any]], steps: int) -> None:
    """The table for the person who watches; neighbours that are treated alike are one line."""
    treated = ("frozen", "lr", "weight_decay", "first_step")
    lines = []
    for treatment, alike in groupby(rows, key=lambda row: tuple(row[name] for name in treated)):
        members = list(alike)
        names = [row["group"] for row in members]
        name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        counts = [f"{sum(row[count] for row in members):,}" for count in ("tensors", "parameters")]
        frozen, lr, decay, first = treatment
        since = f"from step {first:,}" if not frozen and first > 1 else ""
        lines.append((name, *counts, *(("frozen", "") if frozen else (f"{lr:.3g}", f"{decay:g}")), since))
    for line in aligned([("group", "tensors", "parameters", "rate", "decay", ""), *lines]):
        note(line)
    late = [row["group"] for row in rows if not row["frozen"] and row["first_step"] > steps]
    if late:
        warn(f"{', '.join(late)}: not trained, the run ends at step {steps:,} before they unfreeze")


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell: the first one to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        ).rstrip()
        for line in lines
    ]
