"""Which tokens are hidden, and what stands in their place: a pure function of (seed, epoch, example).

No state is drawn from, so the masks are the same for any number of workers and ranks and after any resume.
Shapes: B batch, T tokens.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertctl.training.batching import mix, mix_arrays

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
CHOICE, REPLACEMENT, RANDOM_ID, SAMPLE = 1, 2, 3, 4  # streams of random numbers


@dataclass(frozen=True)
class Masking:
    """80/10/10 of 15% by default. Source: arXiv:1810.04805, appendix A.1; whole words: google-research/bert."""

    mask_id: int
    ordinary_ids: Ids
    probability: float = 0.15
    unit: Literal["token", "word"] = "token"
    mask_share: float = 0.8
    random_share: float = 0.1


def ordinary_ids(vocab_size: int, special_ids: Iterable[int]) -> Ids:
    """The ids that may stand in for a masked token: all but the special ones."""
    return np.setdiff1d(np.arange(vocab_size), np.fromiter(special_ids, dtype=np.int64))


def mask_tokens(
    input_ids: Ids, eligible: Flags, word_starts: Flags, example_ids: Ids, epochs: Ids, *, masking: Masking, seed: int
) -> tuple[Ids, Flags]:
    """Draw masks for a batch.

    Shapes: input_ids, eligible (real and not special), word_starts [B, T]; example_ids, epochs [B].
    Returns the ids with masks in place, and which positions are to be predicted; positions are drawn without
    replacement, round(probability x eligible) of them and at least one in a row that has any.
    """
    keys = _keys(example_ids, epochs, seed)
    scores = _random_bits(keys, input_ids.shape[1], CHOICE)
    counts = eligible.sum(axis=1)
    budgets = np.maximum(np.rint(masking.probability * counts), 1)
    if masking.probability == 0:
        budgets[:] = 0
    starts = _first_of_word(eligible, word_starts) if masking.unit == "word" else eligible
    chosen = _choose(scores, eligible, starts, budgets)
    return _replace(input_ids, chosen, keys, masking), chosen


def uniform_draws(example_ids: Ids, epochs: Ids, width: int, *, seed: int) -> NDArray[np.float32]:
    """[B, width] numbers in [0, 1), a pure function of (seed, epoch, example, place) as the masks are: what a generator
    samples with. 24 bits each, so that float32 holds them as they are and none is rounded up to 1."""
    bits = _random_bits(_keys(example_ids, epochs, seed), width, SAMPLE) >> np.uint64(40)
    return bits.astype(np.float32) / np.float32(1 << 24)


def _keys(example_ids: Ids, epochs: Ids, seed: int) -> NDArray[np.uint64]:
    return mix_arrays(mix(seed), (epochs.astype(np.uint64) << np.uint64(44)) ^ example_ids.astype(np.uint64))


def _random_bits(keys: NDArray[np.uint64], width: int, stream: int) -> NDArray[np.uint64]:
    """[B] keys -> [B, width] independent 64-bit numbers."""
    places = np.arange(width, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    return mix_arrays(mix(stream), keys[:, None] ^ places[None, :])


def _first_of_word(eligible: Flags, word_starts: Flags) -> Flags:
    """The first piece of each word that is in the row; a segment that was cut inside a word begins with one."""
    after_gap = np.ones_like(eligible)
    after_gap[:, 1:] = ~eligible[:, :-1]
    return eligible & (word_starts | after_gap)


def _choose(scores: NDArray[np.uint64], eligible: Flags, starts: Flags, budgets: NDArray[np.float64]) -> Flags:
    """Whole units in random order until the budget of pieces is spent. A unit is taken if its middle lies within the
    budget, so that the expected share is right for units of any length; the first is always taken."""
    rows, width = scores.shape
    places = np.arange(width)
    unit_first = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
    unit_scores = np.take_along_axis(scores, unit_first, axis=1) >> np.uint64(1)
    unit_scores[~eligible] = np.uint64(1 << 63)  # after every real unit
    order = np.argsort(unit_scores, axis=1, kind="stable")  # pieces of one unit stay together
    first_in_order = np.take_along_axis(unit_first, order, axis=1)
    begins = np.ones((rows, width), dtype=bool)
    begins[:, 1:] = first_in_order[:, 1:] != first_in_order[:, :-1]
    before = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    size = np.zeros((rows, width), dtype=np.int64)
    np.add.at(size, (np.arange(rows)[:, None], unit_first), eligible.astype(np.int64))
    middle = before + np.take_along_axis(size, first_in_order, axis=1) / 2
    taken = (middle <= budgets[:, None]) | ((before == 0) & (budgets[:, None] > 0))
    chosen = np.zeros_like(eligible)
    np.put_along_axis(chosen, order, taken, axis=1)
    return chosen & eligible


def _replace(input_ids: Ids, chosen: Flags, keys: NDArray[np.uint64], masking: Masking) -> Ids:
    """[MASK], a random ordinary id, or the token itself."""
    width = input_ids.shape[1]
    shares = _random_bits(keys, width, REPLACEMENT) / np.float64(2**64)
    picks = _random_bits(keys, width, RANDOM_ID) % np.uint64(len(masking.ordinary_ids))
    random_ids = masking.ordinary_ids[picks.astype(np.int64)]
    masked = np.where(chosen & (shares < masking.mask_share), masking.mask_id, input_ids)
    random_place = chosen & (shares >= masking.mask_share) & (shares < masking.mask_share + masking.random_share)
    return np.where(random_place, random_ids, masked)
