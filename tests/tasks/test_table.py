"""Every task of the table keeps the promises of `Task`: one conformance test over all of them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bertctl.heads.table import HEADS
from bertctl.images.processor import ImageProcessor
from bertctl.tasks.audit import audit
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Features, Limits, Task
from bertctl.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"], True, True)
TEXTS = "text,label\na b,x\nb,y\nc a,x\nb c,y\n"
TAGS = "a\tB-X\nb\tI-X\n\nc\tO\nb\tB-Y\na\tO\n"
SETS = '{"text": "a b", "labels": ["x"]}\n{"text": "b", "labels": ["y", "x"]}\n{"text": "c", "labels": []}\n'
ASKED = """\
{"question": "a", "context": "a b", "answers": [{"text": "b", "answer_start": 2}]}
{"question": "b", "context": "a b c a b c", "answers": [{"text": "c", "answer_start": 4}]}
{"question": "c", "context": "b", "answers": []}
"""
FILES = {
    "classification": ("csv", TEXTS),
    "multi_label": ("jsonl", SETS),
    "regression": ("csv", "text,score\na b,1.5\nb,-2\nc a,3\n"),
    "ner": ("conll", TAGS),
    "pos": ("conll", TAGS.replace("-", "")),
    "qa": ("jsonl", ASKED),
    "embedding": ("csv", "sentence1,sentence2,score\na b,b,2.5\nb,c,1\nc a,a,4\n"),
    "image_classification": ("csv", "file,label\na.png,x\nb.png,y\nc.png,x\nd.png,y\n"),
    "multiple_choice": ("csv", "sent1,sent2,ending0,ending1,label\na,b,c,a,0\nb,,a,c,1\nc,a,b,c,1\n"),
}
INPUTS = {
    "image_classification": ["a.png", " b.png", "c.png\n"],
    "qa": [{"question": question, "context": context} for question, context in (("a", "b c"), ("", ""), ("b", "c"))],
    "multiple_choice": [{"context": context, "choices": ["a", "b"]} for context in ("a b c", "", "b")],
}
SAID = {
    "multi_label": "labels",
    "regression": "value",
    "ner": "tags",
    "pos": "tags",
    "qa": "answer",
    "multiple_choice": "choice",
    "embedding": "cosine",
}


def preprocessor(task: Task) -> Tokenizer | ImageProcessor:
    return ImageProcessor(4, 4, (0.5,), (0.5,)) if task.images else TOKENIZER


def write_data(name: str, folder: Path) -> None:
    """Train and dev of a task, which are equal."""
    ending, text = FILES[name]
    for split in ("train", "dev"):
        (folder / f"{split}.{ending}").write_text(text)
    for number, letter in enumerate("abcd"):
        Image.new("L", (4, 4), 40 * number).save(folder / f"{letter}.png")


def shape(task: Task, feature: Features, labels: list[str]) -> tuple[int, ...]:
    """Of a feature's logits."""
    outputs = task.outputs(labels) or 5
    return (len(feature.input_ids), outputs) if HEADS[task.head].reads == "tokens" else (outputs,)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_from_file_to_scores(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    write_data(name, tmp_path)
    splits = training_data(task, DataSection(path=tmp_path), seed=1)
    labels = task.labels(splits.train)
    features = task.encode(splits.dev, preprocessor(task), labels, Limits(16, 4))
    logits = [np.random.default_rng(0).normal(size=shape(task, feature, labels)) for feature in features]
    predicted = task.predictions(splits.dev, features, logits, labels, task.tune(splits.dev, features, logits, labels))
    assert len(predicted) == len(splits.dev)
    json.dumps(predicted, allow_nan=False)
    scores = task.score(splits.dev, predicted, labels)
    assert task.metric in scores
    assert all(metric.name == key for key, metric in scores.items())
    json.dumps([scores[task.metric].summary(samples=50), task.details(splits.dev, predicted, labels)], allow_nan=False)
    json.dumps(audit(task, splits), allow_nan=False)


@pytest.mark.parametrize("name", TASKS)
def test_examples_without_labels_are_encoded_and_predicted(name: str) -> None:
    task = TASKS[name]
    labels = ["O", "B-X", "I-X"]
    inputs = INPUTS.get(name, ["a b c", "", "b"])
    examples = [task.input(line, DataSection(), f"stdin:{i}") for i, line in enumerate(inputs, 1)]
    features = task.encode(examples, preprocessor(task), labels, Limits(16, 4))
    assert all(feature.labels is None for feature in features)
    zeros = [np.zeros(shape(task, feature, labels)) for feature in features]
    predicted = task.predictions(examples, features, zeros, labels, {})
    assert len(predicted) == 3
    assert all(task.gold(example) == [] for example in examples)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_that_says_everything_right_scores_one(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    write_data(name, tmp_path)
    splits = training_data(task, DataSection(path=tmp_path), seed=1)
    labels = task.labels(splits.train)
    key = SAID.get(name, "label")
    truth = [task.truth(example) for example in splits.dev]
    if name == "qa":  # any one of the gold answers, or nothing
        truth = [answers[0] if answers else "" for answers in truth]
    predicted = [{key: said} for said in truth]
    assert task.score(splits.dev, predicted, labels)[task.metric].point() == 1.0


def test_reading_data_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TEXTS)
    code = (
        "import sys; from bertctl.tasks.table import TASKS; from bertctl.tasks.config import DataSection\n"
        "from bertctl.tasks.splits import training_data\n"
        f"training_data(TASKS['classification'], DataSection(train={str(tmp_path / 't.csv')!r}), seed=0)\n"
        "sys.exit(sorted({'torch', 'datasets', 'pyarrow'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
