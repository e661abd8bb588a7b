"""Any number of labels for a text: the forms they are written in, what is refused, and what is predicted."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.metrics import f1_score

from bertctl.errors import BertctlError
from bertctl.tasks import multi_label
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Features, Limits, TextExample
from bertctl.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"], True, True)


def read(path: Path, content: str, **data: object) -> tuple[list, list[str]]:
    path.write_text(content)
    problems: list[str] = []
    examples = multi_label.read_file(path, DataSection(**data), True, problems)
    return [example.label for example in examples], problems


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("name", "content", "data"),
    [
        ("t.csv", 'text,labels\nt,"joy,fear"\nt,\nt,joy\n', {"label_separator": ","}),
        ("t.tsv", "text\tlabels\nt\tfear | joy\nt\t\nt\tjoy\n", {"label_separator": "|"}),
        ("t.csv", "text,fear,joy\nt,1,1\nt,0,0\nt,0,1\n", {"columns": ColumnsSection(labels=("fear", "joy"))}),
        (
            "t.tsv",
            "t\t1\t1\nt\t0\t0\nt\t0\t1\n",
            {"columns": ColumnsSection(text=1, labels=(2, 3)), "label_names": ("fear", "joy")},
        ),
        ("t.jsonl", lines(*({"text": "t", "labels": row} for row in (["joy", "fear"], [], ["joy"]))), {}),
        (
            "t.jsonl",
            lines(*({"text": "t", "labels": row} for row in ([1, 0], [], [1]))),
            {"label_names": ("fear", "joy")},
        ),
        (
            "t.jsonl",
            lines(
                {"text": "t", "fear": 1, "joy": 1.0},
                {"text": "t", "fear": False, "joy": 0},
                {"text": "t", "fear": 0, "joy": True},
            ),
            {"columns": ColumnsSection(labels=("fear", "joy"))},
        ),
    ],
)
def test_the_same_labels_in_every_form(tmp_path: Path, name: str, content: str, data: dict) -> None:
    assert read(tmp_path / name, content, **data) == ([("fear", "joy"), (), ("joy",)], [])


@pytest.mark.parametrize(
    ("name", "content", "data", "problem"),
    [
        ("t.csv", "text,labels\nt,joy\n", {}, "t.csv:2: got text.*`data.label_separator`"),
        ("t.csv", 'text,labels\nt,"a,,b"\n', {"label_separator": ","}, "t.csv:2: got an empty cell"),
        ("t.csv", 'text,labels\nt,"a,b,a"\n', {"label_separator": ","}, "t.csv:2: got the label 'a' 2 times"),
        ("t.jsonl", lines({"text": "t", "labels": None}), {}, "t.jsonl:1: got null.*expected a list of labels$"),
        ("t.jsonl", lines({"text": "t", "labels": ["a", None]}), {}, "t.jsonl:1: got null"),
        ("t.jsonl", lines({"text": "t", "labels": ["a", 1]}), {}, "t.jsonl:1: got an integer.*mixed types"),
        ("t.csv", "text,a,b\nt,1,2\n", {"columns": ColumnsSection(labels=("a", "b"))}, "got '2' in the column 'b'"),
        ("t.csv", "text,a,b\nt,1,\n", {"columns": ColumnsSection(labels=("a", "b"))}, "got '' in the column 'b'"),
        ("t.csv", "text,a\nt,1\n", {"columns": ColumnsSection(labels=("a", "c"))}, "expected the column 'c'"),
        (
            "t.csv",
            "text,a,b\nt,1,0\n",
            {"columns": ColumnsSection(labels=("a", "b")), "label_names": ("x",)},
            "label_names: got 1 names, expected one for each of 2",
        ),
    ],
)
def test_what_is_refused_with_its_line(tmp_path: Path, name: str, content: str, data: dict, problem: str) -> None:
    _, problems = read(tmp_path / name, content, **data)
    assert len(problems) == 1
    assert re.search(problem, problems[0])


def test_lists_from_parquet_and_named_classes_of_a_hub_data_set(tmp_path: Path) -> None:
    import datasets

    features = datasets.Features(
        {"text": datasets.Value("string"), "labels": datasets.Sequence(datasets.ClassLabel(names=["fear", "joy"]))}
    )
    rows = {"text": ["t", "t"], "labels": [[1, 0], []]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "t.parquet"))
    examples = multi_label.read_file(tmp_path / "t.parquet", DataSection(), True, [])
    assert [example.label for example in examples] == [("fear", "joy"), ()]


def test_a_label_that_train_does_not_have_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(lines({"text": "a", "labels": ["x"]}, {"text": "b", "labels": ["y"]}))
    (tmp_path / "dev.jsonl").write_text(lines({"text": "c", "labels": []}, {"text": "d", "labels": ["x", "z"]}))
    with pytest.raises(BertctlError, match=r"dev.jsonl:2: got the label 'z'"):
        training_data(TASKS["multi_label"], DataSection(path=tmp_path), seed=0)


def test_targets_are_a_row_of_ones_and_zeros() -> None:
    examples = [TextExample("a", None, label, "") for label in [("y",), (), None]]
    features = multi_label.encode(examples, TOKENIZER, ["x", "y"], Limits(8))
    assert [feature.labels for feature in features] == [[0.0, 1.0], [0.0, 0.0], None]


def predicted(logits: np.ndarray, settings: dict) -> list[dict]:
    examples = [TextExample("t", None, None, "")] * len(logits)
    features = [Features([], [], None, place, 1) for place in range(len(logits))]
    return multi_label.predictions(examples, features, list(logits), ["x", "y"], settings)


def test_probabilities_are_sigmoids_and_the_threshold_decides() -> None:
    logits = np.array([[0.0, -3.0], [-800.0, 800.0]], dtype=np.float32)
    rows = predicted(logits, {})
    np.testing.assert_allclose([list(row["probabilities"].values()) for row in rows], expit(logits.astype(float)))
    assert [row["labels"] for row in rows] == [["x"], ["y"]]
    assert [row["labels"] for row in predicted(logits, {"threshold": 0.04})] == [["x", "y"], ["y"]]
    assert predicted(logits, {"thresholds": {"x": 0.6, "y": 0.01}})[0]["labels"] == ["y"]


@pytest.mark.parametrize("tune", [multi_label.tune, multi_label.tune_each])
def test_what_is_tuned_is_what_predictions_use(tune) -> None:
    generator = np.random.default_rng(0)
    gold = generator.random((40, 2)) < 0.3
    logits = 2 * gold + generator.normal(size=(40, 2)) - 2.5
    examples = [TextExample("t", None, tuple(np.array(["x", "y"])[row]), "") for row in gold]
    features = [Features([], [], None, place, 1) for place in range(40)]
    settings = json.loads(json.dumps(tune(examples, features, list(logits), ["x", "y"])))
    least = minimize_scalar(lambda t: np.logaddexp(0, np.where(gold, -1, 1) * logits / t).sum(), bounds=(0.1, 10))
    assert settings["temperature"] == pytest.approx(least.x, rel=1e-4)
    rows = multi_label.predictions(examples, features, list(logits), ["x", "y"], settings)
    said = np.array([[name in row["labels"] for name in ("x", "y")] for row in rows])
    scores = multi_label.score(examples, rows, ["x", "y"])
    assert scores["micro_f1"].point() == pytest.approx(f1_score(gold, said, average="micro"))
    assert scores["micro_f1"].point() > f1_score(gold, logits >= 0, average="micro")
    assert [row["support"] for row in multi_label.details(examples, rows, ["x", "y"])["per_class"]] == [
        *gold.sum(axis=0)
    ]


def test_the_majority_says_as_many_labels_as_score_best_on_train() -> None:
    train = [TextExample("t", None, label, "") for label in [("x",), ("x", "y"), ("x", "y"), ("x", "z")]]
    what, rows = multi_label.majority(train, train[:2], ["x", "y", "z"])
    # said of all four: x gives F1 2*4/(4+7) = 0.727, x and y 2*6/(8+7) = 0.8, all three 2*7/(12+7) = 0.737
    assert what == "x, y"
    assert [row["labels"] for row in rows] == [["x", "y"]] * 2
    assert multi_label.majority([], [], []) == ("", [])
