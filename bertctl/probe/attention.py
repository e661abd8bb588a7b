"""How widely each head attends: the entropy of its weights, over real tokens only.

Shapes: B batch, T tokens, H heads, L blocks.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from bertctl import signals
from bertctl.heads.model import Model
from bertctl.probe.extract import batches_of, forward, real_tokens
from bertctl.probe.result import HeadEntropies, Layer, ProbeResult, Row
from bertctl.tasks.batches import collate
from bertctl.tasks.task import Features
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


def head_entropies(
    model: Model, features: Sequence[Features], *, tokens: int, pad_id: int, batch_size: int, runtime: Runtime
) -> list[HeadEntropies]:
    """The entropies of all heads, a `HeadEntropies` a block, over the first features with at most `tokens` pieces.

    At least one feature is read. Errors: Stopped.
    """
    config = model.config
    shape = (2, config.num_hidden_layers, config.num_attention_heads)
    sums, counts = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    chosen = first_inputs(features, tokens)
    weights_of_one = shape[1] * shape[2] * max(len(feature.input_ids) for feature in chosen) ** 2
    for ids in batches_of(chosen, max(1, min(batch_size, MOST_WEIGHTS // weights_of_one))):
        signals.check("looking at attention")
        batch = collate([chosen[i] for i in ids], model, pad_id)
        for block, weights in enumerate(_weights(model, batch, runtime)):
            for kind, values in enumerate(entropies(weights.cpu(), real_tokens(batch))):
                sums[kind, block] += values.nansum(dim=(0, 2))
                counts[kind, block] += values.isfinite().sum(dim=(0, 2))
    nats, shares = (sums / counts).tolist()
    return [
        HeadEntropies(block, [share if share == share else None for share in row])
        for block, row in zip(nats, shares, strict=True)
    ]


def first_inputs(features: Sequence[Features], tokens: int) -> list[Features]:
    """The first features that hold at most `tokens` word pieces between them, but at least one."""
    chosen, total = list(features[:1]), len(features[0].input_ids)
    for feature in features[1:]:
        total += len(feature.input_ids)
        if total > tokens:
            break
        chosen.append(feature)
    return chosen


def _weights(model: Model, batch: dict[str, Tensor], runtime: Runtime) -> Iterator[Tensor]:
    """[B, H, T, T] of every block."""
    output = forward(model, batch, runtime, output_attentions=True)
    assert output.attentions is not None  # asked for
    yield from output.attentions
