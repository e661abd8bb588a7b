"""Where a token stands. A position may add to the embeddings, rotate queries and keys, or bias the scores.

Shapes: B batch, T tokens, H heads, D head size, E embedding size.
"""

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig


class NoPosition(nn.Module):
    """Knows nothing of order; also the base that the others change in one place each."""

    def add(self, embedded: Tensor) -> Tensor:
        """[B, T, E] -> [B, T, E]: what is added to the word embeddings."""
        return embedded

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """[B, H, T, D] twice -> the same shapes."""
        return q, k

    def bias(self, tokens: int) -> Tensor | None:
        """What is added to the scores, broadcast to [B, H, T, T]; None for nothing."""
        return None


class LearnedPosition(NoPosition):
    """One trained vector for each place. Source: BERT, arXiv:1810.04805, section 3. RoBERTa's (arXiv:1907.11692) table
    has unused rows in front, for padding and every id before it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.first = config.position_offset
        places = config.max_position_embeddings + self.first
        self.table = nn.Embedding(places, config.embedding_size or config.hidden_size)

    def add(self, embedded: Tensor) -> Tensor:
        return embedded + self.table.weight[self.first : self.first + embedded.shape[1]]


class SinusoidalPosition(NoPosition):
    """Fixed sines and cosines, even dimensions sine. Source: arXiv:1706.03762, section 3.5."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_size or config.hidden_size
        angles = _angles(config.max_position_embeddings, width, base=10_000.0)
        table = torch.zeros(config.max_position_embeddings, width)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()[:, : width // 2]
        self.table: Tensor
        self.register_buffer("table", table, persistent=False)

    def add(self, embedded: Tensor) -> Tensor:
        return embedded + self.table[: embedded.shape[1]].to(embedded.dtype)


class RotaryPosition(NoPosition):
    """Rotates pairs (i, i + D/2) of q and k by an angle that grows with the place. Source: RoFormer, arXiv:2104.09864.

    The scores then depend on the distance of two tokens only. Angles stay float32: bf16 cannot tell places past 256
    apart.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        angles = _angles(config.max_position_embeddings, config.head_size, base=config.rope_theta)
        self.cos: Tensor
        self.sin: Tensor
        self.register_buffer("cos", angles.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", angles.sin().repeat(1, 2), persistent=False)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        tokens = q.shape[-2]
        cos, sin = self.cos[:tokens], self.sin[:tokens]
        return _rotate(q, cos, sin), _rotate(k, cos, sin)


def _angles(places: int, width: int, base: float) -> Tensor:
    """[places, ceil(width / 2)]: place times base^(-2i / width)."""
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return (torch.arange(places, dtype=torch.float64)[:, None] * rates).float()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, dim=-1)
    return (x.float() * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


POSITIONS = {
    "learned": LearnedPosition,
    "sinusoidal": SinusoidalPosition,
    "rotary": RotaryPosition,
}


def build_position(config: EncoderConfig) -> NoPosition:
    """The position that `config` names."""
    return NoPosition() if config.position == "none" else POSITIONS[config.position](config)
