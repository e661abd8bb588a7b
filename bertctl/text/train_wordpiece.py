"""Learns a WordPiece vocabulary: the same one for the same counts, on any machine and in any order.

The merges are byte-pair encoding's over words whose first character and later characters (`##`) are different symbols,
as in the trainers behind BERT-type vocabularies; encoding is WordPiece's own, longest piece first. Nothing here depends
on hash order, threads or the order of the corpus: ties go to the pair whose pieces came first.
Source: Sennrich et al. 2016, arXiv:1508.07909 (merges); Wu et al. 2016, arXiv:1609.08144 (WordPiece).
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bertctl import signals
from bertctl.console import Progress
from bertctl.errors import BertctlError
from bertctl.text.tokenizer import CONTINUES, Tokenizer
from bertctl.text.tokenizer_files import ROLES
from bertctl.text.word_counts import count_words

MOST_CHARACTERS = 1000  # BERT's trainers keep as many; rarer ones become [UNK] and are counted in the report
SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True)
class Learned:
    """A vocabulary and what was left out on the way to it."""

    tokenizer: Tokenizer
    words: int
    characters: int
    characters_left_out: int


def train_wordpiece(
    texts: Iterable[str], *, vocab_size: int, lowercase: bool = True, strip_accents: bool = True, min_frequency: int = 2
) -> Tokenizer:
    """Learn a vocabulary of at most `vocab_size` pieces; it is smaller when no pair occurs `min_frequency` times.

    Errors: BertctlError if `vocab_size` does not hold the special tokens and the characters alone (both numbers given).
    """
    counts = count_words(texts, lowercase=lowercase, strip_accents=strip_accents).counts
    return learn(
        counts, vocab_size=vocab_size, lowercase=lowercase, strip_accents=strip_accents, min_frequency=min_frequency
    ).tokenizer


def learn(
    counts: Mapping[str, int], *, vocab_size: int, lowercase: bool, strip_accents: bool, min_frequency: int
) -> Learned:
    """The vocabulary for these word counts: special tokens (ids 0 to 4), characters, then pieces as merged."""
    kept, seen = _characters(counts, min_frequency)
    words = {word: count for word, count in counts.items() if kept.issuperset(word)}
    alphabet = sorted(kept) + sorted({CONTINUES + character for word in words for character in word[1:]})
    needed = len(ROLES) + len(alphabet)
    if vocab_size < needed:
        raise BertctlError(
            f"vocab_size: got {vocab_size}, expected at least {needed}: {len(ROLES)} special tokens and "
            f"{len(alphabet)} for the characters of this corpus alone",
            hint=f"set vocab_size to {needed} or more; BERT has 30522",
        )
    pieces = _Merges(alphabet, words).run(vocab_size - len(ROLES), min_frequency)
    tokenizer = Tokenizer([*ROLES.values(), *pieces], lowercase=lowercase, strip_accents=strip_accents)
    return Learned(tokenizer, len(words), len(kept), seen - len(kept))


def _characters(counts: Mapping[str, int], min_frequency: int) -> tuple[set[str], int]:
    """The characters worth a place in the vocabulary, and how many different ones there are."""
    frequency: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    ranked = sorted(frequency, key=lambda character: (-frequency[character], character))
    return {character for character in ranked[:MOST_CHARACTERS] if frequency[character] >= min_frequency}, len(ranked)


class _Merges:
    """Words as strings with one code point per symbol, so that a merge is `str.replace`."""

    def __init__(self, alphabet: list[str], words: Mapping[str, int]) -> None:
        self.pieces = list(alphabet)
        self.symbols = {piece: _symbol(i) for i, piece in enumerate(alphabet)}
        self.counts = [words[word] for word in sorted(words)]
        self.words = [self._spell(word) for word in sorted(words)]
        self.pairs: Counter[str] = Counter()
        self.places: defaultdict[str, set[int]] = defaultdict(set)
        for place in range(len(self.words)):
            self._count(place, self.counts[place])

    def _spell(self, word: str) -> str:
        return self.symbols[word[0]] + "".join(self.symbols[CONTINUES + character] for character in word[1:])

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
        piece = left + right.removeprefix(CONTINUES)
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
