"""Groups of parameters: which rate and decay each gets, and from which step on it moves."""

import pytest
import torch
from torch import nn

from bertctl.training.config import AdamWSection
from bertctl.training.optim import Group, group_optimizer, set_lr, set_trainable, stretches


def group(name, module, lr, **more):
    return Group(name, {f"{name}.{key}": p for key, p in module.named_parameters()}, lr, **more)


def test_each_group_has_its_own_rate_and_the_log_shows_the_recipes():
    low, high = nn.Linear(2, 2), nn.Linear(2, 2)
    section = AdamWSection(lr=0.1, weight_decay=0.3)
    optimizer = group_optimizer(section, [group("low", low, 0.025), group("high", high, 0.4)])
    assert set_lr(optimizer, 0.5) == pytest.approx(0.05)
    found = {id(p): (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    expected = {
        low.weight: (0.0125, 0.3),
        low.bias: (0.0125, 0.0),
        high.weight: (0.2, 0.3),
        high.bias: (0.2, 0.0),
    }
    assert found == {id(p): pytest.approx(pair) for p, pair in expected.items()}


def test_what_is_not_trained_yet_does_not_move_and_then_starts_its_own_bias_correction():
    """The first step of Adam has the size of the rate whatever the gradient; so has that of a group that joins late."""
    early, late = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    groups = [group("late", late, 0.01, first_step=3), group("early", early, 0.01)]
    optimizer = group_optimizer(AdamWSection(lr=0.01, weight_decay=0.5, eps=1e-12), groups)
    before = float(late.weight.detach())
    moved = []
    for step in (1, 2, 3):
        set_trainable(groups, step)
        (late(torch.ones(1, 1)) + early(torch.ones(1, 1))).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        moved.append(float(late.weight.detach()))
    assert moved[:2] == [before, before]  # no decay either
    assert moved[2] == pytest.approx(before * (1 - 0.01 * 0.5) - 0.01, abs=1e-6)
    assert float(optimizer.state[late.weight]["step"]) == 1
    assert float(optimizer.state[early.weight]["step"]) == 3


def test_a_frozen_group_is_not_in_the_optimizer():
    frozen, trained = nn.Linear(2, 2), nn.Linear(2, 2)
    groups = [group("frozen", frozen, 0.1, frozen=True), group("trained", trained, 0.1)]
    optimizer = group_optimizer(AdamWSection(), groups)
    set_trainable(groups, 1)
    assert {id(p) for g in optimizer.param_groups for p in g["params"]} == {id(p) for p in trained.parameters()}
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(p.requires_grad for p in trained.parameters())


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0, 10, [(0, 3), (3, 6), (6, 10)]),
        (4, 10, [(4, 6), (6, 10)]),
        (3, 10, [(3, 6), (6, 10)]),
        (0, 3, [(0, 3)]),
        (5, 5, []),
    ],
)
def test_the_run_is_cut_where_a_group_joins(start, stop, expected):
    groups = [Group(str(first), {}, 0.1, first_step=first) for first in (1, 4, 7, 21)]
    frozen = Group("never", {}, 0.1, frozen=True, first_step=9)
    assert list(stretches([*groups, frozen], start, stop)) == expected
