"""Held-out scores of a masked language model, and the floor that they are compared with."""

import contextlib
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from bertctl import signals
from bertctl.artifacts.shards import TokenShards
from bertctl.console import warn
from bertctl.errors import Stopped
from bertctl.pretrain.batches import ExampleReader, MaskedBatches
from bertctl.pretrain.masking import Ids
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.training.batching import Batch
from bertctl.training.runtime import Runtime

MOST_TOKENS_COUNTED = 50_000_000
PLATEAU_SHARE = 0.97  # of the unigram entropy: a model above it has learned little but how often each token occurs


def score_rows(
    objective: PretrainingObjective, reader: ExampleReader, ids: Ids, batches: MaskedBatches, batch_size: int = 64
) -> NDArray[np.float64]:
    """Sums for each example [len(ids), 4]: loss, right tokens, masked tokens, right pairs. Every example once; masks
    and so results do not depend on the batch size."""
    objective.eval()
    rows = np.zeros((len(ids), 4))
    order = np.argsort(-reader.examples.lengths(ids), kind="stable")  # like lengths together: little padding
    with torch.inference_mode():
        for begin in range(0, len(ids), batch_size):
            signals.check("scoring held-out examples")
            chosen = order[begin : begin + batch_size]
            rows[chosen] = batch_rows(objective, batches.held_out(reader, ids[chosen]), batches.runtime)
    return rows


def rows_on_all_ranks(
    objective: PretrainingObjective, reader: ExampleReader, ids: Ids, batches: MaskedBatches
) -> NDArray[np.float64]:
    """`score_rows` of examples that the ranks share among them; every rank gets all rows [len(ids), 4].

    Errors: Stopped, on every rank if one got a signal: the others would wait for its share.
    """
    runtime: Runtime = batches.runtime
    rows, mine = np.zeros((len(ids), 4)), slice(runtime.rank, None, runtime.world_size)
    with contextlib.suppress(Stopped):  # raised below, when the others know of it
        rows[mine] = score_rows(objective, reader, ids[mine], batches)
    stop = runtime.agree_on_signal()
    if stop:
        raise Stopped(stop, "stopped while scoring held-out examples")
    return runtime.sum(torch.tensor(rows, device=runtime.device)).cpu().numpy()


def batch_rows(objective: PretrainingObjective, batch: Batch, runtime: Runtime) -> NDArray[np.float64]:
    """Sums for each of the B examples of a masked batch [B, 4]: loss, right tokens, masked tokens, right pairs."""
    batch = {name: tensor.to(runtime.device) for name, tensor in batch.items()}
    examples, width = batch["input_ids"].shape
    with runtime.autocast():
        masked, pair = objective.logits(batch)
    example = (batch["masked_positions"] // width).cpu().numpy()
    losses = F.cross_entropy(masked.float(), batch["labels"], reduction="none").double().cpu().numpy()
    right = (masked.argmax(dim=-1) == batch["labels"]).double().cpu().numpy()
    rows = np.zeros((examples, 4))
    for column, values in enumerate((losses, right, np.ones_like(right))):
        rows[:, column] = np.bincount(example, weights=values, minlength=examples)
    if pair is not None and "pair_labels" in batch:
        rows[:, 3] = (pair.argmax(dim=-1) == batch["pair_labels"]).double().cpu().numpy()
    return rows


def evaluate_held_out(
    objective: PretrainingObjective, reader: ExampleReader, batches: MaskedBatches, most: int
) -> dict[str, Any]:
    """Loss (nats), perplexity, accuracy over masked tokens; accuracy over pairs. Over all ranks, each example once.
    Errors: Stopped, on every rank."""
    ids = np.linspace(0, len(reader) - 1, min(most, len(reader))).round().astype(np.int64)
    loss, right, tokens, pairs = rows_on_all_ranks(objective, reader, ids, batches).sum(axis=0).tolist()
    result: dict[str, Any] = {"examples": len(ids), "masked_tokens": int(tokens)}
    result |= {"mlm_loss": loss / max(tokens, 1), "mlm_accuracy": right / max(tokens, 1)}
    result["perplexity"] = math.exp(min(result["mlm_loss"], 700.0))
    if reader.has_pairs():
        result["sentence_pair_accuracy"] = pairs / len(ids)
    return result


def unigram_entropy(shards: TokenShards, ordinary_ids: Ids) -> float:
    """Entropy in nats of how often each ordinary token occurs: the loss of a model that knows nothing else. Over at
    most 50 million tokens, evenly from all shards."""
    counts = np.zeros(shards.vocab_size, dtype=np.int64)
    share = min(1.0, MOST_TOKENS_COUNTED / max(1, shards.num_tokens))
    for shard in shards.shards:
        tokens = shard.tokens[: math.ceil(len(shard.tokens) * share)]
        counts += np.bincount(tokens, minlength=shards.vocab_size)
    frequencies = counts[ordinary_ids] / max(1, counts[ordinary_ids].sum())
    frequencies = frequencies[frequencies > 0]
    return float(-(frequencies * np.log(frequencies)).sum())


def on_plateau(loss: float, entropy: float) -> bool:
    """Warn, and say True, if the loss sits on the unigram entropy."""
    stuck = loss > PLATEAU_SHARE * entropy
    if stuck:
        warn(
            f"held-out loss {loss:.3f} nats is no better than token frequencies alone ({entropy:.3f}): usual causes "
            "are too few steps, a rate too high or too low, a warm-up too short, or post-norm in a deep encoder"
        )
    return stuck
