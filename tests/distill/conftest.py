"""A small corpus as pairs, a teacher pretrained on it, a second one fine-tuned: what the stage starts from."""

from pathlib import Path

import numpy as np
import pytest

from bertctl.build_pairs.config import BuildPairsSection
from bertctl.build_pairs.run import run as build_pairs
from bertctl.distill.config import DistillSection
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.run import run as finetune
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.run import run as pretrain
from bertctl.recipe.load import build_recipe
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.run import run as tokenize
from tests.toys import BAD, FILLER, GOOD, documents, tagged


def classified(count: int, seed: int) -> str:
    """TSV: filler around a good or a bad word."""
    generator = np.random.default_rng(seed)
    rows = ["text\tlabel"]
    for number in range(count):
        words = list(generator.choice(FILLER, generator.integers(2, 9)))
        words.insert(int(generator.integers(0, len(words))), str(generator.choice((GOOD, BAD)[number % 2])))
        rows.append(f"{' '.join(words)}\t{('pos', 'neg')[number % 2]}")
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="session")
def inputs(tmp_path_factory) -> dict[str, str]:
    """Folders: tokens, pairs, teacher (masked LM and sentence pairs), data of two tasks, a teacher for the first."""
    folder = tmp_path_factory.mktemp("inputs")
    corpus = folder / "corpus.txt"
    corpus.write_text(documents(200, 0, width=8))
    made = {name: folder / name for name in ("tokens", "pairs", "teacher", "texts", "sentences", "classifier")}
    tree = {"corpus": {"files": [str(corpus)]}, "vocab_size": 120, "sentences": "newline"}
    tokenize(build_recipe(tree, TokenizeSection), out=made["tokens"], seed=0)
    tree = {"tokens": str(made["tokens"]), "sequence_length": 24, "held_out_fraction": 0.1}
    build_pairs(build_recipe(tree, BuildPairsSection), out=made["pairs"], seed=0)
    pretrain(build_recipe(teacher_recipe(made), PretrainSection), out=made["teacher"], seed=3)
    for name, ending, make in (("texts", "tsv", classified), ("sentences", "conll", tagged)):
        made[name].mkdir()
        for split, count, seed in (("train", 160, 0), ("dev", 40, 1), ("test", 40, 2)):
            (made[name] / f"{split}.{ending}").write_text(make(count, seed))
    tree = {"task": "classification", "model": str(made["teacher"]), "data": {"path": str(made["texts"])}}
    settings = {"steps": 60, "batch_size": 16, "optimizer": {"lr": 3e-3}, "precision": "float32"}
    finetune(build_recipe({**tree, "training": settings}, FinetuneSection), out=made["classifier"], seed=0)
    return {name: str(path) for name, path in made.items()}


def teacher_recipe(made: dict[str, Path]) -> dict:
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = {**sizes, **dropout, "max_position_embeddings": 32, "norm_place": "pre", "initializer_range": 0.1}
    training = {"steps": 100, "batch_size": 16, "optimizer": {"lr": 4e-3}, "precision": "float32"}
    places = {"pairs": str(made["pairs"]), "tokens": str(made["tokens"])}
    return {**places, "encoder": encoder, "training": training, "held_out_examples": 40}


@pytest.fixture(scope="session")
def on_pairs(inputs):
    """`DistillSection` on the pairs, with any key replaced."""

    def make(training: dict | None = None, **more) -> DistillSection:
        settings = {"steps": 40, "batch_size": 16, "optimizer": {"lr": 3e-3}, "precision": "float32"}
        tree = {name: inputs[name] for name in ("teacher", "pairs", "tokens")}
        tree |= {"held_out_examples": 40, **more}
        return build_recipe({**tree, "training": settings | (training or {})}, DistillSection)

    return make


@pytest.fixture(scope="session")
def for_task(inputs):
    """`DistillSection` for the classification, with any key replaced."""

    def make(training: dict | None = None, **more) -> DistillSection:
        settings = {"steps": 60, "batch_size": 16, "optimizer": {"lr": 3e-3}, "precision": "float32"}
        tree = {"task": "classification", "teacher": inputs["classifier"], "data": {"path": inputs["texts"]}}
        return build_recipe({**tree, **more, "training": settings | (training or {})}, DistillSection)

    return make
