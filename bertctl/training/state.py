"""Weights and optimizer state as named tensors, and back: what a checkpoint holds instead of a pickle."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError, raise_problems


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy `tensors` into the model, which must have exactly these names and shapes. Errors: BertctlError."""
    own = model_tensors(model)
    problems = [f"checkpoint: no tensor {name!r}, which the model has" for name in own if name not in tensors]
    for name, tensor in tensors.items():
        if name not in own:
            problems.append(f"checkpoint: got tensor {name!r}, which the model has not")
        elif tensor.shape != own[name].shape:
            problems.append(f"checkpoint: {name!r} has shape {list(tensor.shape)}, expected {list(own[name].shape)}")
    raise_problems(problems)
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def parameter_names(optimizer: torch.optim.Optimizer, model: nn.Module) -> list[str]:
    """The name in `model` of each parameter of the optimizer, in the optimizer's order.

    Errors: ValueError if one is not in the model: its state could not be restored.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    ordered = [names.get(id(parameter)) for group in optimizer.param_groups for parameter in group["params"]]
    known = [name for name in ordered if name is not None]
    if len(known) != len(ordered):
        raise ValueError(f"{len(ordered) - len(known)} parameters of the optimizer are not in the model that is saved")
    return known


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Sequence[str]) -> dict[str, Tensor]:
    """The optimizer's state as `<parameter name>.<quantity>`, for AdamW `exp_avg`, `exp_avg_sq` and `step`.

    `names` in the optimizer's order. A parameter that was never updated has no state and is left out.
    """
    tensors = {}
    for name, parameter, _ in _named(optimizer, names):
        for quantity, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}.{quantity}"] = value
    return tensors


def load_optimizer_tensors(
    optimizer: torch.optim.Optimizer, names: Sequence[str], tensors: Mapping[str, Tensor]
) -> None:
    """Set the optimizer's state to what `optimizer_tensors` gave. Errors: BertctlError for unknown parameters."""
    states: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, quantity = key.rpartition(".")
        states.setdefault(name, {})[quantity] = tensor
    unknown = sorted(states.keys() - set(names))
    raise_problems([f"checkpoint: got optimizer state of {name!r}, which the optimizer has not" for name in unknown])
    for name, parameter, on_device in _named(optimizer, names):
        if name in states:
            optimizer.state[parameter] = {
                quantity: tensor.clone()
                if quantity == "step" and not on_device
                else tensor.to(parameter.device, copy=True)
                for quantity, tensor in states[name].items()
            }
            _check_shapes(name, parameter, optimizer.state[parameter])


def _check_shapes(name: str, parameter: Tensor, state: Mapping[str, Tensor]) -> None:
    for quantity, tensor in state.items():
        if quantity != "step" and tensor.shape != parameter.shape:
            raise BertctlError(
                f"checkpoint: {quantity} of {name!r} has shape {list(tensor.shape)}, expected {list(parameter.shape)}"
            )


def _named(optimizer: torch.optim.Optimizer, names: Sequence[str]) -> list[tuple[str, Tensor, bool]]:
    """Name, parameter, and whether its step count lives on the parameter's device (fused or capturable)."""
    ordered = [
        (parameter, bool(group.get("fused") or group.get("capturable")))
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    return [(name, parameter, on_device) for name, (parameter, on_device) in zip(names, ordered, strict=True)]
