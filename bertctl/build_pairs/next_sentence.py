"""Pairs for next-sentence prediction: half of the second segments are what really follows, half are random.

Source: Devlin et al. 2018, arXiv:1810.04805, and create_pretraining_data.py of google-research/bert. Two things differ:
a chunk of one sentence takes in the one after it where a true pair is wanted, and where none follows (BERT then forces
a random pair, which skews the labels) the next free choice is made the other way.
"""

import random
from bisect import bisect_left

import numpy as np

from bertctl.build_pairs.layout import Layout, walk
from bertctl.build_pairs.records import Collector, Records
from bertctl.errors import BertctlError

IS_NEXT, IS_RANDOM = 0, 1


def can_pair(sentences: np.ndarray) -> bool:
    """Whether documents of so many sentences [D] give both labels: two documents, one of them with two sentences."""
    return len(sentences) >= 2 and bool((sentences >= 2).any())


def require_pairs(sentences: np.ndarray, where: str) -> None:
    """Refuse a corpus that can only give one label. Errors: BertctlError with the counts and the way out."""
    if not can_pair(sentences):
        single = int((sentences == 1).sum())
        raise BertctlError(
            f"{where}: got documents={len(sentences)}, single-sentence={single}; next-sentence pairs need at least 2 "
            "documents, one of them with 2 sentences",
            hint="in plain text a blank line ends a document; or set `second_segment` to `none` or `sentence_order`",
        )


def target_length(longest: int, short_probability: float, rng: random.Random) -> int:
    """Tokens that a pair aims at: `longest`, or with the given probability anything from 2 to it."""
    return 2 + int(rng.random() * (longest - 1)) if rng.random() < short_probability else longest


def next_sentence_pairs(
    layout: Layout, documents: np.ndarray, *, longest: int, short_probability: float, rng: random.Random
) -> Records:
    """Pairs from `documents` (numbers in `layout`), not yet truncated to `longest` tokens; random segments come from
    another one of `documents`. Every sentence is in a pair; those that a random segment displaced are used again."""
    collector = Collector()
    owed = 0  # random pairs that had to be, and are not yet made up for by a true one in place of a coin's choice
    for rank, number in walk(documents):
        bounds = layout.of_document(number)
        first, last = 0, len(bounds) - 1
        while first < last:
            target = target_length(longest, short_probability, rng)
            stop = min(bisect_left(bounds, bounds[first] + target, first + 1), last)
            random_wanted = owed == 0 and rng.random() < 0.5
            if not random_wanted and stop == first + 1:
                stop = min(stop + 1, last)
            alone = stop == first + 1
            middle = first + 1 if alone else first + 1 + int(rng.random() * (stop - first - 1))
            a = bounds[first], bounds[middle]
            if alone or random_wanted:
                owed += alone
                other = _other_document(layout, documents, rank, target - (a[1] - a[0]), rng)
                collector.add(a, other, IS_RANDOM)
                first = middle
            else:
                owed -= owed > 0
                collector.add(a, (bounds[middle], bounds[stop]), IS_NEXT)
                first = stop
    return collector.records()


def _other_document(
    layout: Layout, documents: np.ndarray, rank: int, target: int, rng: random.Random
) -> tuple[int, int]:
    """Sentences of a random document other than number `rank`, from a random one on, until `target` tokens."""
    other = int(rng.random() * (len(documents) - 1))
    number = documents[other + (other >= rank)]
    first, end = int(layout.documents[number]), int(layout.documents[number + 1])
    start = first + int(rng.random() * (end - first))
    begin = int(layout.bounds[start])
    bounds = layout.bounds[start + 1 : end + 1]
    stop = min(int(np.searchsorted(bounds, begin + target)), len(bounds) - 1)
    return begin, int(bounds[stop])
