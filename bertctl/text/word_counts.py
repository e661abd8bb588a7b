"""How often each word occurs in a corpus, in memory that does not grow with the corpus.

Counts are exact and do not depend on the order of the texts: when the table in memory is full it is written to disk,
sorted, and such runs are merged at the end. If even the merged table is too large, the rarest words go, all words of
one count together, so that which ones stay is again no matter of order.
"""

import heapq
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO

from bertctl import signals
from bertctl.text.word_cutters import Cutter

CHARACTERS_PER_FOLD = 1 << 25
WORDS_IN_MEMORY = 4_000_000
MOST_WORDS = 2_000_000  # for training; 2 million English words is some 50 GB of text


@dataclass(frozen=True)
class WordCounts:
    """`counts` of the words kept, sorted by word; `least` is the smallest count among them that was not cut off."""

    counts: dict[str, int]
    least: int


def count_words(
    texts: Iterable[str],
    cutter: Cutter,
    *,
    most_words: int = MOST_WORDS,
    words_in_memory: int = WORDS_IN_MEMORY,
    spill: Path | None = None,
) -> WordCounts:
    """Words as `cutter` makes them. One longer than it lets count is left out.

    `spill`: folder for what does not fit in memory; the system's temporary one if not given. The files have no name.
    """
    words: Counter[str] = Counter()
    with _Runs(spill) as runs:
        for stretches in _stretch_counts(texts, cutter):
            _add_words(stretches, cutter, words)
            if len(words) > words_in_memory:
                runs.write(words)
                words.clear()
        return _most_frequent(runs, words, most_words)


def _stretch_counts(texts: Iterable[str], cutter: Cutter) -> Iterator[Counter[str]]:
    """Counts of raw stretches: the rules then work once on each, not on each occurrence."""
    stretches: Counter[str] = Counter()
    size = 0
    for text in texts:
        signals.check("counting the words of the corpus")
        stretches.update(cutter.stretches(text))
        size += len(text)
        if size >= CHARACTERS_PER_FOLD:
            yield stretches
            stretches, size = Counter(), 0
    yield stretches


def _add_words(stretches: Counter[str], cutter: Cutter, words: Counter[str]) -> None:
    """Cut stretches into words, those of equal count at once."""
    for count, group in groupby(sorted(stretches.items(), key=itemgetter(1)), key=itemgetter(1)):
        signals.check("counting the words of the corpus")
        for word in cutter.words([stretch for stretch, _ in group]):
            if len(word) <= cutter.longest:
                words[word] += count


class _Runs:
    """Sorted word counts on disk, one temporary file a run; gone when done."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.files: list[IO[str]] = []

    def __enter__(self) -> "_Runs":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def write(self, words: Counter[str]) -> None:
        file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=self.folder)  # noqa: SIM115 - closed with the runs
        self.files.append(file)
        file.writelines(f"{word}\t{count}\n" for word, count in sorted(words.items()))

    def merged(self, words: Counter[str]) -> Iterator[tuple[str, int]]:
        """(word, count over all runs and `words`), sorted by word; may be called again."""
        sources = [iter(sorted(words.items())), *map(self._read, self.files)]
        for word, same in groupby(heapq.merge(*sources), key=itemgetter(0)):
            yield word, sum(count for _, count in same)

    def _read(self, file: IO[str]) -> Iterator[tuple[str, int]]:
        file.seek(0)
        for line in file:
            word, count = line[:-1].split("\t")
            yield word, int(count)


def _most_frequent(runs: _Runs, words: Counter[str], most: int) -> WordCounts:
    """All words, or those above the smallest count that leaves at most `most` of them."""
    least = 1
    if runs.files or len(words) > most:
        having = Counter(count for _, count in runs.merged(words))
        left = having.total()
        while left > most:
            left -= having[least]
            least += 1
    return WordCounts({word: count for word, count in runs.merged(words) if count >= least}, least)
