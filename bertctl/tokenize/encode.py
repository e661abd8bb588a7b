"""Documents to token shards: sentences, then pieces, in batches so that the tokenizer can use every core."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from bertctl import signals
from bertctl.artifacts.shards import TokenShardWriter
from bertctl.console import Progress
from bertctl.text.corpus_files import Document
from bertctl.text.sentences import Splitter, split_sentences
from bertctl.text.tokenizer import Tokenizer

CHARACTERS_PER_BATCH = 1 << 20
CHARACTERS_ENCODED_AT_ONCE = 1 << 18  # several to a batch, so that most are encoded while others are written
Item = TypeVar("Item")
Made = TypeVar("Made")


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


def counted(documents: Iterable[Document], tally: Tally, progress: Progress) -> Iterator[Document]:
    """The same documents, counted while they pass."""
    for document in documents:
        tally.read(document.text)
        progress.update(tally.bytes, f"{tally.documents_read:,} documents")
        yield document


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
    for batch in _batches(documents, lambda document: len(document.text), CHARACTERS_PER_BATCH):
        sentences = [split_sentences(document.text, splitter, language) for document in batch]
        if tokenizer.algorithm.blanks_in_pieces:
            sentences = [_behind_blanks(document) for document in sentences]
        encoded = _encoded([sentence for document in sentences for sentence in document], tokenizer, tally)
        for document in sentences:
            signals.check("writing tokens")
            writer.add_document([next(encoded) for _ in document])


def _behind_blanks(sentences: list[str]) -> list[str]:
    """Inside a text a sentence stands behind a blank, which its first piece then holds; only the first does not."""
    return [*sentences[:1], *(f" {sentence}" for sentence in sentences[1:])]


def _encoded(sentences: list[str], tokenizer: Tokenizer, tally: Tally) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids and word starts of each sentence, in batches: the library takes some 200 bytes a piece while it works. It
    works in threads of its own, meanwhile the batch before is written.

    What is done to arrays is done to a whole batch; sentence by sentence it cost a fifth of the encoding.
    """
    for encoded in _ahead(tokenizer.encode_ids, _batches(sentences, len, CHARACTERS_ENCODED_AT_ONCE)):
        signals.check("writing tokens")
        bounds = np.cumsum([0, *map(len, encoded)])
        ids = np.concatenate(encoded)
        starts = tokenizer.word_starts(ids, begins=bounds[:-1][np.diff(bounds) > 0])
        tally.tokens += len(ids)
        tally.words += int(starts.sum())
        tally.unknown += int((ids == tokenizer.unk_id).sum())
        yield from ((ids[a:b], starts[a:b]) for a, b in pairwise(bounds.tolist()))


def _ahead(work: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """`work` of each item in order, done in a thread for the next item while the last result is used."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending: Future[Made] | None = None
        for item in items:
            following = pool.submit(work, item)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()


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
