"""Schedules against their definitions, and the choice of what decays."""

import math

import pytest
import torch
from pydantic import ValidationError

from bertctl.training.config import AdamWSection, ScheduleSection, TrainingSection
from bertctl.training.optim import build_optimizer, set_lr
from bertctl.training.schedule import lr_share


def curve(name, steps=100, **fields):
    section = ScheduleSection(name=name, **fields)
    return [lr_share(section, step, steps) for step in range(1, steps + 1)]


@pytest.mark.parametrize("name", ["linear", "cosine", "wsd", "constant"])
def test_warm_up_is_linear_and_ends_at_the_peak(name):
    shares = curve(name, warmup_steps=10)
    assert shares[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert max(shares) == 1.0
    assert all(0 < share <= 1 for share in shares)


def test_curves():
    assert curve("linear", warmup_steps=0)[49] == pytest.approx(1 - 50 / 101)
    assert curve("cosine", warmup_steps=0)[49] == pytest.approx(0.5 * (1 + math.cos(math.pi * 50 / 101)))
    assert curve("cosine", warmup_steps=0, final_fraction=0.1)[-1] == pytest.approx(
        0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 100 / 101))
    )
    wsd = curve("wsd", warmup_steps=10, decay_fraction=0.2)
    assert wsd[9:80] == [1.0] * 71
    assert wsd[80:] == pytest.approx([1 - k / 21 for k in range(1, 21)])
    assert curve("constant", warmup_fraction=0.0) == [1.0] * 100


def test_a_warm_up_by_share_defaults_to_a_tenth():
    assert curve("constant")[:11] == pytest.approx([k / 10 for k in range(1, 11)] + [1.0])


def test_contradictions_are_refused():
    for section, fields in (
        (ScheduleSection, {"warmup_steps": 1, "warmup_fraction": 0.1}),
        (TrainingSection, {"steps": 1, "epochs": 1.0}),
        (TrainingSection, {"batch_size": 4, "micro_batch_size": 8}),
        (AdamWSection, {"betas": [0.9, 1.0]}),
        (AdamWSection, {"betas": [-0.1, 0.9]}),
    ):
        with pytest.raises(ValidationError):
            section(**fields)


def test_epochs_become_steps():
    assert TrainingSection(epochs=3.0, batch_size=32).steps_for(100, 1.0) == 12
    assert TrainingSection(batch_size=32).steps_for(100, 2.0) == 8
    assert TrainingSection(steps=5).steps_for(100, 2.0) == 5


def test_decay_leaves_biases_and_norms_alone():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
    module[0].weight.requires_grad_(True)
    optimizer = build_optimizer(AdamWSection(weight_decay=0.3, lr=0.5), module)
    by_id = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert by_id[id(module[0].weight)] == 0.3
    assert [by_id[id(p)] for p in (module[0].bias, module[1].weight, module[1].bias)] == [0.0] * 3
    assert set_lr(optimizer, 0.5) == 0.25
    frozen = torch.nn.Linear(3, 3).requires_grad_(False)
    assert len(build_optimizer(AdamWSection(), torch.nn.ModuleList([module, frozen])).param_groups[0]["params"]) == 1
