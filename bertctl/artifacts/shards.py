"""Token shards: the ids of a corpus, flat and memory-mapped, with where documents, sentences and words begin.

One file `tokens-00000.safetensors` a shard; a document never crosses a shard. Legend: N tokens, S sentences, D
documents of a shard. `tokens` [N] uint16 (vocabulary up to 65,536) or uint32; `sentence_offsets` [S + 1] int64, in
tokens; `document_offsets` [D + 1] int64, in sentences; `word_starts` uint8, one bit a token, lowest bit first: 1
where a token begins a word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertctl.artifacts.header import read_header
from bertctl.artifacts.manifest import verify
from bertctl.artifacts.tensors import map_arrays, save_tensors
from bertctl.errors import BertctlError

KIND = "tokens"
LARGEST_UINT16_VOCABULARY = 65536

Sentence = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Block:
    """Documents side by side: `ids` [N], `starts` [N] bool, true where a token begins a word, the tokens of each
    sentence [S], none of them 0, and the sentences of each document [D], none of them 0 either."""

    ids: NDArray[Any]
    starts: NDArray[np.bool_]
    tokens_per_sentence: NDArray[np.int64]
    sentences_per_document: NDArray[np.int64]

    def check(self, vocab_size: int) -> None:
        """Errors: ValueError for ids outside the vocabulary, lengths that differ, or a sentence that begins inside a
        word."""
        if len(self.ids) != len(self.starts):
            raise ValueError(f"got {len(self.ids)} ids and {len(self.starts)} word starts")
        if self.ids.min() < 0 or self.ids.max() >= vocab_size:
            raise ValueError(f"got ids from {self.ids.min()} to {self.ids.max()}, expected 0 to {vocab_size - 1}")
        if not self.starts[_offsets(self.tokens_per_sentence)[:-1]].all():
            raise ValueError("a sentence begins inside a word")


class TokenShardWriter:
    """Writes documents into `folder` (a temp folder of `whole_folder`), a shard whenever `tokens_per_shard` is
    reached.

    Memory stays at one shard and one block.
    """

    def __init__(self, folder: Path, *, vocab_size: int, tokens_per_shard: int) -> None:
        self.folder, self.vocab_size, self.tokens_per_shard = folder, vocab_size, tokens_per_shard
        self.dtype = np.uint16 if vocab_size <= LARGEST_UINT16_VOCABULARY else np.uint32
        self.counts = {"documents": 0, "sentences": 0, "tokens": 0, "shards": 0}
        self._clear()

    def _clear(self) -> None:
        self.parts: list[Block] = []
        self.shard_tokens = 0

    def add_document(self, sentences: Sequence[Sentence]) -> None:
        """Add one document: for each sentence its ids [n] and word starts [n] bool. Sentences without a token are
        left out, and so is a document without a sentence. Errors: as `Block.check`."""
        given = [(ids, starts) for ids, starts in sentences if len(ids)]
        if given:
            ids, starts = (np.concatenate(parts) for parts in zip(*given, strict=True))
            self.add(Block(ids, starts, np.array([len(ids) for ids, _ in given]), np.array([len(given)])))

    def add(self, block: Block) -> None:
        """Add documents, at least one. A shard ends with the document that fills it. Errors: as `Block.check`."""
        block.check(self.vocab_size)
        sentences = _offsets(block.sentences_per_document)
        tokens = _offsets(block.tokens_per_sentence)[sentences]  # where each document begins, and the last one ends
        first, documents = 0, len(block.sentences_per_document)
        while first < documents:
            full = tokens[first] + self.tokens_per_shard - self.shard_tokens
            last = min(documents, int(np.searchsorted(tokens[first + 1 :], full)) + first + 1)
            inner, within = slice(tokens[first], tokens[last]), slice(sentences[first], sentences[last])
            self.parts.append(
                Block(
                    block.ids[inner].astype(self.dtype),
                    block.starts[inner].astype(bool),
                    block.tokens_per_sentence[within],
                    block.sentences_per_document[first:last],
                )
            )
            self.shard_tokens += int(tokens[last] - tokens[first])
            if self.shard_tokens >= self.tokens_per_shard:
                self._write_shard()
            first = last

    def _joined(self, name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in self.parts])

    def _write_shard(self) -> None:
        sentences, documents = self._joined("tokens_per_sentence"), self._joined("sentences_per_document")
        arrays = {
            "tokens": self._joined("ids"),
            "sentence_offsets": _offsets(sentences),
            "document_offsets": _offsets(documents),
            "word_starts": np.packbits(self._joined("starts"), bitorder="little"),
        }
        path = self.folder / f"tokens-{self.counts['shards']:05d}.safetensors"
        save_tensors(path, arrays, {"kind": KIND, "vocab_size": str(self.vocab_size)})
        self.counts["documents"] += len(documents)
        self.counts["sentences"] += len(sentences)
        self.counts["tokens"] += self.shard_tokens
        self.counts["shards"] += 1
        self._clear()

    def close(self) -> dict[str, int]:
        """Write the last shard; returns counts of documents, sentences, tokens and shards."""
        if self.shard_tokens:
            self._write_shard()
        return dict(self.counts)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@dataclass(frozen=True)
class Shard:
    """One shard, memory-mapped; see the head of this file for what the arrays hold."""

    path: Path
    tokens: NDArray[Any]
    sentence_offsets: NDArray[np.int64]
    document_offsets: NDArray[np.int64]
    word_bits: NDArray[np.uint8]

    def words(self, start: int, stop: int) -> NDArray[np.bool_]:
        """For the tokens from `start` to `stop` (in this shard): True where a token begins a word."""
        first = start // 8
        bits = np.unpackbits(self.word_bits[first : (stop + 7) // 8], bitorder="little")
        return bits[start - 8 * first : stop - 8 * first].astype(bool)


class TokenShards:
    """The token shards of a verified folder, in order.

    Errors: BertctlError if the folder does not verify, holds no shard, or a shard contradicts itself.
    """

    def __init__(self, folder: Path) -> None:
        manifest = verify(folder, kind=KIND)
        self.folder = folder
        paths = [folder / name for name in sorted(manifest.files) if name.startswith("tokens-")]
        if not paths:
            raise BertctlError(f"{folder}: holds no token shard, expected tokens-00000.safetensors")
        self.vocab_size = _vocab_size(paths[0])
        self.shards = [_open(path, self.vocab_size) for path in paths]
        self.num_documents = sum(len(shard.document_offsets) - 1 for shard in self.shards)
        self.num_sentences = sum(len(shard.sentence_offsets) - 1 for shard in self.shards)
        self.num_tokens = sum(len(shard.tokens) for shard in self.shards)


def _vocab_size(path: Path) -> int:
    text = read_header(path).metadata.get("vocab_size", "")
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise BertctlError(f"{path}: got vocab_size {text!r} in its metadata, expected a count")
    return int(text)


def _open(path: Path, vocab_size: int) -> Shard:
    arrays = map_arrays(path)
    expected = {"tokens", "sentence_offsets", "document_offsets", "word_starts"}
    if arrays.keys() != expected or any(array.ndim != 1 for array in arrays.values()):
        raise BertctlError(f"{path}: got arrays {sorted(arrays)}, expected the flat arrays {sorted(expected)}")
    tokens, sentences, documents, words = (
        arrays[name] for name in ("tokens", "sentence_offsets", "document_offsets", "word_starts")
    )
    consistent = (
        tokens.dtype == (np.uint16 if vocab_size <= LARGEST_UINT16_VOCABULARY else np.uint32)
        and _vocab_size(path) == vocab_size
        and len(words) == (len(tokens) + 7) // 8
        and words.dtype == np.uint8
        and _are_offsets(sentences, len(tokens))
        and _are_offsets(documents, len(sentences) - 1)
    )
    if not consistent:
        raise BertctlError(
            f"{path}: its arrays contradict each other, expected a shard as `bertctl tokenize` writes it"
        )
    return Shard(path, tokens, sentences, documents, words)


def _are_offsets(offsets: NDArray[Any], end: int) -> bool:
    return bool(
        offsets.dtype == np.int64
        and len(offsets) > 0
        and offsets[0] == 0
        and offsets[-1] == end
        and (np.diff(offsets) > 0).all()
    )
