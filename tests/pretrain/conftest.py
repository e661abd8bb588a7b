"""A small corpus as tokens and pairs of two lengths."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertctl.build_pairs.config import BuildPairsSection
from bertctl.build_pairs.run import run as build_pairs
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.data import PretrainingData, open_data
from bertctl.recipe.load import build_recipe
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.run import run as tokenize

WORDS = [a + b for a in ("ba", "do", "ki", "lu", "me", "no") for b in ("ra", "si", "tu", "va", "ze")]


@pytest.fixture(scope="session")
def pairs(tmp_path_factory) -> Path:
    """Pairs of 60 documents, in phases `short` (24) and `long` (48), beside their tokens."""
    folder = tmp_path_factory.mktemp("pairs")
    generator = np.random.default_rng(0)
    documents = [
        "\n".join(" ".join(generator.choice(WORDS, generator.integers(3, 12))) for _ in range(generator.integers(1, 9)))
        for _ in range(60)
    ]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    tree = {"corpus": {"files": [str(folder / "corpus.txt")]}, "vocab_size": 60, "sentences": "newline"}
    tokenize(build_recipe(tree, TokenizeSection), out=folder / "tokens", seed=0)
    lengths = [{"name": "short", "sequence_length": 24}, {"name": "long", "sequence_length": 48}]
    tree = {"tokens": str(folder / "tokens"), "phases": lengths, "held_out_fraction": 0.2}
    build_pairs(build_recipe(tree, BuildPairsSection), out=folder / "pairs", seed=0)
    return folder / "pairs"


@pytest.fixture(scope="session")
def section(pairs) -> Callable[..., PretrainSection]:
    """Makes a recipe section over `pairs` with a tiny encoder."""
    encoder = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}

    def make(**fields: Any) -> PretrainSection:
        return build_recipe({"pairs": str(pairs), "encoder": encoder, **fields}, PretrainSection)

    return make


@pytest.fixture(scope="session")
def data(section) -> PretrainingData:
    """The same, opened."""
    return open_data(section())
