"""Layers that have parameters in common, and the names under which a model's tensors are stored once.

A shared part is one module that several layers hold: its tensors are stored once, under the first layer that has them,
and its gradient is the sum over these layers. Source: ALBERT, arXiv:1909.11942, section 3.1.
"""

from collections.abc import Callable

from torch import Tensor, nn

from bertctl.encoder.block import Block
from bertctl.encoder.config import EncoderConfig

SHARED_PARTS = {
    "none": (),
    "attention": ("attention", "attention_norm"),
    "feed_forward": ("feed_forward", "feed_forward_norm"),
}


def build_layers(config: EncoderConfig, make: Callable[[int], Block]) -> list[Block]:
    """Layers made by their number (the first is 0); those of a group have in common what `config.layer_sharing` names,
    which may be everything."""
    layers: list[Block] = []
    firsts: dict[int, Block] = {}
    for number in range(config.num_hidden_layers):
        first = firsts.get(config.group_of(number))
        layer = first if first is not None and config.layer_sharing == "all" else make(number)
        if first is None:
            firsts[config.group_of(number)] = layer
        elif layer is not first:
            for part in SHARED_PARTS[config.layer_sharing]:
                setattr(layer, part, getattr(first, part))
        layers.append(layer)
    return layers


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and stored buffers by name; shared and tied ones once, under their first name."""
    stored = model.state_dict()
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return parameters | {name: buffer for name, buffer in model.named_buffers() if name in stored}
