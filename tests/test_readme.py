"""Every command of the README, in order, on small files: only sizes and steps are made smaller."""

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
FEW = "training.steps=4 training.batch_size=8 training.precision=float32"
SMALLER = {
    "tokenize": "tokenize.vocab_size=120",
    "build-pairs": "build_pairs.held_out_fraction=0.2",
    "pretrain": "pretrain.encoder.hidden_size=32 pretrain.encoder.intermediate_size=64 "
    + " ".join(f"pretrain.{change}" for change in FEW.split()),
    "finetune": " ".join(f"finetune.*.{change}" for change in FEW.split()),
    "distill": " ".join(f"distill.*.{change}" for change in FEW.split()),
    "probe": "probe.*.iterations=5",
}
WORDS = ("the", "cat", "sat", "on", "mat", "dog", "ran", "home", "Ann", "Bob")


def commands() -> list[str]:
    """The lines of the block that begins with `pip install`, without comments and without `pip` itself."""
    block = README.split("## Use it on your own text")[1].split("```")[1]
    lines = [line.split("  #")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("pip ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """text/, conll/ and en_ewt/ as a reader of the README would have them."""
    made, draw = tmp_path_factory.mktemp("readme"), random.Random(0)
    for name in ("text", "conll", "en_ewt"):
        (made / name).mkdir()
    for number in range(2):
        documents = ["\n".join(" ".join(draw.choices(WORDS, k=6)) + "." for _ in range(4)) for _ in range(20)]
        (made / "text" / f"{number}.txt").write_text("\n\n".join(documents) + "\n")
    for split, count in (("train", 30), ("dev", 10), ("test", 10)):
        sentences = [draw.choices(WORDS, k=5) for _ in range(count)]
        tagged = ["\n".join(f"{w} {'B-PER' if w[0].isupper() else 'O'}" for w in s) for s in sentences]
        (made / "conll" / f"{split}.conll").write_text("\n\n".join(tagged) + "\n")
        rows = [
            "\n".join(f"{i}\t{w}\t{w}\t{'PROPN' if w[0].isupper() else 'NOUN'}" + "\t_" * 6 for i, w in enumerate(s, 1))
            for s in sentences
        ]
        (made / "en_ewt" / f"en_ewt-ud-{split}.conllu").write_text("\n\n".join(rows) + "\n\n")
    return made


def smaller(line: str) -> str:
    """The command with what makes it take seconds."""
    name = next((name for name in SMALLER if line.startswith(f"bertctl {name}")), None)
    changes = SMALLER[name].split() if name else []
    return " ".join([line, *(f"--set {shlex.quote(change)}" for change in changes)])


def test_every_command_of_the_readme_works(folder):
    (folder / "bertctl").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bertctl "$@"\n')
    (folder / "bertctl").chmod(0o755)
    root = str(Path(__file__).parents[1])
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    lines, outputs = commands(), {}
    for line in lines:
        done = subprocess.run(
            ["/bin/sh", "-c", smaller(line)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
        outputs[line] = done.stdout
    assert {line.split()[1] for line in lines if line.startswith("bertctl")} == {
        "tokenize",
        "build-pairs",
        "recipes",
        "pretrain",
        "finetune",
        "distill",
        "evaluate",
        "probe",
    }
    evaluated = next(json.loads(output) for line, output in outputs.items() if line.startswith("bertctl evaluate"))
    assert 0 <= evaluated["metrics"]["token_accuracy"]["value"] <= 1
    predicted = json.loads(next(output for line, output in outputs.items() if line.startswith("echo")))
    assert len(json.dumps(predicted)) > 20
    assert "probability" in json.dumps(predicted)
