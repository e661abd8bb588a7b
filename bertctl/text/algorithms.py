"""How text becomes pieces: WordPiece, byte-level BPE, Unigram. Each knows its part of tokenizer.json, and which of its
pieces open a word.

A word, for masking whole ones and for cutting between them, is what stands between blanks; a Chinese character opens
one of its own, as in BERT. WordPiece marks where a word goes on (`##`), with words cut at punctuation too; the others
carry the blank before a word in its first piece.
Source: arXiv:1609.08144 (WordPiece); Radford et al. 2019, GPT-2 (bytes); Kudo 2018, arXiv:1804.10959 (Unigram).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

CONTINUES = "##"
LONGEST_WORD = 100  # BERT's own limit: a longer word is one [UNK]
HIDDEN = " "  # no piece that a text can have begins so: WordPiece has no blanks, the others write them as other signs
CHINESE = (  # google-research/bert tokenization.py
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)),
    *((0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
FIRST_CHINESE = chr(min(low for low, _ in CHINESE))
CHINESE_BYTES = range(0xE4, 0xEA)  # the first of three bytes: U+4000 to U+9FFF
CHINESE_CHARACTER = "\u4e00"
GPT2_WORDS: Mapping[str, Any] = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
Spec = dict[str, Any]


class Algorithm(Protocol):
    """What `Tokenizer` asks of each of the three."""

    name: ClassVar[str]
    blanks_in_pieces: ClassVar[bool]
    """Whether the first piece of a word takes in the blank before it."""

    @property
    def continues(self) -> str:
        """What a piece inside a word begins with; empty if there is no such sign."""
        ...

    def parts(self, tokens: Sequence[str], unk: str, *, lowercase: bool, strip_accents: bool) -> Spec:
        """Normalizer, pre-tokenizer, decoder and model of a tokenizer.json, in which piece i is called `tokens[i]`."""
        ...

    def opening(self, token: str) -> str:
        """The text of a piece as far as it says whether it opens a word: `opens` and `is_blank` read it."""
        ...

    def identity(self) -> list[Any]:
        """Everything besides the pieces that decides which ids a text gets."""
        ...


@dataclass(frozen=True)
class WordPiece:
    """BERT's: words by its own rules, then the longest piece first."""

    name: ClassVar[str] = "wordpiece"
    blanks_in_pieces: ClassVar[bool] = False
    clean_text: bool = True
    handle_chinese_chars: bool = True
    longest_word: int = LONGEST_WORD
    continues: str = CONTINUES

    def parts(self, tokens: Sequence[str], unk: str, *, lowercase: bool, strip_accents: bool) -> Spec:
        normalizer = {
            "type": "BertNormalizer",
            "clean_text": self.clean_text,
            "handle_chinese_chars": self.handle_chinese_chars,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        }
        model = {
            "type": "WordPiece",
            "unk_token": unk,
            "continuing_subword_prefix": self.continues,
            "max_input_chars_per_word": self.longest_word,
            "vocab": {token: i for i, token in enumerate(tokens)},
        }
        decoder = {"type": "WordPiece", "prefix": self.continues, "cleanup": True}
        return {
            "normalizer": normalizer,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": decoder,
            "model": model,
        }

    def opening(self, token: str) -> str:
        return token if token.startswith(self.continues) else f" {token}"

    def identity(self) -> list[Any]:
        return [self.clean_text, self.handle_chinese_chars, self.longest_word]


@dataclass(frozen=True)
class ByteBpe:
    """Merges over bytes, as in GPT-2, RoBERTa and ModernBERT: no text is unknown. `options` are further fields of the
    model as the file has them."""

    name: ClassVar[str] = "byte_bpe"
    blanks_in_pieces: ClassVar[bool] = True
    continues: ClassVar[str] = ""
    merges: tuple[tuple[str, str], ...] = field(repr=False)
    normalizer: Mapping[str, Any] | None = None
    pre_tokenizer: Mapping[str, Any] = field(default_factory=lambda: GPT2_WORDS)
    options: Mapping[str, Any] = field(default_factory=dict)

    def parts(self, tokens: Sequence[str], unk: str, *, lowercase: bool, strip_accents: bool) -> Spec:
        vocabulary = {token: i for i, token in enumerate(tokens)}
        unknown = self.options.get("unk_token") and {"unk_token": unk}
        model = {
            "type": "BPE",
            **self.options,
            **(unknown or {}),
            "vocab": vocabulary,
            "merges": [list(pair) for pair in self.merges],
        }
        decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        return {
            "normalizer": self.normalizer,
            "pre_tokenizer": self.pre_tokenizer,
            "decoder": decoder,
            "model": model,
        }

    def opening(self, token: str) -> str:
        try:
            data = bytes(map(BYTES.__getitem__, token))
        except KeyError:  # a token that was added as it stands in a text
            return token
        text = data.decode("utf-8", "replace")
        begun = text.startswith("\ufffd") and data[0] in CHINESE_BYTES
        return CHINESE_CHARACTER if begun else text

    def identity(self) -> list[Any]:
        return [self.name, self.merges, self.normalizer, self.pre_tokenizer, self.options]


@dataclass(frozen=True)
class Unigram:
    """The most probable pieces, as SentencePiece has them in ALBERT and DeBERTa-v2; `scores` are the
    log-probabilities of the first ones; those behind them were added, and are found as wholes only."""

    name: ClassVar[str] = "unigram"
    blanks_in_pieces: ClassVar[bool] = True
    continues: ClassVar[str] = ""
    scores: tuple[float, ...] = field(repr=False)
    unk_id: int
    normalizer: Mapping[str, Any] | None
    pre_tokenizer: Mapping[str, Any]
    decoder: Mapping[str, Any] | None
    byte_fallback: bool = False
    blank: str = "\u2581"

    def parts(self, tokens: Sequence[str], unk: str, *, lowercase: bool, strip_accents: bool) -> Spec:
        model = {
            "type": "Unigram",
            "unk_id": self.unk_id,
            "vocab": [list(pair) for pair in zip(tokens, self.scores, strict=False)],
            "byte_fallback": self.byte_fallback,
        }
        return {
            "normalizer": self.normalizer,
            "pre_tokenizer": self.pre_tokenizer,
            "decoder": self.decoder,
            "model": model,
        }

    def opening(self, token: str) -> str:
        return token.replace(self.blank, " ")

    def identity(self) -> list[Any]:
        return [self.name, self.scores, self.unk_id, self.normalizer, self.pre_tokenizer, self.byte_fallback]


BERT_WORDPIECE = WordPiece()


def _byte_signs() -> dict[str, int]:
    """GPT-2's sign for each byte: itself where it is printable Latin-1, else one from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(rest)}


BYTES = _byte_signs()


def opens(text: str) -> bool:
    """Whether a piece with this text begins with a blank or a Chinese character."""
    begin = text[:1]
    return begin.isspace() or (begin >= FIRST_CHINESE and any(low <= ord(begin) <= high for low, high in CHINESE))


def kinds(component: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """A normalizer or pre-tokenizer of a tokenizer.json: itself, or its parts if it is a sequence."""
    if component is not None and component.get("type") == "Sequence":
        for part in component.get("normalizers") or component.get("pretokenizers") or []:
            yield from kinds(part)
    elif component is not None:
        yield component
