"""Answers and choices that can be learnt from single words: data with defects in, a model with its threshold out."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.predict import predict
from bertctl.evaluate.run import run as evaluate
from bertctl.finetune.run import run
from bertctl.recipe.load import build_recipe

FILLER = ("the", "a", "was", "and", "it", "we", "very")
NAMES = ("Ann", "Bob", "Eve", "Ann Bob", "Eve Ann")
GOOD, BAD = ("fine", "great", "lovely"), ("dull", "awful", "poor")


def paragraph(generator: np.random.Generator, number: int) -> dict:
    """Filler with a name in it, which is the answer, or in every third paragraph without one."""
    words = list(generator.choice(FILLER, generator.integers(3, 40)))
    answers, place = [], int(generator.integers(0, len(words)))
    if number % 3:
        name = str(generator.choice(NAMES))
        answers = [{"text": name, "answer_start": len(" ".join([*words[:place], ""]))}]
        words.insert(place, name)
    asked = {"id": f"q{number}", "question": "we saw", "answers": answers, "is_impossible": not answers}
    return {"context": " ".join(words), "qas": [asked]}


@pytest.fixture(scope="module")
def questions(tmp_path_factory) -> Path:
    """SQuAD 2.0 files; three answers of train are moved by one place."""
    folder = tmp_path_factory.mktemp("questions")
    for split, count, seed in (("train", 240, 0), ("dev", 60, 1), ("test", 60, 2)):
        generator = np.random.default_rng(seed)
        paragraphs = [paragraph(generator, number) for number in range(count)]
        if split == "train":
            for number in (1, 2, 4):
                paragraphs[number]["qas"][0]["answers"][0]["answer_start"] += 1
        document = {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}
        (folder / f"{split}-v2.0.json").write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="module")
def choices(tmp_path_factory) -> Path:
    """The columns of SWAG, with two to four endings, of which one is good."""
    folder = tmp_path_factory.mktemp("choices")
    for split, count, seed in (("train", 160, 0), ("dev", 40, 1), ("test", 40, 2)):
        generator = np.random.default_rng(seed)
        rows = []
        for _ in range(count):
            number = int(generator.integers(2, 5))
            endings = [f"{generator.choice(BAD)} song" for _ in range(number)]
            right = int(generator.integers(0, number))
            endings[right] = f"{generator.choice(GOOD)} song"
            rows.append({"context": " ".join(generator.choice(FILLER, 5)), "choices": endings, "label": right})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_answers_are_learnt_and_the_threshold_travels_with_the_model(make_section, questions, tmp_path, capsys):
    section = make_section(steps=120, task="qa", data={"path": str(questions)}, training={"evaluate_every_steps": 60})
    result = run(section, out=tmp_path / "out", seed=1)
    assert result["metrics"]["f1"]["value"] > 0.9
    assert result["majority_baseline"]["value"] == pytest.approx(1 / 3)
    assert result["data"]["misfits"] == {"train": 3}
    said = capsys.readouterr().err
    assert all(f"train-v2.0.json: question q{number}: got the answer" in said for number in (1, 2, 4))
    official = json.loads((tmp_path / "out" / "runs" / "pretrained-seed1" / "squad-predictions.json").read_text())
    assert len(official) == 60
    config = json.loads((tmp_path / "out" / "model" / "config.json").read_text())
    threshold = config["bertctl"]["settings"]["null_threshold"]
    values = {"model": str(tmp_path / "out"), "data": {"path": str(questions)}}
    again = evaluate(build_recipe(values, EvaluateSection), out=tmp_path / "again", seed=1)
    assert again["metrics"]["f1"] == result["metrics"]["f1"]  # the same threshold, the same answers
    rows = [json.loads(line) for line in (tmp_path / "again" / "predictions.jsonl").read_text().splitlines()]
    assert all((row["answer"] == "") == (row["null_difference"] > threshold) for row in rows)
    lines = [json.dumps({"question": "we saw", "context": text}) for text in ("it was Eve Ann and we", "it was very")]
    assert [row["answer"] for row in predict(tmp_path / "out", lines)] == ["Eve Ann", ""]
    with pytest.raises(BertctlError, match=r"<stdin>:1: got text, expected objects with a question and its context"):
        list(predict(tmp_path / "out", ["it was Eve"]))


def test_choices_are_learnt(make_section, choices, tmp_path):
    section = make_section(steps=60, task="multiple_choice", data={"path": str(choices)})
    result = run(section, out=tmp_path / "out", seed=1)
    assert result["metrics"]["accuracy"]["value"] > 0.9
    assert result["majority_baseline"]["value"] < 0.6
    assert result["chance_accuracy"] == pytest.approx(0.36, abs=0.05)
    line = json.dumps({"context": "it was", "choices": ["dull song", "awful song", "great song", "poor song"]})
    (row,) = predict(tmp_path / "out", [line])
    assert (row["choice"], row["text"]) == (2, "great song")
    assert sum(row["probabilities"]) == pytest.approx(1.0)


def test_an_overlap_as_long_as_the_window_ends_the_run_before_it_starts(make_section, questions, tmp_path):
    section = make_section(task="qa", data={"path": str(questions), "overlap_tokens": 35}, max_length=40)
    with pytest.raises(BertctlError, match=r"got an overlap of 35, but it must be < 35"):
        run(section, out=tmp_path / "out", seed=1)
    assert not (tmp_path / "out").exists()
