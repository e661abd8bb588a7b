"""Held-out scores of a pretraining objective, and the floor that a masked language model's are compared with."""

import contextlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from bertctl import signals
from bertctl.artifacts.shards import TokenShards
from bertctl.console import warn
from bertctl.errors import Stopped
from bertctl.metrics.masked_lm import entropy
from bertctl.pretrain.batches import ExampleReader, MaskedBatches
from bertctl.pretrain.masking import Ids
from bertctl.training.batching import Batch, evenly
from bertctl.training.runtime import Runtime

MOST_TOKENS_COUNTED = 50_000_000
PLATEAU_SHARE = 0.97  # of the unigram entropy: a model above it has learned little but how often each token occurs


class Scored(Protocol):
    """An objective whose held-out scores are sums over examples."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the sums."""
        ...

    def eval(self) -> Any: ...
    def rows(self, batch: Batch, runtime: Runtime) -> NDArray[np.float64]:
        """Sums for each example of a batch, [B, columns]."""
        ...

    def summary(self, sums: Mapping[str, float], examples: int) -> dict[str, Any]:
        """What the sums of all rows say."""
        ...


def score_rows(
    objective: Scored, reader: ExampleReader, ids: Ids, batches: MaskedBatches, batch_size: int = 64
) -> NDArray[np.float64]:
    """Sums for each example [len(ids), columns]. Every example once; masks and so results do not depend on the batch
    size."""
    objective.eval()
    rows = np.zeros((len(ids), len(objective.columns)))
    order = np.argsort(-reader.lengths(ids), kind="stable")  # like lengths together: little padding
    with torch.inference_mode():
        for begin in range(0, len(ids), batch_size):
            signals.check("scoring held-out examples")
            chosen = order[begin : begin + batch_size]
            rows[chosen] = objective.rows(batches.held_out(reader, ids[chosen]), batches.runtime)
    return rows


def rows_on_all_ranks(
    objective: Scored, reader: ExampleReader, ids: Ids, batches: MaskedBatches
) -> NDArray[np.float64]:
    """`score_rows` of examples that the ranks share among them; every rank gets all rows [len(ids), columns].

    Errors: Stopped, on every rank if one got a signal: the others would wait for its share.
    """
    runtime: Runtime = batches.runtime
    rows, mine = np.zeros((len(ids), len(objective.columns))), slice(runtime.rank, None, runtime.world_size)
    with contextlib.suppress(Stopped):  # raised below, when the others know of it
        rows[mine] = score_rows(objective, reader, ids[mine], batches)
    stop = runtime.agree_on_signal()
    if stop:
        raise Stopped(stop, "stopped while scoring held-out examples")
    return runtime.sum(torch.tensor(rows, device=runtime.device)).cpu().numpy()


def evaluate_held_out(objective: Scored, reader: ExampleReader, batches: MaskedBatches, most: int) -> dict[str, Any]:
    """The objective's scores on at most `most` held-out examples, over all ranks, each example once. Errors: Stopped,
    on every rank."""
    ids = evenly(len(reader), most)
    sums = rows_on_all_ranks(objective, reader, ids, batches).sum(axis=0).tolist()
    return {"examples": len(ids), **objective.summary(dict(zip(objective.columns, sums, strict=True)), len(ids))}


def unigram_entropy(shards: TokenShards, ordinary_ids: Ids) -> float:
    """Entropy in nats of how often each ordinary token occurs: the loss of a model that knows nothing else. Over at
    most 50 million tokens, evenly from all shards."""
    counts = np.zeros(shards.vocab_size, dtype=np.int64)
    share = min(1.0, MOST_TOKENS_COUNTED / max(1, shards.num_tokens))
    for shard in shards.shards:
        tokens = shard.tokens[: math.ceil(len(shard.tokens) * share)]
        counts += np.bincount(tokens, minlength=shards.vocab_size)
    return entropy(counts[ordinary_ids])


def on_plateau(loss: float, entropy: float) -> bool:
    """Warn, and say True, if the loss sits on the unigram entropy."""
    stuck = loss > PLATEAU_SHARE * entropy
    if stuck:
        warn(
            f"held-out loss {loss:.3f} nats is no better than token frequencies alone ({entropy:.3f}): usual causes "
            "are too few steps, a rate too high or too low, a warm-up too short, or post-norm in a deep encoder"
        )
    return stuck
