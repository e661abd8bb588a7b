"""How fresh weights are drawn: a scheme is a function that says what each tensor gets, and `SCHEMES` names them.

s is `initializer_range`, L the number of layers, `in` and `out` what a linear layer or convolution reads and gives for
one output place, `width` that of a table. Every normal distribution is cut at two standard deviations, which leaves
0.88 of its spread, as BERT's is.

| scheme          | tables, class tokens    | linear, convolution  | back into the sum     | outputs for labels   |
|-----------------|-------------------------|----------------------|-----------------------|----------------------|
| normal          | normal, s               | normal, s            | normal, s             | normal, 1 / sqrt(in) |
| depth_scaled    | normal, s               | normal, s            | normal, s / sqrt(2 L) | normal, 1 / sqrt(in) |
| fan_in          | normal, 1 / sqrt(width) | normal, 1 / sqrt(in) | normal, 1 / sqrt(in)  | normal, 1 / sqrt(in) |
| xavier          | normal, 1 / sqrt(width) | uniform, sqrt(2 / (in + out)), in all three                         |
| small_embedding | uniform, at most 0.0001 | normal, s            | normal, s             | normal, 1 / sqrt(in) |

Biases are 0 and norm weights 1. What goes back into the residual sum is `attention.output` and `feed_forward.down`;
depth_scaled draws the dense layers before the outputs of heads (`transform`) likewise, as ModernBERT's code does.
Sources: normal, the code of google-research/bert, but for the labels; depth_scaled, Megatron-LM (arXiv:1909.08053) and
the code of ModernBERT (arXiv:2412.13663); fan_in, "Efficient BackProp" (LeCun et al., 1998), section 4.6, which T5's
code follows; xavier, Glorot and Bengio (2010), with tables as in tensor2tensor, the code of arXiv:1706.03762;
small_embedding, github.com/BlinkDL/SmallInitEmb, which needs a norm after the embeddings.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bertctl.encoder.config import EncoderConfig

LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d)
NORMS = (nn.LayerNorm, nn.RMSNorm)
RESIDUAL = ("attention.output", "feed_forward.down")
SMALL = 1e-4
CUT = 2.0  # standard deviations
Role = Literal["table", "linear", "residual", "transform", "label"]


@dataclass(frozen=True)
class Draw:
    """A distribution around 0: its standard deviation, for `normal` before it is cut."""

    shape: Literal["normal", "uniform"]
    std: float

    @property
    def limit(self) -> float:
        """Nothing further from 0 is drawn."""
        return CUT * self.std if self.shape == "normal" else 3**0.5 * self.std

    def into(self, tensor: Tensor) -> None:
        """Fill `tensor`, from torch's global generator."""
        if self.shape == "normal":
            nn.init.trunc_normal_(tensor, std=self.std, a=-self.limit, b=self.limit)
        else:
            nn.init.uniform_(tensor, -self.limit, self.limit)

    def __str__(self) -> str:
        return f"{self.shape}, std {self.std:.3g}"


def normal(role: Role, weight: Tensor, config: EncoderConfig) -> Draw:
    """One standard deviation for everything but the outputs for labels, which BERT draws with s too: six layers of 384
    learn a new task far more slowly with 0.02 there than with 0.05. Names in 400 sentences, 65 steps: training loss at
    the end 0.18 to 0.20 against 0.07, F1 0.41 against 0.56 (docs/experiments.md, "Beside the Trainer")."""
    return Draw("normal", fans(weight)[0] ** -0.5 if role == "label" else config.initializer_range)


def depth_scaled(role: Role, weight: Tensor, config: EncoderConfig) -> Draw:
    """What 2 L parts add to the residual sum has the variance of one."""
    if role in ("residual", "transform"):
        return Draw("normal", config.initializer_range * (2 * config.num_hidden_layers) ** -0.5)
    return Draw("normal", fans(weight)[0] ** -0.5 if role == "label" else config.initializer_range)


def fan_in(role: Role, weight: Tensor, config: EncoderConfig) -> Draw:
    """Outputs have the variance of inputs, at any width."""
    return Draw("normal", (weight.shape[-1] if role == "table" else fans(weight)[0]) ** -0.5)


def xavier(role: Role, weight: Tensor, config: EncoderConfig) -> Draw:
    """A compromise between the variance of outputs and that of gradients."""
    if role == "table":
        return Draw("normal", weight.shape[-1] ** -0.5)
    return Draw("uniform", (2 / sum(fans(weight))) ** 0.5)


def small_embedding(role: Role, weight: Tensor, config: EncoderConfig) -> Draw:
    """Tables that the first updates turn to where they should point; the norm after them gives them their length."""
    return Draw("uniform", SMALL / 3**0.5) if role == "table" else normal(role, weight, config)


SCHEMES: dict[str, Callable[[Role, Tensor, EncoderConfig], Draw]] = {
    "normal": normal,
    "depth_scaled": depth_scaled,
    "fan_in": fan_in,
    "xavier": xavier,
    "small_embedding": small_embedding,
}


def fans(weight: Tensor) -> tuple[int, int]:
    """(in, out) of the weight [out, in, places of a window...] of a linear layer or convolution."""
    places = weight[0, 0].numel()
    return weight.shape[1] * places, weight.shape[0] * places


def role_of(path: str, part: nn.Module) -> Role:
    """What a part is for, by its kind and its path below an encoder, a pooler or a head."""
    if isinstance(part, nn.Embedding):
        return "table"
    if path.endswith(RESIDUAL):
        return "residual"
    names = path.split(".")
    return "label" if names[-1] == "output" else "transform" if "transform" in names else "linear"


def fresh_values(module: nn.Module, config: EncoderConfig) -> Iterator[tuple[str, Tensor, Draw | float]]:
    """What every tensor of `module` gets, in the order in which they are drawn: (name, tensor, distribution or number).
    A part may list parameters as `drawn`, which are drawn as tables are (ViT's class token and places)."""
    scheme = SCHEMES[config.initializer]
    for path, part in module.named_modules():
        prefix = f"{path}." if path else ""
        if isinstance(part, (*LINEAR, nn.Embedding)):
            yield f"{prefix}weight", part.weight, scheme(role_of(path, part), part.weight, config)
        for name in getattr(part, "drawn", ()):
            tensor = part.get_parameter(name)
            yield f"{prefix}{name}", tensor, scheme("table", tensor, config)
        if isinstance(part, NORMS):
            yield f"{prefix}weight", part.weight, 1.0
        bias = getattr(part, "bias", None)
        if isinstance(bias, nn.Parameter):
            yield f"{prefix}bias", bias, 0.0


def initialise(module: nn.Module, config: EncoderConfig) -> None:
    """Draw all weights of `module` anew, in the order of its parameters, from torch's global generator."""
    for _, tensor, value in fresh_values(module, config):
        if isinstance(value, Draw):
            value.into(tensor)
        else:
            nn.init.constant_(tensor, value)


class NothingDrawn(TorchFunctionMode):
    """Within it PyTorch's modules leave new weights as memory was, for those that are read from a file next."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        draws = func in (nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_)
        return kwargs["tensor"] if draws else func(*args, **(kwargs or {}))
