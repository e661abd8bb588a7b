"""Learns a byte-level BPE vocabulary: the same one for the same counts, on any machine and in any order.

Words are cut as in GPT-2, and merges start from all 256 bytes, so that no text is ever unknown.
Source: Radford et al. 2019 (GPT-2); Liu et al. 2019, arXiv:1907.11692 (RoBERTa).
"""

from collections.abc import Iterable, Mapping
from operator import add

from bertctl.errors import BertctlError
from bertctl.text.algorithms import BYTES, ByteBpe
from bertctl.text.merges import Merges
from bertctl.text.special import ROBERTA_NAMES, usual_template
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_wordpiece import Learned
from bertctl.text.word_counts import count_words
from bertctl.text.word_cutters import ByteWords

ALPHABET = sorted(BYTES)


def train_byte_bpe(
    texts: Iterable[str],
    *,
    vocab_size: int,
    lowercase: bool = False,
    strip_accents: bool = False,
    min_frequency: int = 2,
    names: Mapping[str, str] = ROBERTA_NAMES,
) -> Tokenizer:
    """Learn a vocabulary of at most `vocab_size` pieces; it is smaller when no pair occurs `min_frequency` times.

    `names` are the special tokens in the order of their ids. Errors: BertctlError if `vocab_size` does not hold them
    and the bytes.
    """
    cutter = ByteWords(lowercase=lowercase, strip_accents=strip_accents)
    counts = count_words(texts, cutter).counts
    return learn(counts, cutter, vocab_size=vocab_size, min_frequency=min_frequency, names=names).tokenizer


def learn(
    counts: Mapping[str, int], cutter: ByteWords, *, vocab_size: int, min_frequency: int, names: Mapping[str, str]
) -> Learned:
    """The vocabulary for these counts of words: special tokens (ids 0 to 4), bytes, then pieces as merged."""
    needed = len(names) + len(ALPHABET)
    if vocab_size < needed:
        raise BertctlError(
            f"vocab_size: got {vocab_size}, expected at least {needed}: {len(names)} special tokens and "
            f"{len(ALPHABET)} bytes",
            hint=f"set vocab_size to {needed} or more; RoBERTa has 50265",
        )
    merges = Merges(ALPHABET, counts, spell=list, join=add)
    pieces = merges.run(vocab_size - len(names), min_frequency)
    tokenizer = Tokenizer(
        [*names.values(), *pieces],
        lowercase=cutter.lowercase,
        strip_accents=cutter.strip_accents,
        special=dict(names),
        algorithm=ByteBpe(tuple(merges.pairs_merged), normalizer=_normalizer(cutter.steps)),
        template=usual_template(names),
    )
    return Learned(tokenizer, len(counts), len(ALPHABET), 0)


def _normalizer(steps: list[str]) -> Mapping[str, object] | None:
    return {"type": "Sequence", "normalizers": [{"type": step} for step in steps]} if steps else None
