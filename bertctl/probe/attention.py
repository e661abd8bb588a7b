"""How widely each head attends: the entropy of its weights, over real tokens only.

Shapes: B batch, T tokens, H heads, L blocks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from bertctl import signals
from bertctl.heads.model import Model
from bertctl.probe.extract import batches_of, forward, real_tokens
from bertctl.probe.patches import Grid, class_token_maps, patch_distances
from bertctl.probe.result import HeadAttention, Layer, ProbeResult, Row
from bertctl.tasks.batches import collate, token_counts
from bertctl.tasks.task import Features
from bertctl.training.batching import Batch
from bertctl.training.runtime import Runtime

MOST_WEIGHTS = 32_000_000  # attention weights held at once, over all blocks: 128 MB


def attention_probe(layer: Layer, row: Row) -> ProbeResult:
    """Mean entropy over the heads of the block that made this layer, and each head's; None for the embeddings."""
    found = layer.attention
    if found is None:
        return ProbeResult({"attention_entropy": None, "attention_entropy_normalised": None})
    shares = [share for share in found.normalised if share is not None]
    return ProbeResult(
        {
            "attention_entropy": sum(found.nats) / len(found.nats),
            "attention_entropy_normalised": sum(shares) / len(shares) if shares else None,
        },
        {"attention_entropy_per_head": {"layer": layer.number, "nats": found.nats, "normalised": found.normalised}},
    )


def entropies(weights: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Entropy of each query's weights in nats, and divided by log of the number of real keys.

    Shapes: weights [B, H, T, T] (queries by keys), mask [B, T] true at real tokens -> two of [B, H, T] float64. Both
    are NaN for a query that is padding, the second also where there is one real key, whose log is 0. Weights on
    padding count for nothing.
    """
    shares = weights.double().masked_fill(~mask[:, None, None, :], 0.0)
    nats = torch.special.entr(shares).sum(dim=-1).masked_fill(~mask[:, None, :], torch.nan)
    most = mask.sum(dim=-1).double().log()[:, None, None]
    return nats, (nats / most).masked_fill(most == 0, torch.nan)


class BlockMeans:
    """Means of one block's heads over the queries of all batches, those that are NaN apart."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, Tensor] = {}

    def add(self, weights: Tensor, mask: Tensor, grid: Grid | None) -> None:
        """Take in the weights [B, H, T, T] of a batch with its mask [B, T]; of images also where their patches are."""
        nats, normalised = entropies(weights, mask)
        self._add("nats", nats, (0, 2))
        self._add("normalised", normalised, (0, 2))
        if grid is not None:
            self._add("pixels", patch_distances(weights, grid.distances()), (0, 2))
            self._add("class_token", class_token_maps(weights, grid), (0,))

    def _add(self, name: str, values: Tensor, over: tuple[int, ...]) -> None:
        self.sums[name] = self.sums.get(name, 0) + values.nansum(dim=over)
        self.counts[name] = self.counts.get(name, 0) + values.isfinite().sum(dim=over)

    def means(self) -> HeadAttention:
        """What each head does; None where no query says it."""
        found = {name: (total / self.counts[name]).tolist() for name, total in self.sums.items()}
        for name in ("normalised", "pixels"):
            if name in found:
                found[name] = [value if value == value else None for value in found[name]]
        return HeadAttention(**found)


def head_attention(
    model: Model, features: Sequence[Features], *, tokens: int, pad_id: int, batch_size: int, runtime: Runtime
) -> list[HeadAttention]:
    """How all heads attend, a `HeadAttention` a block, in the first features with at most `tokens` pieces or patches.

    At least one feature is read. Errors: Stopped.
    """
    config, sizes = model.config, token_counts(features, model)
    chosen = features[: how_many(sizes, tokens)]
    weights_of_one = config.num_hidden_layers * config.num_attention_heads * max(sizes[: len(chosen)]) ** 2
    blocks = [BlockMeans() for _ in range(config.num_hidden_layers)]
    for ids in batches_of(chosen, max(1, min(batch_size, MOST_WEIGHTS // weights_of_one))):
        signals.check("looking at attention")
        batch = collate([chosen[i] for i in ids], model, pad_id)
        output = forward(model, batch, runtime, output_attentions=True)
        assert output.attentions is not None  # asked for
        mask, grid = real_tokens(output), grid_of(batch, config.patch_size)
        for block, weights in zip(blocks, output.attentions, strict=True):
            block.add(weights.cpu(), mask, grid)
    return [block.means() for block in blocks]


def how_many(sizes: Sequence[int], most: int) -> int:
    """So many of the first inputs hold at most `most` tokens between them, but at least one."""
    total = 0
    for number, size in enumerate(sizes):
        total += size
        if number and total > most:
            return number
    return len(sizes)


def grid_of(batch: Batch, side: int) -> Grid | None:
    """The patches of `side` pixels of a batch of images; None for texts."""
    if "pixel_values" not in batch:
        return None
    height, width = batch["pixel_values"].shape[2:]
    return Grid(height // side, width // side, side)
