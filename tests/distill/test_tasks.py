"""Every task is distilled: the student comes nearer to its teacher, and is a checkpoint of the task."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bertctl.distill.config import DistillSection
from bertctl.distill.run import run
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.run import run as evaluate
from bertctl.heads.model import Model
from bertctl.recipe.load import build_recipe
from bertctl.text.train_wordpiece import train_wordpiece
from bertctl.variants.hf import load_model, save_model

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "the", "cat", "sat", "on", "mat", "saw"]


def text(n, size=6):
    return " ".join(np.random.default_rng(n).choice(WORDS, size))


def rows(task, count):
    """JSONL of a task."""
    for n in range(count):
        yield {
            "multi_label": lambda n: {"text": text(n), "labels": ["a", "b", "c"][: n % 4]},
            "regression": lambda n: {"text": text(n), "text_pair": text(n + 1), "score": n % 7},
            "qa": lambda n: {
                "id": str(n),
                "question": text(n, 2),
                "context": text(n + 1, 9),
                "answers": [{"text": text(n + 1, 9).split()[0], "answer_start": 0}],
            },
            "multiple_choice": lambda n: {
                "context": text(n),
                "choices": [text(m) for m in range(2 + n % 2)],
                "label": n % 2,
            },
            "embedding": lambda n: {"sentence1": text(n), "sentence2": text(n + 1), "score": n % 5},
        }[task](n)


# task -> head, its outputs, labels
HEADS = {
    "multi_label": ("sequence", 3, ["a", "b", "c"]),
    "regression": ("sequence", 1, None),
    "qa": ("span", 2, None),
    "multiple_choice": ("choice", 1, None),
    "embedding": ("embedding", 0, None),
}


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """(task, more keys) -> (section, teacher's folder)."""
    tokenizer = train_wordpiece([" ".join(WORDS)], vocab_size=90, lowercase=True, strip_accents=True, min_frequency=1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 40, "initializer_range": 0.3}

    def make(task, **more):
        head, outputs, labels = HEADS[task]
        folder = tmp_path_factory.mktemp(task)
        torch.manual_seed(0)
        kind = {"multi_label": "multi_label_classification", "regression": "regression"}.get(task)
        (folder / "teacher").mkdir()
        model = Model(EncoderConfig(**sizes), {head: outputs})
        save_model(
            folder / "teacher",
            model,
            tokenizer,
            labels=labels,
            problem_type=kind,
            extra={"task": task, "max_length": 40},
        )
        for name, count in (("train", 32), ("dev", 8)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(task, count)))
        settings = {"steps": 16, "batch_size": 16, "optimizer": {"lr": 1e-2}, "precision": "float32"}
        tree = {"task": task, "teacher": str(folder / "teacher"), "data": {"path": str(folder)}, "training": settings}
        return build_recipe({**tree, **more}, DistillSection), folder

    return make


def losses(out):
    lines = [json.loads(line) for line in (out / "runs" / "student" / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.parametrize("task", list(HEADS))
def test_a_student_learns_what_its_teacher_says(make, task):
    section, folder = make(task, weights={"soft_targets": 1, "hard_labels": 0})
    section = section.model_copy(update={"training": section.training.model_copy(update={"log_every_steps": 1})})
    out = folder / "out"
    result = run(section, out=out, seed=1)
    found = losses(out)
    assert np.mean(found[-3:]) < 0.7 * np.mean(found[:2]), found
    assert result["student"] is not None
    head, outputs, labels = HEADS[task]
    student = load_model(out / "model")
    assert student.model.head_outputs == {head: outputs}
    assert student.labels == labels or labels is None
    assert student.extra["task"] == task
    scored = evaluate(
        build_recipe({"model": str(out / "model"), "data": {"path": str(folder / "dev.jsonl")}}, EvaluateSection),
        out=folder / "scored",
        seed=0,
    )
    assert scored["metrics"][result["metric"]]["value"] == pytest.approx(result["student"]["value"], abs=1e-5)


def test_a_narrower_student_gives_vectors_as_wide_as_the_teachers(make):
    section, folder = make("embedding", student={"hidden_size": 8})
    result = run(section, out=folder / "out", seed=1)
    assert load_model(folder / "out" / "model").model.outputs("embedding") == 16
    assert list(result["weights"]) == ["soft_targets"]


def test_with_labels_both_losses_are_minimised(make):
    section, folder = make("qa")
    assert list(run(section, out=folder / "out", seed=1)["weights"]) == ["soft_targets", "hard_labels"]


def test_a_teacher_of_another_task_is_refused(make):
    _, folder = make("regression")
    other, _ = make("multi_label", teacher=str(folder / "teacher"))
    with pytest.raises(BertctlError, match="was fine-tuned for regression, expected a teacher of multi_label"):
        run(other, out=Path(folder / "a"), seed=0)
    _, folder = make("multi_label")
    other, _ = make("regression", teacher=str(folder / "teacher"))
    with pytest.raises(BertctlError, match="was fine-tuned for multi_label, expected a teacher of regression"):
        run(other, out=Path(folder / "b"), seed=0)
