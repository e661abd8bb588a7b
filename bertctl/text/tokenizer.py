"""BERT's tokenizer: text or words in, ids with places in the original text out.

The work is done by the `tokenizers` library; this file decides what it may do: literal `[SEP]` in a text is text, no
word of a labelled sequence disappears, and a loaded vocabulary keeps every id. Files in and out: `tokenizer_files.py`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import tokenizers

from bertctl.text import tokenizer_files

CONTINUES = "##"
LONGEST_WORD = 100  # BERT's own limit: a longer word is one [UNK]
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Pieces:
    """One encoded text of N pieces, without [CLS] and [SEP].

    Shapes: all [N]; `ids` int32; `starts`, `ends` int32, code points of the original text; `word_starts` bool.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    word_starts: np.ndarray


@dataclass(frozen=True)
class Tokenizer:
    """A WordPiece vocabulary with BERT's normalisation and its two switches.

    `tokens[i]` is the piece with id i; `special` maps pad, unk, cls, sep and mask to their names; `added` holds further
    whole-token entries in the form of tokenizer.json (special ones count as text unless `allow_special`).
    """

    tokens: list[str] = field(repr=False)
    lowercase: bool
    strip_accents: bool
    special: Mapping[str, str] = field(default_factory=lambda: dict(tokenizer_files.ROLES))
    added: tuple[Mapping[str, Any], ...] = ()
    clean_text: bool = True
    handle_chinese_chars: bool = True
    longest_word: int = LONGEST_WORD
    continues: str = CONTINUES

    @classmethod
    def load(cls, source: str | Path, *, lowercase: bool | None = None, strip_accents: bool | None = None) -> Self:
        """Read a vocab.txt, a tokenizer.json, or a folder that has one of them.

        The two switches matter for a bare vocab.txt only, which does not say how it was made; see `tokenizer_files`.
        Errors: BertctlError for a missing file, another kind of tokenizer, duplicate pieces, or switches that disagree.
        """
        return cls(**tokenizer_files.read(Path(source), lowercase=lowercase, strip_accents=strip_accents))

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, vocab.txt and tokenizer_config.json, as `AutoTokenizer` reads them."""
        tokenizer_files.write(self, folder)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Piece -> id."""
        return {token: i for i, token in enumerate(self.tokens)}

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    @property
    def pad_id(self) -> int:
        return self.ids[self.special["pad"]]

    @property
    def unk_id(self) -> int:
        return self.ids[self.special["unk"]]

    @property
    def cls_id(self) -> int:
        return self.ids[self.special["cls"]]

    @property
    def sep_id(self) -> int:
        return self.ids[self.special["sep"]]

    @property
    def mask_id(self) -> int:
        return self.ids[self.special["mask"]]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that are never masked and never drawn as a random replacement."""
        more = [entry["content"] for entry in self.added if entry["special"]]
        return frozenset(self.ids[name] for name in [*self.special.values(), *more])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the vocabulary and everything else that decides which ids a text gets."""
        switches = [self.lowercase, self.strip_accents, self.clean_text, self.handle_chinese_chars, self.longest_word]
        parts = [self.tokens, switches, self.continues, dict(self.special), [dict(entry) for entry in self.added]]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def starts_word(self) -> np.ndarray:
        """[vocab_size] bool: the piece begins a word, as BERT's pre-tokeniser cuts words (it has no `##`)."""
        return np.array([not token.startswith(self.continues) for token in self.tokens], dtype=bool)

    def encode(self, texts: Sequence[str], *, allow_special: bool = False) -> list[Pieces]:
        """Ids and places of every text; `allow_special` makes a literal `[MASK]` the mask token."""
        return [self._pieces(encoding) for encoding in self._encode_batch(texts, allow_special)]

    def encode_ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Ids only, [N] int32 each: what corpora need, at about twice the speed of `encode`."""
        encodings = self._library.encode_batch_fast(_without_surrogates(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Ids per sentence and word; a word that BERT's rules would delete becomes [UNK], so labels stay aligned."""
        words = [_without_surrogates(sentence) for sentence in sentences]
        encodings = self._library.encode_batch(words, is_pretokenized=True, add_special_tokens=False)
        return [self._by_word(e, len(sentence)) for e, sentence in zip(encodings, sentences, strict=True)]

    def _by_word(self, encoding: tokenizers.Encoding, words: int) -> list[list[int]]:
        ids: list[list[int]] = [[] for _ in range(words)]
        for token, word in zip(encoding.ids, encoding.word_ids, strict=True):
            if word is not None:  # only tokens of a post-processor have no word, and none is asked for
                ids[word].append(token)
        return [pieces or [self.unk_id] for pieces in ids]

    def _encode_batch(self, texts: Sequence[str], allow_special: bool) -> list[tokenizers.Encoding]:
        library = self._library_with_special if allow_special else self._library
        encodings: list[tokenizers.Encoding] = library.encode_batch(
            _without_surrogates(texts), add_special_tokens=False
        )
        return encodings

    def _pieces(self, encoding: tokenizers.Encoding) -> Pieces:
        ids = np.array(encoding.ids, dtype=np.int32)
        places = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
        return Pieces(ids, places[:, 0], places[:, 1], self.starts_word[ids])

    def specification(self, *, with_special: bool) -> dict[str, Any]:
        """The content of tokenizer.json; without the special tokens it cannot turn text into control ids."""
        kept = [dict(entry) for entry in self.added if with_special or not entry["special"]]
        named = {entry["content"] for entry in kept}
        roles = [_added(self.ids[name], name) for name in self.special.values() if with_special and name not in named]
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": sorted([*roles, *kept], key=lambda entry: entry["id"]),
            "normalizer": self._normalizer(),
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": self._post_processor(),
            "decoder": {"type": "WordPiece", "prefix": self.continues, "cleanup": True},
            "model": self._model(),
        }

    def _normalizer(self) -> dict[str, Any]:
        return {
            "type": "BertNormalizer",
            "clean_text": self.clean_text,
            "handle_chinese_chars": self.handle_chinese_chars,
            "strip_accents": self.strip_accents,
            "lowercase": self.lowercase,
        }

    def _post_processor(self) -> dict[str, Any]:
        sep, cls = self.special["sep"], self.special["cls"]
        return {"type": "BertProcessing", "sep": [sep, self.sep_id], "cls": [cls, self.cls_id]}

    def _model(self) -> dict[str, Any]:
        return {
            "type": "WordPiece",
            "unk_token": self.special["unk"],
            "continuing_subword_prefix": self.continues,
            "max_input_chars_per_word": self.longest_word,
            "vocab": self.ids,
        }

    @cached_property
    def _library(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(json.dumps(self.specification(with_special=False)))

    @cached_property
    def _library_with_special(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(json.dumps(self.specification(with_special=True)))


def _added(token_id: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token_id, "content": content, **flags}


def _without_surrogates(texts: Sequence[str]) -> list[str]:
    """Half a UTF-16 pair (JSON can hold one) is no character; U+FFFD in its place keeps every offset."""
    return [LONE_SURROGATE.sub("\ufffd", text) for text in texts]
