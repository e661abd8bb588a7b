"""The position-wise feed-forward layer, plain or gated.

Shapes: B batch, T tokens, E hidden size, F intermediate size.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.encoder.product import project

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),  # the tanh form of Google's ALBERT and of GPT-2
    "relu": F.relu,
    "silu": F.silu,
    "tanh": F.tanh,
}


class FeedForward(nn.Module):
    """down(act(up(x))), or down(act(gate(x)) * up(x)) if `gated`. Source: arXiv:1706.03762; gated: arXiv:2002.05202."""

    def __init__(self, hidden_size: int, intermediate_size: int, act: str, gated: bool, use_bias: bool) -> None:
        super().__init__()
        self.act = ACTIVATIONS[act]
        self.gate = nn.Linear(hidden_size, intermediate_size, bias=use_bias) if gated else None
        self.up = nn.Linear(hidden_size, intermediate_size, bias=use_bias)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=use_bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """[B, T, E] -> [B, T, E]."""
        inner = self.act(project(hidden, (self.up if self.gate is None else self.gate,)))
        if self.gate is not None:
            inner = inner * project(hidden, (self.up,))
        return project(inner, (self.down,))
