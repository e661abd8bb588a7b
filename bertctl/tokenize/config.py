"""The `tokenize` section. No torch."""

from typing import Literal, Self

from pydantic import Field, model_validator

from bertctl.recipe.section import Section
from bertctl.text.config import CorpusSection
from bertctl.text.sentences import Splitter


class TokenizeSection(Section):
    """A corpus and the vocabulary to write it in: a new one of `vocab_size` pieces, or an existing one."""

    exclusive = (("vocab_size", "vocabulary"),)

    corpus: CorpusSection
    """The text."""
    vocab_size: int | None = Field(default=None, ge=1)
    """Pieces of a vocabulary to learn from the corpus, special tokens included; BERT has 30522."""
    vocabulary: str | None = None
    """An existing vocabulary, kept as it is: a tokenizer.json, a vocab.txt, a vocab.json beside its merges.txt, a model
    folder or a hub name."""
    algorithm: Literal["wordpiece", "byte_bpe"] | None = None
    """`wordpiece` (BERT; that of a new vocabulary if not given) or `byte_bpe` (RoBERTa, ModernBERT)."""
    special_tokens: Literal["bert", "roberta"] | None = None
    """`bert` ([CLS] A [SEP] B [SEP]) or `roberta` (<s> A </s></s> B </s>); as usual for `algorithm` if not given."""
    add_tokens: tuple[str, ...] = ()
    """Further whole-word tokens behind the vocabulary's own; a model continued with them (`pretrain.init_from`) starts
    each from the mean of its old pieces."""
    lowercase: bool | None = None
    """Fold case. On for a new WordPiece vocabulary if not given, off for bytes; an existing one knows."""
    strip_accents: bool | None = None
    """Remove accents. As `lowercase` for a new vocabulary if not given, as in BERT; an existing one knows."""
    min_frequency: int = Field(default=2, ge=1)
    """A new vocabulary learns no piece or character that occurs less often."""
    sentences: Splitter = "sentencex"
    """Where a sentence ends: `sentencex` (rules, and every line end), `newline` (line ends only), `none`."""
    language: str = "en"
    """Language code for the rules of `sentencex`."""
    tokens_per_shard: int = Field(default=1 << 24, ge=1)
    """A shard is closed with the document that reaches this many tokens; one shard is held in memory."""

    @model_validator(mode="after")
    def _one_vocabulary(self) -> Self:
        if self.vocab_size is None and self.vocabulary is None:
            raise ValueError("give one of `vocab_size` (to learn a vocabulary) and `vocabulary` (to use one)")
        return self

    @model_validator(mode="after")
    def _own_special_tokens(self) -> Self:
        if self.vocabulary is not None and self.special_tokens is not None:
            raise ValueError("`special_tokens` are for a new vocabulary; an existing one has its own")
        return self
