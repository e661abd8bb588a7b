"""A document's sentences: the unit that pairs are made of."""

from collections.abc import Callable
from typing import Literal

Splitter = Literal["sentencex", "newline", "none"]
# sentencex 1.0.32 panics where one of these, several bytes long in UTF-8, stands before a full stop, as in `B\xa0.`; it
# gets blanks instead, and the sentences are cut from the original.
WIDE_BLANKS = {code: " " for code in range(0x80, 0x3001) if chr(code).isspace()}
LONGEST_SENTENCE = (
    1 << 16
)  # characters; a longer one is cut at a blank, so that one line of 200 MB needs no more memory


def split_sentences(text: str, splitter: Splitter, language: str = "en") -> list[str]:
    """The sentences of `text` in order, stripped; none is empty, and no character but white space is lost.

    A line break ends a sentence with `sentencex` (rules for about 300 languages) and with `newline`; with `none` the
    document is one sentence.
    """
    parts = (part.strip() for sentence in SPLITTERS[splitter](text, language) for part in _bounded(sentence))
    return [part for part in parts if part]


def _by_rules(text: str, language: str) -> list[str]:
    import sentencex

    sentences: list[str] = []
    for line in text.split("\n"):
        for part in _bounded(line):
            start = 0
            for sentence in sentencex.segment(language, part.translate(WIDE_BLANKS)):
                sentences.append(part[start : start + len(sentence)])
                start += len(sentence)
    return sentences


def _by_line(text: str, language: str) -> list[str]:
    return text.split("\n")


def _whole(text: str, language: str) -> list[str]:
    return [text]


def _bounded(text: str) -> list[str]:
    parts, start = [], 0
    while len(text) - start > LONGEST_SENTENCE:
        blank = text.rfind(" ", start + 1, start + LONGEST_SENTENCE)
        cut = blank if blank > 0 else start + LONGEST_SENTENCE
        parts.append(text[start:cut])
        start = cut
    return [*parts, text[start:]]


SPLITTERS: dict[str, Callable[[str, str], list[str]]] = {"sentencex": _by_rules, "newline": _by_line, "none": _whole}
