"""Optimizer state by name, compared with torch's own state_dict; wrong checkpoints are told by tensor name."""

import pytest
import torch
from torch import nn

from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError
from bertctl.training.state import (
    load_model_tensors,
    load_optimizer_tensors,
    optimizer_tensors,
    parameter_names,
)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 3)
        self.decoder = nn.Linear(3, 5)
        self.decoder.weight = self.words.weight
        self.register_buffer("positions", torch.arange(4), persistent=False)


def trained(fused: bool, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.optim.AdamW]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).to(dtype)
    groups = [
        {"params": [model[1].weight, model[0].weight]},
        {"params": [model[0].bias, model[1].bias], "weight_decay": 0},
    ]
    return model, torch.optim.AdamW(groups, lr=0.1, fused=fused)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    torch.manual_seed(seed)
    model(torch.randn(6, 3, dtype=model[0].weight.dtype)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_going_on_equals_not_stopping(fused: bool, dtype: torch.dtype) -> None:
    model, optimizer = trained(fused, dtype)
    for seed in range(3):
        step(model, optimizer, seed)
    other, resumed = trained(fused, dtype)
    load_model_tensors(other, {name: tensor.clone() for name, tensor in model_tensors(model).items()})
    load_optimizer_tensors(
        resumed, parameter_names(resumed, other), optimizer_tensors(optimizer, parameter_names(optimizer, model))
    )
    for number, values in optimizer.state_dict()["state"].items():
        theirs = resumed.state_dict()["state"][number]
        assert values.keys() == theirs.keys()
        assert all(torch.equal(values[key], theirs[key]) and values[key].dtype == theirs[key].dtype for key in values)
    for seed in range(3, 6):
        step(model, optimizer, seed)
        step(other, resumed, seed)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_names_follow_the_parameter_and_not_its_place() -> None:
    model, optimizer = trained(fused=True)
    assert parameter_names(optimizer, model) == ["1.weight", "0.weight", "0.bias", "1.bias"]
    assert optimizer_tensors(optimizer, parameter_names(optimizer, model)) == {}
    step(model, optimizer, 0)
    tensors = optimizer_tensors(optimizer, parameter_names(optimizer, model))
    assert {name.rsplit(".", 1)[1] for name in tensors} == {"exp_avg", "exp_avg_sq", "step"}
    assert tensors["0.weight.exp_avg"].shape == (4, 3)
    assert tensors["0.weight.step"] == 1


def test_tied_tensors_are_kept_once_and_stay_tied() -> None:
    model, other = Tied(), Tied()
    tensors = model_tensors(model)
    assert sorted(tensors) == ["decoder.bias", "words.weight"]
    load_model_tensors(other, tensors)
    assert torch.equal(other.decoder.weight, model.words.weight)
    assert other.decoder.weight is other.words.weight


def test_a_parameter_outside_the_saved_model_is_an_error() -> None:
    model, _ = trained(fused=True)
    projection = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW([*model.parameters(), *projection.parameters()])
    with pytest.raises(ValueError, match="2 parameters"):
        parameter_names(optimizer, model)


def test_checkpoints_that_do_not_fit() -> None:
    model, optimizer = trained(fused=True)
    tensors = {
        "0.weight": torch.ones(4, 9),
        "0.bias": torch.ones(4),
        "1.weight": torch.ones(2, 4),
        "2.bias": torch.ones(2),
    }
    before = {name: tensor.clone() for name, tensor in model_tensors(model).items()}
    with pytest.raises(BertctlError) as caught:
        load_model_tensors(model, tensors)
    assert len(caught.value.problems) == 3, "missing 1.bias, unknown 2.bias, shape of 0.weight"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model_tensors(model).items())
    names = parameter_names(optimizer, model)
    with pytest.raises(BertctlError, match=r"'9\.weight', which the optimizer has not"):
        load_optimizer_tensors(optimizer, names, {"9.weight.exp_avg": torch.ones(1)})
    with pytest.raises(BertctlError, match=r"exp_avg of '0\.bias' has shape \[5\]"):
        load_optimizer_tensors(optimizer, names, {"0.bias.exp_avg": torch.ones(5), "0.bias.step": torch.tensor(1.0)})
