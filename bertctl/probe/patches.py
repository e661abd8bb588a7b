"""Where on an image the heads look: how far from a patch, and what the class token sees.

Shapes: B batch, H heads, T tokens (the class token and the patches), P patches.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bertctl.probe.result import Layer, ProbeResult, Row

DECIMALS = 6  # of the maps: a large model has tens of thousands of numbers in them


def patch_probe(layer: Layer, row: Row) -> ProbeResult:
    """Mean distance over the heads of the block that made this layer, each head's, and the class token's maps; None for
    the embeddings and for texts."""
    found = layer.attention
    if found is None or found.pixels is None or found.class_token is None:
        return ProbeResult({"attention_distance": None})
    known = [value for value in found.pixels if value is not None]
    maps = [[[round(share, DECIMALS) for share in line] for line in head] for head in found.class_token]
    return ProbeResult(
        {"attention_distance": sum(known) / len(known) if known else None},
        {
            "attention_distance_per_head": {"layer": layer.number, "pixels": found.pixels},
            "class_token_attention": {"layer": layer.number, "maps": maps},
        },
    )


@dataclass(frozen=True)
class Grid:
    """Patches of `side` pixels in rows and columns."""

    rows: int
    columns: int
    side: int

    def distances(self) -> Tensor:
        """[P, P] float64: pixels between the middles of any two patches, row by row."""
        places = torch.cartesian_prod(torch.arange(self.rows), torch.arange(self.columns)).double() * self.side
        return (places[:, None] - places[None]).norm(dim=-1)


def patch_distances(weights: Tensor, distances: Tensor) -> Tensor:
    """How far each patch looks: the mean distance of the patches, weighted by its attention to them. Weight on the
    class token, which is nowhere, counts for nothing; NaN for a patch that looks at nothing else.

    Shapes: weights [B, H, T, T], distances [P, P] pixels -> [B, H, P] float64 pixels. Source: arXiv:2010.11929,
    section 4.5 and figure 7, the analogue of a receptive field.
    """
    among = weights[:, :, 1:, 1:].double()
    return (among * distances).sum(dim=-1) / among.sum(dim=-1)


def class_token_maps(weights: Tensor, grid: Grid) -> Tensor:
    """[B, H, T, T] -> [B, H, rows, columns] float64: the share of the class token's attention that each patch has; what
    is missing to 1 it gives to itself."""
    return weights[:, :, 0, 1:].double().unflatten(-1, (grid.rows, grid.columns))
