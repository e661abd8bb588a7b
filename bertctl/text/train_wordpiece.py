"""Learns a WordPiece vocabulary: the same one for the same counts, on any machine and in any order.

The merges are byte-pair encoding's over words whose first character and later characters (`##`) are different symbols,
as in the trainers behind BERT-type vocabularies; encoding is WordPiece's own, longest piece first. Nothing here depends
on hash order, threads or the order of the corpus: ties go to the pair whose pieces came first.
Source: Sennrich et al. 2016, arXiv:1508.07909 (merges); Wu et al. 2016, arXiv:1609.08144 (WordPiece).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bertctl.errors import BertctlError
from bertctl.text.algorithms import CONTINUES
from bertctl.text.merges import Merges
from bertctl.text.special import BERT_NAMES, usual_template
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.word_counts import count_words
from bertctl.text.word_cutters import BertWords

MOST_CHARACTERS = 1000  # BERT's trainers keep as many; rarer ones become [UNK] and are counted in the report


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
    cutter = BertWords(lowercase=lowercase, strip_accents=strip_accents)
    counts = count_words(texts, cutter).counts
    return learn(counts, cutter, vocab_size=vocab_size, min_frequency=min_frequency).tokenizer


def learn(
    counts: Mapping[str, int],
    cutter: BertWords,
    *,
    vocab_size: int,
    min_frequency: int,
    names: Mapping[str, str] = BERT_NAMES,
) -> Learned:
    """The vocabulary for these word counts: special tokens (ids 0 to 4), characters, then pieces as merged."""
    kept, seen = _characters(counts, min_frequency)
    words = {word: count for word, count in counts.items() if kept.issuperset(word)}
    alphabet = sorted(kept) + sorted({CONTINUES + character for word in words for character in word[1:]})
    needed = len(names) + len(alphabet)
    if vocab_size < needed:
        raise BertctlError(
            f"vocab_size: got {vocab_size}, expected at least {needed}: {len(names)} special tokens and "
            f"{len(alphabet)} for the characters of this corpus alone",
            hint=f"set vocab_size to {needed} or more; BERT has 30522",
        )
    merges = Merges(alphabet, words, spell=_spell, join=_join)
    pieces = merges.run(vocab_size - len(names), min_frequency)
    tokenizer = Tokenizer(
        [*names.values(), *pieces],
        lowercase=cutter.lowercase,
        strip_accents=cutter.strip_accents,
        special=dict(names),
        template=usual_template(names),
    )
    return Learned(tokenizer, len(words), len(kept), seen - len(kept))


def _characters(counts: Mapping[str, int], min_frequency: int) -> tuple[set[str], int]:
    """The characters worth a place in the vocabulary, and how many different ones there are."""
    frequency: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    ranked = sorted(frequency, key=lambda character: (-frequency[character], character))
    return {character for character in ranked[:MOST_CHARACTERS] if frequency[character] >= min_frequency}, len(ranked)


def _spell(word: str) -> list[str]:
    return [word[0], *(CONTINUES + character for character in word[1:])]


def _join(left: str, right: str) -> str:
    return left + right.removeprefix(CONTINUES)
