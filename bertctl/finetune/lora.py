"""Low-rank adaptation: a trained addition to frozen matrices, which ends inside them. Source: arXiv:2106.09685.

Shapes: `*` any leading dimensions, I inputs, O outputs, R rank.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.encoder.dropout import Dropout
from bertctl.encoder.encoder import Encoder
from bertctl.errors import raise_problems
from bertctl.finetune.strategy_config import LoraSection

PLACES = {
    "query": ("attention", "query"),
    "key": ("attention", "key"),
    "value": ("attention", "value"),
    "output": ("attention", "output"),
    "gate": ("feed_forward", "gate"),
    "up": ("feed_forward", "up"),
    "down": ("feed_forward", "down"),
}


class LoraLinear(nn.Linear):
    """W x + b + scale B A x, with the very W and b of `plain`; B starts at zero, so nothing changes at first.

    A is drawn from normal(0, 1 / (3 I)) in variance, that of PyTorch's own linear layers, as in the paper's code.
    """

    def __init__(self, plain: nn.Linear, section: LoraSection) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=False, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        spread = (3 * plain.in_features) ** -0.5
        self.lora_a = nn.Parameter(plain.weight.new_empty(section.rank, plain.in_features).normal_(std=spread))
        self.lora_b = nn.Parameter(plain.weight.new_zeros(plain.out_features, section.rank))
        self.lora_dropout = Dropout(section.dropout)
        self.scale = section.alpha / section.rank

    def forward(self, x: Tensor) -> Tensor:
        """[*, I] -> [*, O]."""
        return super().forward(x) + self.scale * F.linear(F.linear(self.lora_dropout(x), self.lora_a), self.lora_b)

    def merged(self) -> nn.Linear:
        """An ordinary layer that computes the same; it takes the weight over, so this one is then of no use."""
        plain = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        with torch.no_grad():
            self.weight += self.scale * (self.lora_b @ self.lora_a)
        plain.weight, plain.bias = self.weight, self.bias
        return plain


def add_lora(encoder: Encoder, section: LoraSection) -> None:
    """Give the chosen matrices of every layer their addition, drawn from torch's global generator. A matrix that layers
    share has one. Errors: BertctlError for a projection that the layers do not have."""
    wanted = list(dict.fromkeys(section.projections))
    for layer in encoder.layers:
        absent = [name for name in wanted if plain_linear(layer, name) is None]
        raise_problems([f"strategy.lora.projections: got {name}, which this encoder's layers lack" for name in absent])
        for name in wanted:
            plain = plain_linear(layer, name)
            assert plain is not None  # just looked
            place, attribute = PLACES[name]
            if not isinstance(plain, LoraLinear):
                setattr(layer.get_submodule(place), attribute, LoraLinear(plain, section))


def plain_linear(layer: nn.Module, name: str) -> nn.Linear | None:
    """A layer's matrix by the recipe's name for it, if it has one."""
    place, attribute = PLACES[name]
    found = getattr(layer.get_submodule(place), attribute)
    return found if isinstance(found, nn.Linear) else None


def merge_lora(module: nn.Module) -> None:
    """Put every addition into its matrix and ordinary layers back; nothing to do without LoRA."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, LoraLinear):
                setattr(parent, name, child.merged())
