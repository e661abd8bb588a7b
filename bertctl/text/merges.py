"""Byte-pair encoding's merges, for any alphabet: the same ones for the same counts, on any machine and in any order.

Nothing here depends on hash order, threads or the order of the corpus: ties go to the pair whose pieces came first.
Source: Sennrich et al. 2016, arXiv:1508.07909.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from bertctl import signals
from bertctl.console import Progress

SURROGATES = range(0xD800, 0xE000)


class Merges:
    """Words as strings with one code point per symbol, so that a merge is `str.replace`.

    `spell` parts a word into pieces of the alphabet, `join` is the piece of two. `pieces` grows as pairs are merged;
    `pairs_merged` are these pairs in order.
    """

    def __init__(
        self,
        alphabet: list[str],
        words: Mapping[str, int],
        *,
        spell: Callable[[str], list[str]],
        join: Callable[[str, str], str],
    ) -> None:
        self.pieces = list(alphabet)
        self.pairs_merged: list[tuple[str, str]] = []
        self.join = join
        self.symbols = {piece: _symbol(i) for i, piece in enumerate(alphabet)}
        self.counts = [words[word] for word in sorted(words)]
        self.words = ["".join(self.symbols[piece] for piece in spell(word)) for word in sorted(words)]
        self.pairs: Counter[str] = Counter()
        self.places: defaultdict[str, set[int]] = defaultdict(set)
        for place in range(len(self.words)):
            self._count(place, self.counts[place])

    def run(self, size: int, min_frequency: int) -> list[str]:
        """Merge the most frequent pair until there are `size` pieces or no pair occurs `min_frequency` times."""
        queue = [(-count, pair) for pair, count in self.pairs.items()]
        heapq.heapify(queue)
        with Progress("learning the vocabulary", "pieces", size, start=len(self.pieces)) as progress:
            while queue and len(self.pieces) < size:
                signals.check("learning the vocabulary")
                count, pair = heapq.heappop(queue)
                if -count != self.pairs[pair]:  # it has changed since; all counts but the current one are stale
                    if self.pairs[pair] > 0:
                        heapq.heappush(queue, (-self.pairs[pair], pair))
                    continue
                if -count < min_frequency:
                    break
                for new in self._merge(pair):
                    heapq.heappush(queue, (-self.pairs[new], new))
                progress.update(len(self.pieces))
        return self.pieces

    def _merge(self, pair: str) -> list[str]:
        """Make one symbol of `pair` wherever it occurs; returns the pairs that this made more frequent."""
        merged = self._piece(pair)
        changed: set[str] = set()
        for place in sorted(self.places.pop(pair)):
            self._count(place, -self.counts[place])
            self.words[place] = self.words[place].replace(pair, merged)
            self._count(place, self.counts[place])
            word = self.words[place]
            changed.update(word[i : i + 2] for i in range(len(word) - 1) if merged in word[i : i + 2])
        del self.pairs[pair]
        return sorted(changed)

    def _piece(self, pair: str) -> str:
        """The symbol of two pieces put together; another pair may have made the same piece before."""
        left, right = (self.pieces[_number(symbol)] for symbol in pair)
        piece = self.join(left, right)
        self.pairs_merged.append((left, right))
        if piece not in self.symbols:
            self.symbols[piece] = _symbol(len(self.pieces))
            self.pieces.append(piece)
        return self.symbols[piece]

    def _count(self, place: int, change: int) -> None:
        word = self.words[place]
        for i in range(len(word) - 1):
            pair = word[i : i + 2]
            self.pairs[pair] += change
            if change > 0:
                self.places[pair].add(place)


def _symbol(number: int) -> str:
    """A code point of its own for piece `number`; surrogates are left out, as they are no characters."""
    return chr(number if number < SURROGATES.start else number + len(SURROGATES))


def _number(symbol: str) -> int:
    code = ord(symbol)
    return code if code < SURROGATES.start else code - len(SURROGATES)
