"""A larger model out of a smaller one, or the other way round, and position tables for longer inputs.

Width: a wider tensor repeats the narrower one (unit i is a copy of unit i mod n), and what reads copies gives each a
share, so that for whole multiples the wider model computes what the narrower one did. The shares are uneven, drawn by
seed, since equal copies would get equal gradients and stay equal. Narrower: the first units.
Source: Net2Net, arXiv:1511.05641; bert2BERT, arXiv:2110.07143.
Depth: the stack is repeated on top of itself (arXiv:1906.02337), or layers are left out evenly; where kinds of
attention take turns, a layer starts from the nearest one of its own kind.
Shapes: n old size, m new size of a dimension, P places.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError, raise_problems
from bertctl.heads.model import Model

Stretch = Literal["tile", "interpolate"]
LAYERS = "encoder.layers."
POSITIONS = "encoder.position.table.weight"
TIED_NORM = "heads.masked_lm.norm"  # what it gives is multiplied with the word embeddings, whose units are copies too
SIZES = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "embedding_size",
    "max_position_embeddings",
)
FREE = (
    "initializer",
    "initializer_range",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "rope_theta",
    "local_rope_theta",
)


def resized(
    source: Model, config: EncoderConfig, heads: Mapping[str, int], *, seed: int, stretch: Stretch = "tile"
) -> tuple[Model, list[str]]:
    """(a model of the shape of `config` out of the weights of `source`, names of tensors that had to be drawn anew).

    Errors: BertctlError if the two differ in more than their sizes, or in the size of a head.
    """
    refuse_other_kinds(source.config, config)
    model, have = Model(config, heads), source.state_dict()
    layers = layer_sources(source.config, config)
    generator = torch.Generator().manual_seed(seed)
    fresh = []
    with torch.no_grad():
        for path, module in model.named_modules():
            for leaf, tensor in module.named_parameters(prefix=path, recurse=False):
                old = have.get(source_name(leaf, layers))
                if old is None:
                    fresh.append(leaf)
                elif leaf == POSITIONS:
                    before, places = old.split([config.position_offset, len(old) - config.position_offset])
                    places = stretched(places, config.max_position_embeddings, stretch)
                    tensor.copy_(columns(torch.cat([before, places]), tensor.shape[1]))
                else:
                    tensor.copy_(fit(old, tensor.shape, module, generator, tied=path == TIED_NORM))
    return model, fresh


def refuse_other_kinds(old: EncoderConfig, new: EncoderConfig) -> None:
    """Errors: BertctlError naming every field besides sizes in which the two differ."""
    differing = [name for name in vars(old) if name not in (*SIZES, *FREE) and getattr(old, name) != getattr(new, name)]
    problems = [
        f"encoder.{name}: got {getattr(new, name)!r}, but the checkpoint has {getattr(old, name)!r}"
        for name in differing
    ]
    if old.head_size != new.head_size:
        fits = max(1, new.hidden_size // old.head_size)
        problems.append(
            f"encoder.num_attention_heads: got {new.num_attention_heads} heads of {new.head_size}, expected heads of "
            f"{old.head_size} as in the checkpoint, which makes {fits}"
        )
    raise_problems(problems, hint="only sizes can be changed when a checkpoint is made larger or smaller")


def layer_sources(old: EncoderConfig, new: EncoderConfig) -> list[int]:
    """Which old layer (from 0) each new one starts from."""
    have, want = old.num_hidden_layers, new.num_hidden_layers
    layers = [1 + layer % have for layer in range(want)] if want > have else even_layers(have, want)
    return [number - 1 for number in of_own_kind(layers, old, new)]


def even_layers(old: int, new: int) -> list[int]:
    """Which of `old` layers (from 1) each of fewer `new` ones starts from: first and last, the others evenly between.

    For 12 and 6 that is 1, 3, 5, 8, 10, 12, the choice of DistilBERT's released extraction script.
    """
    return [1] if new == 1 else [1 + round(i * (old - 1) / (new - 1)) for i in range(new)]


def of_own_kind(layers: Sequence[int], old: EncoderConfig, new: EncoderConfig) -> list[int]:
    """`layers` (from 1), but for a new layer whose attention is of another kind than that old one's the nearest old one
    of its kind, of two equally near the earlier: a layer has learnt to look through its window, and with the base of
    rotary positions that goes with it."""
    chosen = []
    for number, place in enumerate(layers):
        alike = [n + 1 for n in range(old.num_hidden_layers) if old.attention_of(n) == new.attention_of(number)]
        chosen.append(min(alike, key=lambda one: abs(one - place)) if alike else place)
    return chosen


def source_name(name: str, layers: list[int]) -> str:
    """The old tensor that the new one called `name` starts from."""
    if not name.startswith(LAYERS):
        return name
    number, _, rest = name.removeprefix(LAYERS).partition(".")
    return f"{LAYERS}{layers[int(number)]}.{rest}"


def fit(old: Tensor, shape: torch.Size, module: nn.Module, generator: torch.Generator, *, tied: bool) -> Tensor:
    """`old` in a new shape, by what its module does with it."""
    if isinstance(module, nn.Linear) and old.ndim == 2:
        share = shares(old.shape[1], shape[1], generator)
        return columns(rows(old, shape[0]), shape[1]) * share
    if isinstance(module, nn.Conv1d) and old.ndim == 3:
        share = shares(old.shape[1], shape[1], generator)
        return torch.stack([columns(rows(place, shape[0]), shape[1]) * share for place in old.unbind(2)], dim=2)
    if old.ndim == 2:
        if len(old) != shape[0]:
            raise BertctlError(f"got a table of {len(old)} rows, expected {shape[0]}, which resizing does not change")
        return columns(old, shape[1])
    new = rows(old, shape[0])
    return new / copies(len(old), shape[0]) if tied else new


def rows(old: Tensor, m: int) -> Tensor:
    """The first dimension repeated or cut to m."""
    return old[torch.arange(m) % len(old)]


def columns(old: Tensor, m: int) -> Tensor:
    """The last dimension repeated or cut to m."""
    return old[..., torch.arange(m) % old.shape[-1]]


def copies(n: int, m: int) -> Tensor:
    """[m]: how many of the new units are copies of the same old one as this."""
    place = torch.arange(m) % n
    return torch.bincount(place, minlength=n)[place]


def shares(n: int, m: int, generator: torch.Generator) -> Tensor:
    """[m]: what a reader takes of each copy; of the copies of one old unit they add up to 1."""
    place = torch.arange(m) % n
    drawn = 0.5 + torch.rand(m, generator=generator, dtype=torch.float64)
    return (drawn / torch.zeros(n, dtype=torch.float64).index_add_(0, place, drawn)[place]).float()


def stretched(table: Tensor, places: int, how: Stretch) -> Tensor:
    """[P, E] position vectors for another number of places. `tile` repeats the table and leaves what there was as it
    is (as Longformer starts from RoBERTa, arXiv:2004.05150); `interpolate` spreads it over the new length, first and
    last place kept (arXiv:2306.15595 does so for rotary positions). Fewer places: the first."""
    if how == "tile" or places <= len(table):
        return rows(table, places)
    spread = nn.functional.interpolate(table.T[None], size=places, mode="linear", align_corners=True)
    return spread[0].T
