"""Records of examples in the making: collected as positions, truncated, turned into the columns of the artifact.

Legend: R records.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.layout import Layout

FIELDS = 5


class Collector:
    """Takes records one by one, at 40 bytes each."""

    def __init__(self) -> None:
        self.values = array("q")

    def add(self, a: tuple[int, int], b: tuple[int, int], label: int) -> None:
        """One record: (start, stop) of both segments, b empty for none, and the label (-1: none)."""
        self.values.extend((*a, *b, label))

    def records(self) -> "Records":
        """What was collected."""
        columns = np.frombuffer(self.values, dtype=np.int64).reshape(-1, FIELDS).T.copy()
        return Records(*columns)


@dataclass(frozen=True)
class Records:
    """Columns [R] int64: positions of segments A and B, and the label as in `artifacts/examples.py`."""

    a_start: np.ndarray
    a_stop: np.ndarray
    b_start: np.ndarray
    b_stop: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    def lengths(self, special: Callable[[int], int]) -> np.ndarray:
        """[R] tokens of each example; `special`: segments -> special tokens around them."""
        b = self.b_stop - self.b_start
        return self.a_stop - self.a_start + b + np.where(b > 0, special(2), special(1))

    def columns(self, layout: Layout) -> dict[str, np.ndarray]:
        """The columns as `write_examples` wants them: token indices inside a shard."""
        a_shard, a_start = layout.locate(self.a_start)
        b_shard, b_start = layout.locate(np.minimum(self.b_start, layout.shard_starts[-1] - 1))
        return {
            "a_shard": a_shard,
            "a_start": a_start,
            "a_stop": a_start + self.a_stop - self.a_start,
            "b_shard": b_shard,
            "b_start": b_start,
            "b_stop": b_start + self.b_stop - self.b_start,
            "label": self.label,
        }


def concatenate(parts: Sequence[Records]) -> Records:
    """All records of `parts` in order."""
    return Records(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Records)))


def truncate(records: Records, longest: int, layout: Layout, shards: TokenShards, rng: np.random.Generator) -> Records:
    """Cut pairs to at most `longest` tokens, from the longer segment, each token from its front or back by a coin.

    As BERT does token by token, here at once: the tokens that go from the front are a binomial draw. A cut inside a
    word moves inwards to the next border of a word, unless nothing would be left; so whole words stay whole.
    Source: truncate_seq_pair in google-research/bert create_pretraining_data.py.
    """
    a, b = records.a_stop - records.a_start, records.b_stop - records.b_start
    half = longest // 2
    new_a = np.where(a + b <= longest, a, np.minimum(a, np.maximum(longest - half, longest - b)))
    new_b = np.where(a + b <= longest, b, np.minimum(b, np.maximum(half, longest - a)))
    a_start, a_stop = _cut(records.a_start, records.a_stop, new_a, layout, shards, rng)
    b_start, b_stop = _cut(records.b_start, records.b_stop, new_b, layout, shards, rng)
    return Records(a_start, a_stop, b_start, b_stop, records.label)


def _cut(
    start: np.ndarray, stop: np.ndarray, keep: np.ndarray, layout: Layout, shards: TokenShards, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    surplus = stop - start - keep
    front = rng.binomial(surplus, 0.5)
    new_start, new_stop = start + front, stop - (surplus - front)
    first = _to_border(new_start, new_stop, 1, layout, shards, where=surplus > 0)
    last = _to_border(new_stop, first, -1, layout, shards, where=surplus > 0)
    fits = first < last
    return np.where(fits, first, new_start), np.where(fits, last, new_stop)


def _to_border(
    positions: np.ndarray, limit: np.ndarray, step: int, layout: Layout, shards: TokenShards, *, where: np.ndarray
) -> np.ndarray:
    """Move each position of `where` by `step` until a word starts there or the limit is reached."""
    moved = positions.copy()
    rows = np.flatnonzero(where)
    while len(rows):
        inside = ~layout.starts_word(moved[rows], shards) & (moved[rows] != limit[rows])
        rows = rows[inside]
        moved[rows] += step
    return moved
