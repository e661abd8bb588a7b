"""Pairs for sentence-order prediction: two segments that follow each other, half of the pairs swapped.

Source: Lan et al. 2019, arXiv:1909.11942 (ALBERT), section 3.1. A sentence that stands alone is cut between two words,
so that documents of one sentence are used too; only a single word has no order and is left out.
"""

import random
from bisect import bisect_left

import numpy as np

from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.layout import Layout, walk
from bertctl.build_pairs.next_sentence import target_length
from bertctl.build_pairs.records import Collector, Records

IN_ORDER, SWAPPED = 0, 1


def sentence_order_pairs(
    layout: Layout,
    documents: np.ndarray,
    shards: TokenShards,
    *,
    longest: int,
    short_probability: float,
    rng: random.Random,
) -> Records:
    """Pairs from `documents` (numbers in `layout`), not yet truncated to `longest` tokens; every sentence is in one."""
    collector = Collector()
    for _, number in walk(documents):
        bounds = layout.of_document(number)
        first, last = 0, len(bounds) - 1
        while first < last:
            target = target_length(longest, short_probability, rng)
            stop = min(bisect_left(bounds, bounds[first] + target, first + 1), last)
            if stop == first + 1:
                stop = min(stop + 1, last)
            if stop == last - 1 and _between_words(bounds[stop], bounds[last], layout, shards) is None:
                stop = last  # a single word would be left over
            middle = _middle(bounds, first, stop, layout, shards, rng)
            if middle is not None:
                a, b = (bounds[first], middle), (middle, bounds[stop])
                swapped = rng.random() < 0.5
                collector.add(b if swapped else a, a if swapped else b, SWAPPED if swapped else IN_ORDER)
            first = stop
    return collector.records()


def _middle(
    bounds: list[int], first: int, stop: int, layout: Layout, shards: TokenShards, rng: random.Random
) -> int | None:
    """Where the first segment ends: between two sentences at random, or between the two middle words of one."""
    if stop - first > 1:
        return bounds[first + 1 + int(rng.random() * (stop - first - 1))]
    return _between_words(bounds[first], bounds[stop], layout, shards)


def _between_words(start: int, stop: int, layout: Layout, shards: TokenShards) -> int | None:
    inside = np.arange(start + 1, stop)
    starts = inside[layout.starts_word(inside, shards)] if len(inside) else inside
    return int(starts[len(starts) // 2]) if len(starts) else None
