"""A tiny checkpoint with random weights, and labelled sentences."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_wordpiece import train_wordpiece
from bertctl.variants.hf import save_model

TAGS = {
    "cat": "NOUN", "dog": "NOUN", "house": "NOUN", "mat": "NOUN", "extraordinary": "ADJ", "old": "ADJ", "good": "ADJ",
    "sat": "VERB", "ran": "VERB", "saw": "VERB", "the": "DET", "a": "DET",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    text = " ".join(TAGS).replace("extraordinary", "extra ordinary")
    return train_wordpiece([text], vocab_size=90, lowercase=True, strip_accents=True, min_frequency=1)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, tokenizer) -> Path:
    """2 blocks x 32, 4 heads, reads 24 pieces."""
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=24,
        initializer_range=0.3,
    )
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("checkpoint")
    save_model(folder, Model(config, {"masked_lm": 0}), tokenizer)
    return folder


@pytest.fixture(scope="session")
def sentences(tmp_path_factory) -> Path:
    """Folder of train (150), dev (40) and test (40) sentences of 2 to 30 words; each word always has the same tag."""
    folder = tmp_path_factory.mktemp("sentences")
    generator = np.random.default_rng(0)
    for split, count in {"train": 150, "dev": 40, "test": 40}.items():
        lines = []
        for _ in range(count):
            lines += [f"{word}\t{TAGS[word]}" for word in generator.choice(list(TAGS), generator.integers(2, 30))]
            lines.append("")
        (folder / f"{split}.conll").write_text("\n".join(lines) + "\n")
    return folder
