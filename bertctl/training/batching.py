"""Which examples make up a step, and how they become tensors. All pure functions of (seed, epoch, position).

Shapes: B batch, T tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Batch = dict[str, Tensor]
Ids = NDArray[np.int64]
MASK_64 = (1 << 64) - 1
FEISTEL_ROUNDS = 6


def mix(*numbers: int) -> int:
    """A well-spread 63-bit number from several; the finaliser of splitmix64 (Steele et al., OOPSLA 2014) after each."""
    state = 0
    for number in numbers:
        state = (state + 0x9E3779B97F4A7C15 + number) & MASK_64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK_64
        state ^= state >> 31
    return state >> 1


def mix_arrays(key: int, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix` for arrays: 64 well-spread bits for each number, under `key`."""
    with np.errstate(over="ignore"):
        state = numbers + np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def shuffled(positions: Ids, count: int, *, seed: int, epoch: int) -> Ids:
    """The examples at `positions` of a random order of 0 .. count - 1, in memory that does not grow with `count`.

    A Feistel network permutes the next power of four; places that fall outside are walked on until they are inside
    (cycle walking; Black and Rogaway, CT-RSA 2002).
    """
    bits = max(2, (max(count - 1, 1).bit_length() + 1) // 2 * 2)
    keys = [mix(seed, epoch, turn) for turn in range(FEISTEL_ROUNDS)]
    values = _feistel(positions.astype(np.uint64), bits // 2, keys)
    outside = values >= count
    while outside.any():
        values[outside] = _feistel(values[outside], bits // 2, keys)
        outside = values >= count
    return values.astype(np.int64)


def _feistel(values: NDArray[np.uint64], half: int, keys: Sequence[int]) -> NDArray[np.uint64]:
    low_bits, shift = np.uint64((1 << half) - 1), np.uint64(half)
    left, right = values >> shift, values & low_bits
    for key in keys:
        left, right = right, left ^ (mix_arrays(key, right) & low_bits)
    return (left << shift) | right


def step_examples(step: int, batch_size: int, count: int, seed: int) -> tuple[Ids, Ids]:
    """(epochs [B], ids [B]) of step `step` (the first is 1): a stream in which each epoch holds every example once."""
    places = np.arange((step - 1) * batch_size, step * batch_size, dtype=np.int64)
    epochs, within = places // count, places % count
    ids = np.empty_like(within)
    for epoch in np.unique(epochs):
        chosen = epochs == epoch
        ids[chosen] = shuffled(within[chosen], count, seed=seed, epoch=int(epoch))
    return epochs, ids


def evenly(count: int, most: int) -> Ids:
    """At most `most` of the examples 0 .. count - 1, at even distances: the same ones every time."""
    return np.linspace(0, count - 1, min(most, count)).round().astype(np.int64)


def bucketed_epoch(lengths: Ids, batch_size: int, *, seed: int, epoch: int, window: int = 50) -> list[Ids]:
    """Batches of one epoch, each of examples of like length: shuffle, sort by length within `window` batches, cut,
    shuffle the batches. Every example once; one batch of the epoch may be short."""
    order = shuffled(np.arange(len(lengths), dtype=np.int64), len(lengths), seed=seed, epoch=epoch)
    batches: list[Ids] = []
    for begin in range(0, len(order), window * batch_size):
        part = order[begin : begin + window * batch_size]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    turn = shuffled(np.arange(len(batches), dtype=np.int64), len(batches), seed=mix(seed, 1), epoch=epoch)
    return [batches[i] for i in turn]


def rank_share(ids: Ids, *, rank: int, world_size: int, micro_batch_size: int | None) -> list[slice]:
    """This rank's part of a step as slices, one for each micro-batch: rank r has examples r, r + world_size, ..."""
    width = (micro_batch_size or len(ids)) * world_size
    return [slice(begin + rank, min(begin + width, len(ids)), world_size) for begin in range(0, len(ids), width)]


def pad_batch(
    columns: Mapping[str, Sequence[Sequence[int]]], fill: Mapping[str, int], *, multiple: int = 8
) -> dict[str, NDArray[Any]]:
    """Rows of unequal length as [B, T] arrays, T the longest rounded up to `multiple`, with `attention_mask` (bool)
    made from the lengths, never from the values. `fill` gives each column's padding (0 if it has none)."""
    lengths = [len(row) for row in columns["input_ids"]]
    width = -(-max(lengths) // multiple) * multiple
    padded: dict[str, NDArray[Any]] = {
        name: np.full((len(rows), width), fill.get(name, 0), dtype=np.int64) for name, rows in columns.items()
    }
    for name, rows in columns.items():
        for i, row in enumerate(rows):
            padded[name][i, : len(row)] = row
    padded["attention_mask"] = np.arange(width)[None, :] < np.asarray(lengths)[:, None]
    return padded


def inputs_of(batch: Batch) -> Tensor:
    """What the encoder reads: ids [B, T], or pixels [B, channels, height, width]."""
    return batch["pixel_values"] if "pixel_values" in batch else batch["input_ids"]


def real_tokens(batch: Batch) -> Tensor:
    """How many tokens of a batch are no padding; of images, whose batch does not know what a patch is, `tokens`."""
    if "tokens" in batch:
        return batch["tokens"]
    mask = batch.get("attention_mask")
    return torch.tensor(batch["input_ids"].numel(), device=batch["input_ids"].device) if mask is None else mask.sum()


def to_tensors(arrays: Mapping[str, NDArray[np.generic]]) -> Batch:
    """Arrays as tensors. A mask without any padding is left out, so that attention need not apply it."""
    return {
        name: torch.from_numpy(array)
        for name, array in arrays.items()
        if not (name == "attention_mask" and array.all())
    }


class Prefetch:
    """Makes the batches of the next step in a thread while this one is trained. A context manager, which ends the
    thread."""

    def __init__(self, make: Callable[[int], list[Batch]], last_step: int) -> None:
        self.make, self.last_step = make, last_step
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self.ahead: dict[int, Future[list[Batch]]] = {}

    def __enter__(self) -> Self:
        return self

    def __call__(self, step: int) -> list[Batch]:
        """The micro-batches of `step`; errors of the thread are raised here."""
        future = self.ahead.pop(step, None) or self.pool.submit(self.make, step)
        if step < self.last_step:
            self.ahead[step + 1] = self.pool.submit(self.make, step + 1)
        return future.result()

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
