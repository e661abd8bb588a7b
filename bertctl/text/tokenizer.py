"""A family's tokenizer: text or words in, ids with places in the original text out.

The work is done by the `tokenizers` library; this file decides what it may do: literal `[SEP]` in a text is text, no
word of a labelled sequence disappears, and a loaded vocabulary keeps every id. What differs between the families is in
`algorithms.py` and `special.py`; files in and out: `tokenizer_files.py`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import tokenizers

from bertctl.errors import BertctlError
from bertctl.text import tokenizer_files
from bertctl.text.algorithms import BERT_WORDPIECE, HIDDEN, Algorithm, opens
from bertctl.text.kept_words import KeptWords
from bertctl.text.pieces import Pieces as Pieces  # beside the class that makes them
from bertctl.text.pieces import without_blanks
from bertctl.text.special import BERT_NAMES, BERT_TEMPLATE, Joined, Template, added_token, post_processor

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary, the algorithm that uses it, and the special tokens around its segments.

    `tokens[i]` is the piece with id i; `special` maps pad, unk, cls, sep and mask to their names; `added` holds further
    whole-token entries in the form of tokenizer.json (special ones count as text unless `allow_special`). The two
    switches make WordPiece's normaliser; another algorithm brings its own, and they say what it does.
    """

    tokens: list[str] = field(repr=False)
    lowercase: bool
    strip_accents: bool
    special: Mapping[str, str] = field(default_factory=lambda: dict(BERT_NAMES))
    added: tuple[Mapping[str, Any], ...] = ()
    algorithm: Algorithm = BERT_WORDPIECE
    template: Template = BERT_TEMPLATE

    @classmethod
    def load(cls, source: str | Path, *, lowercase: bool | None = None, strip_accents: bool | None = None) -> Self:
        """Read a tokenizer.json, a vocab.txt, a vocab.json with its merges.txt, or a folder that has one of them.

        The two switches matter for a bare vocab.txt only, which does not say how it was made; see `tokenizer_files`.
        Errors: BertctlError for a missing file, another kind of tokenizer, duplicate pieces, or switches that disagree.
        """
        file = tokenizer_files.file_of(Path(source))
        tokenizer = cls(**tokenizer_files.read(file, lowercase=lowercase, strip_accents=strip_accents))
        try:
            tokenizer._library  # noqa: B018 - built now, so that a part the library does not know ends here
        except Exception as error:  # noqa: BLE001 - the library raises bare ones
            raise BertctlError(f"{file}: is not as the tokenizers library writes it: {error}") from None
        return tokenizer

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: the fields, and nothing that was made from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and the family's vocabulary files, as `AutoTokenizer` reads
        them."""
        tokenizer_files.write(self, folder)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Piece -> id."""
        return {token: i for i, token in enumerate(self.tokens)}

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    @cached_property
    def role_ids(self) -> dict[str, int]:
        """pad, unk, cls, sep, mask -> id."""
        return {role: self.ids[name] for role, name in self.special.items()}

    @property
    def pad_id(self) -> int:
        return self.role_ids["pad"]

    @property
    def unk_id(self) -> int:
        return self.role_ids["unk"]

    @property
    def cls_id(self) -> int:
        return self.role_ids["cls"]

    @property
    def sep_id(self) -> int:
        return self.role_ids["sep"]

    @property
    def mask_id(self) -> int:
        return self.role_ids["mask"]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that are never masked and never drawn as a random replacement."""
        more = [entry["content"] for entry in self.added if entry["special"]]
        return frozenset(self.ids[name] for name in [*self.special.values(), *more])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the vocabulary and everything else that decides which ids a text gets."""
        switches = [self.lowercase, self.strip_accents, *self.algorithm.identity()]
        added = [dict(entry) for entry in self.added]
        parts = [self.tokens, switches, self.algorithm.continues, dict(self.special), added]
        if self.template != BERT_TEMPLATE:
            parts.append(vars(self.template))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def join(self, *segments: Sequence[int]) -> Joined:
        """One or two segments of piece ids with the family's special tokens around them."""
        return self.template.join(segments, self.role_ids)

    def special_count(self, segments: int) -> int:
        """How many special tokens `join` adds to 1 or 2 segments."""
        return self.template.count(segments)

    def word_starts(self, ids: np.ndarray, *, begins: Sequence[int] | np.ndarray = (0,)) -> np.ndarray:
        """[N] bool for the pieces [N] of texts that begin at `begins`: the piece begins a word. Blanks belong to the
        word behind them."""
        opens_word, is_blank, is_special = self._openings
        starts: np.ndarray = opens_word[ids]
        starts[1:] &= ~is_blank[ids[:-1]]
        starts |= is_special[ids]
        starts[np.asarray(begins[: len(ids)], dtype=np.int64)] = True
        return starts

    @cached_property
    def _openings(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """[vocab_size] bool each: the piece begins a word; it is nothing but blanks; it is special."""
        texts = [self.algorithm.opening(token) for token in self.tokens]
        words = {entry["content"] for entry in self.added if entry["single_word"]}
        columns = (
            [opens(text) or token in words, text.isspace(), i in self.special_ids]
            for i, (token, text) in enumerate(zip(self.tokens, texts, strict=True))
        )
        opens_word, is_blank, is_special = np.array(list(columns), dtype=bool).T.copy()
        return opens_word, is_blank, is_special

    def encode(self, texts: Sequence[str], *, allow_special: bool = False) -> list[Pieces]:
        """Ids and places of every text; `allow_special` makes a literal `[MASK]` the mask token."""
        library = self._library_with_special if allow_special else self._library
        clean = without_surrogates(texts)
        encodings = library.encode_batch(clean, add_special_tokens=False)
        return [self._pieces(text, encoding) for text, encoding in zip(clean, encodings, strict=True)]

    def encode_ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Ids only, [N] int32 each: what corpora need, at several times the speed of `encode`."""
        clean = without_surrogates(texts)
        if not self.algorithm.blanks_in_pieces and all(entry["special"] for entry in self.added):
            return self._kept_words.encode(clean)
        encodings = self._library.encode_batch_fast(clean, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Ids per sentence and word, each as it stands behind a blank; a word that would be deleted becomes [UNK], so
        labels stay aligned."""
        words = [[self._behind_blank(word) for word in without_surrogates(sentence)] for sentence in sentences]
        encodings = self._library.encode_batch(words, is_pretokenized=True, add_special_tokens=False)
        return [self._by_word(e, len(sentence)) for e, sentence in zip(encodings, sentences, strict=True)]

    def _behind_blank(self, word: str) -> str:
        return f" {word}" if self.algorithm.blanks_in_pieces and word and word[0] != " " else word

    def _by_word(self, encoding: tokenizers.Encoding, words: int) -> list[list[int]]:
        ids: list[list[int]] = [[] for _ in range(words)]
        for token, word in zip(encoding.ids, encoding.word_ids, strict=True):
            if word is not None:  # only tokens of a post-processor have no word, and there is none
                ids[word].append(token)
        return [pieces or [self.unk_id] for pieces in ids]

    def _pieces(self, text: str, encoding: tokenizers.Encoding) -> Pieces:
        ids = np.array(encoding.ids, dtype=np.int32)
        places = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
        places = without_blanks(text, places)
        return Pieces(ids, places[:, 0], places[:, 1], self.word_starts(ids))

    def specification(self) -> dict[str, Any]:
        """The content of tokenizer.json."""
        named = {entry["content"] for entry in self.added}
        roles = [added_token(self.ids[name], name) for name in self.special.values() if name not in named]
        parts = self.algorithm.parts(
            self.tokens, self.special["unk"], lowercase=self.lowercase, strip_accents=self.strip_accents
        )
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": sorted([*roles, *map(dict, self.added)], key=lambda entry: entry["id"]),
            "normalizer": parts["normalizer"],
            "pre_tokenizer": parts["pre_tokenizer"],
            "post_processor": post_processor(self.template, self.special, self.role_ids),
            "decoder": parts["decoder"],
            "model": parts["model"],
        }

    @cached_property
    def _library(self) -> tokenizers.Tokenizer:
        """Knows no special token: none is matched as a whole, and no piece of a text is called like one."""
        tokens = [f"{HIDDEN}{token}" if i in self.special_ids else token for i, token in enumerate(self.tokens)]
        parts = self.algorithm.parts(
            tokens, tokens[self.unk_id], lowercase=self.lowercase, strip_accents=self.strip_accents
        )
        plain = [dict(entry) for entry in self.added if not entry["special"]]
        return _built(parts | {"added_tokens": plain})

    @cached_property
    def _kept_words(self) -> KeptWords:
        """For an algorithm that looks at words alone; an added token could have a blank in it."""
        return KeptWords(self._library)

    @cached_property
    def _library_with_special(self) -> tokenizers.Tokenizer:
        return _built(self.specification())


def _built(specification: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Without a post-processor: special tokens are put around by `join`, and blanks are cut off by `without_blanks`."""
    return tokenizers.Tokenizer.from_str(json.dumps({"version": "1.0", **specification, "post_processor": None}))


def without_surrogates(texts: Sequence[str]) -> list[str]:
    """Half a UTF-16 pair (JSON can hold one) is no character; U+FFFD in its place keeps every offset."""
    return [text if text.isascii() else LONE_SURROGATE.sub("\ufffd", text) for text in texts]
