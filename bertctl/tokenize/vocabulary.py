"""The vocabulary that a recipe asks for: an existing one, or one learned from the corpus."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl.artifacts import checkpoint
from bertctl.errors import BertctlError
from bertctl.text import train_byte_bpe, train_wordpiece
from bertctl.text.extend import with_tokens
from bertctl.text.special import BERT_NAMES, ROBERTA_NAMES
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_wordpiece import Learned
from bertctl.text.word_counts import count_words
from bertctl.text.word_cutters import BertWords, ByteWords
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.documents import Documents
from bertctl.tokenize.encode import Tally

NAMES = {"bert": BERT_NAMES, "roberta": ROBERTA_NAMES}
LINE_BREAK = re.compile(r"\n\s*")


@dataclass(frozen=True)
class Training:
    """How an algorithm's vocabulary is learned, and what is usual for it."""

    cutter: Callable[..., Any]
    learn: Callable[..., Learned]
    names: Mapping[str, str]
    lowercase: bool


TRAININGS = {
    "wordpiece": Training(BertWords, train_wordpiece.learn, BERT_NAMES, lowercase=True),
    "byte_bpe": Training(ByteWords, train_byte_bpe.learn, ROBERTA_NAMES, lowercase=False),
}


def vocabulary(section: TokenizeSection, documents: Documents, spill: Path) -> tuple[Tokenizer, dict[str, Any]]:
    """The vocabulary with its further tokens, and what there is to say about how it was learned."""
    tokenizer, facts = _existing(section) if section.vocabulary else _learned(section, documents, spill)
    if section.add_tokens:
        tokenizer = with_tokens(tokenizer, section.add_tokens)
        facts["tokens_added"] = len(section.add_tokens)
    return tokenizer, facts


def _existing(section: TokenizeSection) -> tuple[Tokenizer, dict[str, Any]]:
    """The vocabulary that the section names. Errors: BertctlError if it is for another algorithm than asked for."""
    source = section.vocabulary or ""
    path = Path(source) if Path(source).exists() else checkpoint.resolve_model(source)
    tokenizer = Tokenizer.load(path, lowercase=section.lowercase, strip_accents=section.strip_accents)
    if section.algorithm not in (None, tokenizer.algorithm.name):
        raise BertctlError(
            f"{source}: a vocabulary for {tokenizer.algorithm.name}, but the recipe asks for {section.algorithm}",
            hint="leave `algorithm` out: a vocabulary works with its own only",
        )
    return tokenizer, {}


def _learned(section: TokenizeSection, documents: Documents, spill: Path) -> tuple[Tokenizer, dict[str, Any]]:
    """Read the corpus once and learn its vocabulary; the second value is for the result."""
    training = TRAININGS[section.algorithm or "wordpiece"]
    lowercase = training.lowercase if section.lowercase is None else section.lowercase
    strip_accents = lowercase if section.strip_accents is None else section.strip_accents
    cutter = training.cutter(lowercase=lowercase, strip_accents=strip_accents)
    started = time.monotonic()
    counts = count_words(_texts(section, documents), cutter, spill=spill).counts
    names = NAMES[section.special_tokens] if section.special_tokens else training.names
    size, least = section.vocab_size, section.min_frequency
    found = training.learn(counts, cutter, vocab_size=size, min_frequency=least, names=names)
    return found.tokenizer, {
        "vocab_size_asked": section.vocab_size,
        "distinct_words": found.words,
        "characters": found.characters,
        "characters_left_out": found.characters_left_out,
        "vocabulary_seconds": time.monotonic() - started,
    }


def _texts(section: TokenizeSection, documents: Documents) -> Iterator[str]:
    """Documents as they will be encoded: no sentence holds a line break, which bytes would learn as a piece."""
    for document in documents.counted("counting words", Tally()):
        yield document.text if section.sentences == "none" else LINE_BREAK.sub(" ", document.text)
