"""Where sentences and documents lie, over all shards at once, as plain numbers; and records back to shards.

A position counts tokens through all shards in order, so that a segment is two numbers.
Legend: K shards, D documents, S sentences, R records.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from bertctl import signals
from bertctl.artifacts.shards import TokenShards
from bertctl.console import Progress


@dataclass(frozen=True)
class Layout:
    """`bounds` [S + 1]: position where each sentence starts, and the end; `documents` [D + 1]: indices into `bounds`;
    `shard_starts` [K + 1]: positions. All int64."""

    bounds: np.ndarray
    documents: np.ndarray
    shard_starts: np.ndarray

    @classmethod
    def of(cls, shards: TokenShards) -> Self:
        """The layout of a folder of shards."""
        starts = np.cumsum([0, *(len(shard.tokens) for shard in shards.shards)], dtype=np.int64)
        bounds, documents, sentences = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], 0
        for shard, start in zip(shards.shards, starts[:-1], strict=True):
            bounds.append(shard.sentence_offsets[1:] + start)
            documents.append(shard.document_offsets[1:] + sentences)
            sentences += len(shard.sentence_offsets) - 1
        return cls(np.concatenate(bounds), np.concatenate(documents), starts)

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1

    def sentences(self) -> np.ndarray:
        """[D] sentences of each document."""
        return np.diff(self.documents)

    def of_document(self, number: int) -> list[int]:
        """The bounds of one document's sentences."""
        bounds: list[int] = self.bounds[self.documents[number] : self.documents[number + 1] + 1].tolist()
        return bounds

    def cut_long(self, longest: int, shards: TokenShards) -> "Layout":
        """The same documents with every sentence over `longest` tokens cut into several, between words if it can be:
        then nothing of a long sentence is lost to truncation."""
        cuts: list[int] = []
        owners: list[int] = []
        for sentence in np.flatnonzero(np.diff(self.bounds) > longest):
            start, stop = int(self.bounds[sentence]), int(self.bounds[sentence + 1])
            while stop - start > longest:
                start = self._cut(start, longest, shards)
                cuts.append(start)
                owners.append(int(sentence))
        bounds = np.insert(self.bounds, np.searchsorted(self.bounds, cuts), cuts)
        more = np.searchsorted(owners, self.documents)  # cuts in sentences before each document's first
        return Layout(bounds, self.documents + more, self.shard_starts)

    def _cut(self, start: int, longest: int, shards: TokenShards) -> int:
        """The last position from which a word starts, at most `longest` after `start`."""
        shard = int(np.searchsorted(self.shard_starts, start, side="right")) - 1
        first = start - int(self.shard_starts[shard])
        words = np.flatnonzero(shards.shards[shard].words(first + 1, first + longest + 1))
        return start + 1 + int(words[-1]) if len(words) else start + longest

    def locate(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[R] positions of first tokens -> shard and token index in it."""
        shard = np.searchsorted(self.shard_starts, positions, side="right") - 1
        return shard, positions - self.shard_starts[shard]

    def starts_word(self, positions: np.ndarray, shards: TokenShards) -> np.ndarray:
        """[R] bool: a word starts at the position, or it is the end of the tokens."""
        answers = np.ones(len(positions), dtype=bool)
        shard, index = self.locate(np.minimum(positions, self.shard_starts[-1] - 1))
        for number in np.unique(shard):
            here = shard == number
            bits = shards.shards[number].word_bits[index[here] >> 3]
            answers[here] = (bits >> (index[here] & 7)) & 1
        return answers | (positions >= self.shard_starts[-1])


def walk(documents: np.ndarray, unit: str = "documents") -> Iterator[tuple[int, int]]:
    """(rank, number) of each document, with progress on the way and an eye on signals."""
    with Progress("building pairs", unit, len(documents)) as progress:
        for rank, number in enumerate(documents.tolist()):
            signals.check("building pairs")
            yield rank, number
            progress.update(rank + 1)
