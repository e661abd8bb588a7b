"""Where a token stands. A position may add to the embeddings, rotate queries and keys, or bias the scores; the last is
an axis of its own (`relative.py`), so that it goes with any of the others.

Shapes: B batch, T tokens, H heads, D head size, E embedding size.
"""

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.relative import Project, Relative, ScoreBias, build_relative


class NoPosition(nn.Module):
    """Knows nothing of order, but for what `relative` adds; also the base that the others change in one place each."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.relative: Relative | None = build_relative(config)

    def add(self, embedded: Tensor) -> Tensor:
        """[B, T, E] -> [B, T, E]: what is added to the word embeddings."""
        return embedded

    def add_on_grid(self, embedded: Tensor, grid: tuple[int, int]) -> Tensor:
        """The same for a class token and the patches of an image in `grid` rows and columns, row by row."""
        return self.add(embedded)

    def rotate(self, q: Tensor, k: Tensor, local: bool, places: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """[B, H, T, D] twice -> the same shapes; `local`: whether the layer sees a window only; `places` [T]: where the
        tokens stand, if not one after the other."""
        return (q if self.relative is None or self.relative.query_scale == 1.0 else q * self.relative.query_scale), k

    def score_bias(self, project_query: Project, project_key: Project) -> ScoreBias | None:
        """What is added to the scores of a layer with these maps to queries and keys; None for nothing."""
        return None if self.relative is None else self.relative(project_query, project_key)


class LearnedPosition(NoPosition):
    """One trained vector for each place. Source: BERT, arXiv:1810.04805, section 3. RoBERTa's (arXiv:1907.11692) table
    has unused rows in front, for padding and every id before it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.first = config.position_offset
        places = config.max_position_embeddings + self.first
        self.table = nn.Embedding(places, config.embedding_size or config.hidden_size)

    def add(self, embedded: Tensor) -> Tensor:
        return embedded + self.table.weight[self.first : self.first + embedded.shape[1]]


class GridPosition(NoPosition):
    """One trained vector for the class token and each patch of a square image; on another grid they are interpolated,
    bicubic, so that a place keeps its share of the width and height. Source: ViT, arXiv:2010.11929, section 3.2, as
    released in transformers."""

    drawn = ("position_embeddings",)

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.side = config.image_size // config.patch_size
        self.position_embeddings = nn.Parameter(torch.zeros(1, config.max_position_embeddings, config.hidden_size))

    def add_on_grid(self, embedded: Tensor, grid: tuple[int, int]) -> Tensor:
        places: Tensor = self.position_embeddings
        if grid != (self.side, self.side):
            square = places[:, 1:].unflatten(1, (self.side, self.side)).permute(0, 3, 1, 2)
            spread = nn.functional.interpolate(square, size=grid, mode="bicubic", align_corners=False)
            places = torch.cat((places[:, :1], spread.flatten(2).transpose(1, 2)), dim=1)
        return embedded + places


class SinusoidalPosition(NoPosition):
    """Fixed sines and cosines, even dimensions sine. Source: arXiv:1706.03762, section 3.5."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
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

    The scores then depend on the distance of two tokens only. Layers that see a window may turn faster, with a base of
    their own (ModernBERT, arXiv:2412.13663). Angles stay float32: bf16 cannot tell places past 256 apart.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.has_local = config.local_rope_theta is not None
        for name, base in (("", config.rope_theta), ("local_", config.local_rope_theta)):
            if base is not None:
                angles = _angles(config.max_position_embeddings, config.head_size, base=base)
                self.register_buffer(f"{name}cos", angles.cos().repeat(1, 2), persistent=False)
                self.register_buffer(f"{name}sin", angles.sin().repeat(1, 2), persistent=False)

    def rotate(self, q: Tensor, k: Tensor, local: bool, places: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k = super().rotate(q, k, local, places)
        rows = slice(q.shape[-2]) if places is None else places
        name = "local_" if local and self.has_local else ""
        cos, sin = (self.get_buffer(f"{name}{part}")[rows] for part in ("cos", "sin"))
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
    "grid": GridPosition,
    "sinusoidal": SinusoidalPosition,
    "rotary": RotaryPosition,
    "none": NoPosition,
}


def build_position(config: EncoderConfig) -> NoPosition:
    """The position that `config` names."""
    return POSITIONS[config.position](config)
