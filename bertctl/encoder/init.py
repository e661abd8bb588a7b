"""How fresh weights are drawn.

| tensor                                   | value                                      |
|------------------------------------------|--------------------------------------------|
| linear, convolution and embedding weight | normal(0, initializer_range), cut at 2 std |
| what a part lists as `drawn`             | the same (ViT's class token and places)    |
| bias                                     | 0                                          |
| norm weight                              | 1                                          |

Source: the initializer of google-research/bert (truncated normal, standard deviation 0.02).
"""

from torch import nn


def initialise(module: nn.Module, std: float) -> None:
    """Draw all weights of `module` anew, in the order of its parameters, from torch's global generator."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        for name in getattr(part, "drawn", ()):
            nn.init.trunc_normal_(part.get_parameter(name), std=std, a=-2 * std, b=2 * std)
        if isinstance(part, nn.LayerNorm | nn.RMSNorm):
            nn.init.ones_(part.weight)
        bias = getattr(part, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)
