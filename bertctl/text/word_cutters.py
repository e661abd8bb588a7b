"""Text to words, for counting them: as BERT cuts them, or as GPT-2 does before it looks at bytes.

Each cutter first takes a text apart at places where no word can go on, so that a stretch which occurs often is cut only
once.
"""

import re
from collections.abc import Iterable
from typing import ClassVar, Protocol

from tokenizers import normalizers, pre_tokenizers

from bertctl.text.algorithms import LONGEST_WORD

BLANKS = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # \s of the library's expressions, not re's
STRETCH = re.compile(f"[{BLANKS}]*[^{BLANKS}]+|[{BLANKS}]+")
BETWEEN_WORDS = re.compile(f"[{BLANKS}]+[^{BLANKS}]+")


class Cutter(Protocol):
    """What `count_words` asks for."""

    longest: ClassVar[int]
    """Signs of the longest word that counts."""

    def stretches(self, text: str) -> Iterable[str]:
        """Parts of a text between which no word goes on."""
        ...

    def words(self, stretches: list[str]) -> Iterable[str]:
        """The words of all stretches, in any order."""
        ...


class BertWords:
    """Words by BERT's rules, normalised by its two switches. One that could not be encoded does not count."""

    longest: ClassVar[int] = LONGEST_WORD

    def __init__(self, *, lowercase: bool, strip_accents: bool) -> None:
        self.lowercase, self.strip_accents = lowercase, strip_accents
        self.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
        self.cutter = pre_tokenizers.BertPreTokenizer()

    def stretches(self, text: str) -> Iterable[str]:
        """What stands between blanks."""
        return text.replace("\n", " ").split(" ")

    def words(self, stretches: list[str]) -> Iterable[str]:
        """All at once: a blank never joins words."""
        text = self.normalizer.normalize_str(" ".join(stretches))
        return (word for word, _ in self.cutter.pre_tokenize_str(text))


class ByteWords:
    """Words by GPT-2's expression, a leading blank with each, in its signs for bytes. A Chinese or Thai clause is one
    such word, so that many bytes count."""

    longest: ClassVar[int] = 1000

    def __init__(self, *, lowercase: bool, strip_accents: bool) -> None:
        self.lowercase, self.strip_accents = lowercase, strip_accents
        self.steps = [*(("NFD", "StripAccents") if strip_accents else ()), *(("Lowercase",) if lowercase else ())]
        self.normalizer = normalizers.Sequence([getattr(normalizers, step)() for step in self.steps])
        self.cutter = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def stretches(self, text: str) -> Iterable[str]:
        """Blanks and what stands behind them: a word never goes from the one to the next such stretch."""
        return STRETCH.findall(text)

    def words(self, stretches: list[str]) -> Iterable[str]:
        """Those with blanks in front at once, the beginnings and ends of texts one by one."""
        inner = [stretch for stretch in stretches if BETWEEN_WORDS.fullmatch(stretch)]
        others = [stretch for stretch in stretches if not BETWEEN_WORDS.fullmatch(stretch)]
        for text in ("".join(inner), *others):
            for word, _ in self.cutter.pre_tokenize_str(self.normalizer.normalize_str(text)):
                yield word
