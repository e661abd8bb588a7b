"""Folders of format version 1, kept as they were written, load. Never write these files anew."""

from pathlib import Path

import pytest
import torch

from bertctl.artifacts.checkpoint import latest_checkpoint, read_weights
from bertctl.artifacts.manifest import read_manifest, tree_hash
from bertctl.artifacts.shards import TokenShards

KEPT = Path(__file__).parent / "format_v1"


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("tokens", "cea6caf74ba2d98d7cba432e0654e57f24b15afb8888c52879cf86dc174943ef"),
        ("step-3", "821ff74d46113666176297770623d7c2fc3eb812d50e864fc66fac326b39d5ad"),
    ],
)
def test_identity(name: str, tree: str) -> None:
    assert read_manifest(KEPT / name).format_version == 1
    assert tree_hash(KEPT / name) == tree


def test_token_shards() -> None:
    shards = TokenShards(KEPT / "tokens")
    assert (shards.vocab_size, shards.num_documents, shards.num_sentences, shards.num_tokens) == (30, 2, 3, 6)
    first, second = shards.shards
    assert first.tokens.tolist() == [5, 6, 7, 8]
    assert first.words(0, 4).tolist() == [True, False, True, True]
    assert first.sentence_offsets.tolist() == [0, 3, 4]
    assert first.document_offsets.tolist() == [0, 2]
    assert second.tokens.tolist() == [9, 29]


def test_checkpoint() -> None:
    assert latest_checkpoint(KEPT) == KEPT / "step-3"
    weights = read_weights(KEPT / "step-3")
    assert torch.equal(weights["linear.weight"], torch.arange(6).reshape(3, 2) / 8)
    assert weights["linear.bias"].tolist() == [1, -1, 0.5]
