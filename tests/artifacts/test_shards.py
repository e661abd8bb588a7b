"""Token shards: what goes in comes out, whatever the shard size; nonsense is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.artifacts.folder import whole_folder
from bertctl.artifacts.shards import TokenShards, TokenShardWriter
from bertctl.artifacts.tensors import map_arrays, save_tensors
from bertctl.errors import BertctlError

Documents = list[list[list[tuple[int, bool]]]]

sentences = st.lists(st.tuples(st.integers(0, 299), st.booleans()), max_size=20)
corpora = st.lists(st.lists(sentences, max_size=4), max_size=8)


def write(folder: Path, documents: Documents, vocab_size: int, tokens_per_shard: int) -> dict[str, int]:
    with whole_folder(folder, kind="tokens", inputs={}, replace=True) as temp:
        writer = TokenShardWriter(temp, vocab_size=vocab_size, tokens_per_shard=tokens_per_shard)
        for document in documents:
            writer.add_document([(np.array([t for t, _ in s]), np.array([w for _, w in s])) for s in document])
        return writer.close()


def read(shards: TokenShards) -> Documents:
    documents = []
    for shard in shards.shards:
        for first, last in zip(shard.document_offsets, shard.document_offsets[1:], strict=False):
            spans = [(int(shard.sentence_offsets[i]), int(shard.sentence_offsets[i + 1])) for i in range(first, last)]
            documents.append(
                [list(zip(shard.tokens[a:b].tolist(), shard.words(a, b).tolist(), strict=True)) for a, b in spans]
            )
    return documents


@settings(max_examples=60, deadline=None)
@given(corpus=corpora, per_shard=st.integers(1, 60))
def test_round_trip(corpus: Documents, per_shard: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "round-trip"
    documents = [[[(s[0][0], True), *s[1:]] for s in document if s] for document in corpus]
    expected = [document for document in documents if document]
    counts = write(folder, documents, 300, per_shard)
    if not expected:
        assert counts == {"documents": 0, "sentences": 0, "tokens": 0, "shards": 0}
        with pytest.raises(BertctlError, match="holds no token shard"):
            TokenShards(folder)
        return
    shards = TokenShards(folder)
    assert read(shards) == expected
    assert counts["documents"] == shards.num_documents == len(expected)
    assert counts["sentences"] == shards.num_sentences == sum(map(len, expected))
    assert counts["tokens"] == shards.num_tokens == sum(len(s) for document in expected for s in document)
    assert counts["shards"] == len(shards.shards)
    assert all(len(shard.tokens) >= per_shard for shard in shards.shards[:-1])


@settings(max_examples=60, deadline=None)
@given(starts=st.lists(st.booleans(), min_size=1, max_size=70), data=st.data())
def test_words_of_any_span(starts: list[bool], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "words"
    starts[0] = True
    write(folder, [[[(1, start) for start in starts]]], 10, 1000)
    first = data.draw(st.integers(0, len(starts)))
    last = data.draw(st.integers(first, len(starts)))
    assert TokenShards(folder).shards[0].words(first, last).tolist() == starts[first:last]


@pytest.mark.parametrize(("vocab_size", "kind"), [(65_536, "uint16"), (65_537, "uint32")])
def test_width_of_tokens(tmp_path: Path, vocab_size: int, kind: str) -> None:
    write(tmp_path / "x", [[[(vocab_size - 1, True)]]], vocab_size, 10)
    shards = TokenShards(tmp_path / "x")
    assert shards.vocab_size == vocab_size
    assert (str(shards.shards[0].tokens.dtype), shards.shards[0].tokens.tolist()) == (kind, [vocab_size - 1])


@pytest.mark.parametrize(
    ("ids", "starts", "message"),
    [
        ([1, 300], [True, True], "from 1 to 300"),
        ([-1], [True], "from -1"),
        ([1, 2], [True], "2 ids and 1"),
        ([1, 2], [False, True], "inside a word"),
    ],
)
def test_writer_refuses(tmp_path: Path, ids: list[int], starts: list[bool], message: str) -> None:
    writer = TokenShardWriter(tmp_path, vocab_size=300, tokens_per_shard=10)
    with pytest.raises(ValueError, match=message):
        writer.add_document([(np.array(ids), np.array(starts))])


def contradictions() -> dict[str, Callable[[dict[str, np.ndarray]], object]]:
    return {
        "sentences end past the tokens": lambda a: a["sentence_offsets"].__setitem__(-1, 99),
        "documents end past the sentences": lambda a: a["document_offsets"].__setitem__(-1, 99),
        "offsets go back": lambda a: a["sentence_offsets"].__setitem__(1, 0),
        "first offset is not 0": lambda a: a["sentence_offsets"].__setitem__(0, 1),
        "tokens of another width": lambda a: a.update(tokens=a["tokens"].astype(np.uint32)),
        "offsets of another type": lambda a: a.update(document_offsets=a["document_offsets"].astype(np.int32)),
        "too few word bits": lambda a: a.update(word_starts=a["word_starts"][:-1]),
        "an array is missing": lambda a: a.pop("word_starts"),
        "tokens in rows": lambda a: a.update(tokens=a["tokens"][None]),
    }


@pytest.mark.parametrize("name", contradictions())
def test_reader_refuses_contradictions(tokens: Path, tmp_path: Path, name: str) -> None:
    arrays = {key: np.array(view) for key, view in map_arrays(tokens / "tokens-00000.safetensors").items()}
    contradictions()[name](arrays)
    with whole_folder(tmp_path / "x", kind="tokens", inputs={}) as temp:
        save_tensors(temp / "tokens-00000.safetensors", arrays, {"vocab_size": "300"})
    with pytest.raises(BertctlError, match=r"tokens-00000\.safetensors: "):
        TokenShards(tmp_path / "x")


@pytest.mark.parametrize("text", ["", "0", "-1", "1e3", "²"])
def test_reader_refuses_a_vocabulary_size_that_is_no_count(tokens: Path, tmp_path: Path, text: str) -> None:
    with whole_folder(tmp_path / "x", kind="tokens", inputs={}) as temp:
        save_tensors(
            temp / "tokens-00000.safetensors", map_arrays(tokens / "tokens-00000.safetensors"), {"vocab_size": text}
        )
    with pytest.raises(BertctlError, match="vocab_size"):
        TokenShards(tmp_path / "x")
