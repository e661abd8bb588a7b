"""Documents to token shards: sentences, then pieces, in batches of which every core has one."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from bertctl import signals
from bertctl.artifacts.shards import Block, TokenShardWriter
from bertctl.text.corpus_files import Document
from bertctl.text.sentences import Splitter, split_sentences
from bertctl.text.tokenizer import Tokenizer
from bertctl.workers import in_order

CHARACTERS_PER_BATCH = 1 << 20
CHARACTERS_ENCODED_AT_ONCE = 1 << 18  # the library takes some 200 bytes a piece while it works
DOING = "writing tokens"
Item = TypeVar("Item")


@dataclass
class Tally:
    """What has gone through: texts read, pieces, words and unknown pieces written, and a hash of the texts."""

    documents_read: int = 0
    bytes: int = 0
    tokens: int = 0
    words: int = 0
    unknown: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def read(self, text: str) -> None:
        """Count one document; its length goes into the hash too, so that moving a border changes it."""
        data = text.encode()
        self.digest.update(b"%d:" % len(data))
        self.digest.update(data)
        self.documents_read += 1
        self.bytes += len(data)


def write_documents(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    writer: TokenShardWriter,
    tally: Tally,
    *,
    splitter: Splitter,
    language: str,
) -> None:
    """Split, encode and write; a sentence without a piece (control characters only, say) leaves nothing."""
    texts = (document.text for document in documents)
    batches = _batches(texts, len, CHARACTERS_PER_BATCH)
    for block in in_order(Encoding(tokenizer, splitter, language), batches, doing=DOING):
        signals.check(DOING)
        if len(block.ids):
            writer.add(block)
            tally.tokens += len(block.ids)
            tally.words += int(block.starts.sum())
            tally.unknown += int((block.ids == tokenizer.unk_id).sum())


@dataclass(frozen=True)
class Encoding:
    """What is done to the texts of some documents: a work for processes of their own. What is done to arrays is done to
    all at once; sentence by sentence it cost a fifth of the encoding."""

    tokenizer: Tokenizer
    splitter: Splitter
    language: str

    def __call__(self, texts: list[str]) -> Block:
        """Their sentences encoded, without those that have no piece."""
        documents = [split_sentences(text, self.splitter, self.language) for text in texts]
        if self.tokenizer.algorithm.blanks_in_pieces:
            documents = [_behind_blanks(sentences) for sentences in documents]
        encoded: list[np.ndarray] = []
        for part in _batches(chain.from_iterable(documents), len, CHARACTERS_ENCODED_AT_ONCE):
            signals.check(DOING)
            encoded += self.tokenizer.encode_ids(part)
        lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
        owners = np.repeat(np.arange(len(documents)), [len(sentences) for sentences in documents])[lengths > 0]
        lengths, per_document = lengths[lengths > 0], np.bincount(owners)
        ids = np.concatenate([np.empty(0, dtype=np.int32), *encoded])
        starts = self.tokenizer.word_starts(ids, begins=np.cumsum(lengths) - lengths)
        return Block(ids, starts, lengths, per_document[per_document > 0])


def _behind_blanks(sentences: list[str]) -> list[str]:
    """Inside a text a sentence stands behind a blank, which its first piece then holds; only the first does not."""
    return [*sentences[:1], *(f" {sentence}" for sentence in sentences[1:])]


def _batches(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Runs of items that together reach `most`."""
    batch: list[Item] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= most:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
