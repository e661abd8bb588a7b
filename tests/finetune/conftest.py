"""Labels that can be learnt from single words, and a small encoder with random weights to learn them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.finetune.config import FinetuneSection
from bertctl.heads.model import Model
from bertctl.recipe.load import build_recipe
from bertctl.text.train_wordpiece import train_wordpiece
from bertctl.variants.hf import save_model
from tests.toys import BAD, FILLER, GOOD

NOUNS = ("film", "book", "song", "meal", "walk")
NAMES, PLACES = ("Ann", "Bob", "Eve"), ("Rome", "Oslo", "Lima")


def sentence(generator: np.random.Generator, word: str) -> str:
    """Filler words around one word that matters; 4 to 13 words."""
    words = list(generator.choice(FILLER, generator.integers(2, 12)))
    words.insert(int(generator.integers(0, len(words))), f"{word} {generator.choice(NOUNS)}")
    return " ".join(words)


def classified(count: int, seed: int) -> str:
    """TSV with labels neg and pos, 60% pos."""
    generator = np.random.default_rng(seed)
    rows = ["text\tlabel"]
    for _ in range(count):
        label, words = ("pos", GOOD) if generator.random() < 0.6 else ("neg", BAD)
        rows.append(f"{sentence(generator, str(generator.choice(words)))}\t{label}")
    return "\n".join(rows) + "\n"


def tagged(count: int, seed: int) -> str:
    """CoNLL: persons of one or two words, places of one."""
    generator = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        rows = [f"{word} O" for word in generator.choice(FILLER, generator.integers(3, 12))]
        place = int(generator.integers(0, len(rows)))
        if generator.random() < 0.5:
            rows[place:place] = [f"{generator.choice(NAMES)} B-PER", f"{generator.choice(NAMES)} I-PER"]
        else:
            rows[place:place] = [f"{generator.choice(PLACES)} B-LOC"]
        sentences.append("\n".join(rows))
    return "\n\n".join(sentences) + "\n"


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for split, count, seed in (("train", 320, 0), ("dev", 60, 1), ("test", 60, 2)):
        (folder / f"{split}.tsv").write_text(classified(count, seed))
    return folder


@pytest.fixture(scope="session")
def sentences(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sentences")
    for split, count, seed in (("train", 160, 0), ("dev", 40, 1), ("test", 40, 2)):
        (folder / f"{split}.conll").write_text(tagged(count, seed))
    return folder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> Path:
    """A checkpoint of 2 layers x 32 with a masked-LM head."""
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = train_wordpiece(
        [" ".join(GOOD + BAD + NOUNS + FILLER + NAMES + PLACES)] * 3,
        vocab_size=200,
        lowercase=False,
        strip_accents=False,
        min_frequency=1,
    )
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=40,
    )
    torch.manual_seed(0)
    save_model(folder, Model(config, {"masked_lm": 0}), tokenizer)
    return folder


@pytest.fixture(scope="session")
def make_section(encoder, texts):
    """`FinetuneSection` for the toy classification, with any key replaced."""

    def make(steps: int = 40, training: dict | None = None, **more) -> FinetuneSection:
        settings = {"steps": steps, "batch_size": 16, "optimizer": {"lr": 3e-3}, "precision": "float32"}
        tree = {"task": "classification", "model": str(encoder), "data": {"path": str(texts)}, "dropout": 0.0}
        return build_recipe({**tree, **more, "training": settings | (training or {})}, FinetuneSection)

    return make
