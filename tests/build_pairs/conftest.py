"""Token folders made to measure: documents of numbered tokens, so that a record can be traced to its place."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from bertctl.artifacts.folder import whole_folder
from bertctl.artifacts.shards import KIND, TokenShards, TokenShardWriter
from bertctl.text.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
Documents = Sequence[Sequence[int]]


@pytest.fixture(scope="session")
def make_tokens(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """make_tokens(documents, word=1, per_shard=50): lengths of sentences by document; every `word`-th token of a
    sentence starts a word."""

    def make(documents: Documents, *, word: int = 1, per_shard: int = 50) -> Path:
        folder = tmp_path_factory.mktemp("tokens") / "tokens"
        vocabulary = [*SPECIAL, *(f"w{i}" for i in range(995))]
        with whole_folder(folder, kind=KIND, inputs={}) as temp:
            Tokenizer(vocabulary, lowercase=True, strip_accents=True).save(temp)
            writer = TokenShardWriter(temp, vocab_size=len(vocabulary), tokens_per_shard=per_shard)
            place = 0
            for lengths in documents:
                sentences = []
                for length in lengths:
                    ids = 5 + np.arange(place, place + length) % 995
                    sentences.append((ids, np.arange(length) % word == 0))
                    place += length
                writer.add_document(sentences)
            writer.close()
        return folder

    return make


@pytest.fixture(scope="session")
def real_lengths() -> list[list[int]]:
    """400 documents with sentence lengths as in prose; every fifth has one sentence."""
    random = np.random.default_rng(5)
    counts = np.where(np.arange(400) % 5 == 0, 1, random.integers(2, 30, 400))
    return [random.integers(1, 60, count).tolist() for count in counts]


@pytest.fixture(scope="session")
def real_tokens(make_tokens: Callable[..., Path], real_lengths: list[list[int]]) -> Path:
    return make_tokens(real_lengths, word=3, per_shard=20000)


@pytest.fixture(scope="session")
def real_shards(real_tokens: Path) -> TokenShards:
    return TokenShards(real_tokens)
