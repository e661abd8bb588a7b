"""Numbers for texts: what is read as one, what is refused, and what is predicted."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bertctl.errors import BertctlError
from bertctl.tasks import regression
from bertctl.tasks.audit import audit
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Features, Limits, TextExample
from bertctl.text.tokenizer import Tokenizer

TASK = TASKS["regression"]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"], True, True)


def read(path: Path, content: str, **data: object) -> tuple[list[TextExample], list[str]]:
    path.write_text(content, newline="")
    problems: list[str] = []
    return regression.read_file(path, DataSection(**data), True, problems), problems


@pytest.mark.parametrize(
    ("name", "content", "data", "expected"),
    [
        ("t.csv", "text,score\na,1\nb,-2.5e0\nc, .5 \n", {}, [1.0, -2.5, 0.5]),
        ("t.tsv", "text\tlabel\na\t3\nb\t+4.\n", {}, [3.0, 4.0]),
        (
            "t.jsonl",
            '{"text": "a", "score": 3}\n{"text": "b", "score": 0.25}\n{"text": "c", "score": "7"}\n',
            {},
            [3, 0.25, 7],
        ),
        ("t.csv", "a,9\nb,8\n", {"columns": ColumnsSection(text=1, label=2)}, [9.0, 8.0]),
    ],
)
def test_numbers_in_every_form(tmp_path: Path, name: str, content: str, data: dict, expected: list[float]) -> None:
    examples, problems = read(tmp_path / name, content, **data)
    assert problems == []
    assert [example.label for example in examples] == expected
    assert {type(example.label) for example in examples} == {float}


def test_numbers_from_parquet(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": ["a", "b", "c"], "score": [1.5, float("nan"), None]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    problems: list[str] = []
    examples = regression.read_file(tmp_path / "t.parquet", DataSection(), True, problems)
    assert examples[0].label == 1.5
    assert [problem.split("t.parquet")[1].split(" in")[0] for problem in problems] == [":2: got nan", ":3: got null"]


@pytest.mark.parametrize("cell", ["", "nan", "NaN", "inf", "-Infinity", "1e999", "four", "1_000", "1,5", "0x10", "1 2"])
def test_text_that_is_no_finite_number_is_refused_with_its_line(tmp_path: Path, cell: str) -> None:
    _, problems = read(tmp_path / "t.tsv", f"text\tscore\na\t1\nb\t{cell}\n")
    assert [problem.split("t.tsv")[1] for problem in problems] == [
        f":3: got {cell!r} in the column 'score', expected a finite number"
    ]


@pytest.mark.parametrize(
    ("cell", "kind"), [("null", "null"), ("true", "true or false"), ("[1]", "a list"), ("1e999", "inf")]
)
def test_json_that_is_no_finite_number_is_refused(tmp_path: Path, cell: str, kind: str) -> None:
    _, problems = read(tmp_path / "t.jsonl", f'{{"text": "a", "score": {cell}}}\n')
    assert [problem.split("t.jsonl")[1].split(" in ")[0] for problem in problems] == [f":1: got {kind}"]


def test_targets_that_are_all_the_same_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,score\na,3\nb,3.0\n")
    with pytest.raises(BertctlError, match=r"train.csv:2: got the number 3 in all 2 training examples"):
        training_data(TASK, DataSection(path=tmp_path), seed=0)


def test_numbers_of_dev_need_not_occur_in_train_and_dev_can_be_held_out(tmp_path: Path) -> None:
    rows = "".join(f"text {n},{n * 0.37}\n" for n in range(40))
    (tmp_path / "train.csv").write_text("text,score\n" + rows)
    splits = training_data(TASK, DataSection(path=tmp_path), seed=0)
    assert (len(splits.train), len(splits.dev)) == (36, 4)
    assert "labels" not in audit(TASK, splits)["splits"]["train"]


def test_the_mean_is_what_a_new_head_and_the_baseline_say() -> None:
    train = [TextExample("t", None, number, "") for number in (1.0, 2.0, 6.0)]
    assert regression.first_answer(train) == 3.0
    what, rows = regression.majority(train, train, [])
    assert (what, rows) == ("3", [{"value": 3.0}] * 3)
    scores = regression.score(train, rows, [])
    assert scores["pearson"].point() is None
    assert scores["mse"].point() == pytest.approx((4 + 1 + 9) / 3)


def test_predictions_are_the_outputs_and_score_as_scipy_has_it() -> None:
    generator = np.random.default_rng(1)
    examples = [TextExample("t", None, float(number), "") for number in generator.normal(size=30)]
    features = [Features([], [], None, place, 1) for place in range(30)]
    logits = [np.array([example.label + generator.normal()], np.float32) for example in examples]
    rows = regression.predictions(examples, features, logits, [], {})
    assert [row["value"] for row in rows] == [float(values[0]) for values in logits]
    gold, said = [e.label for e in examples], [row["value"] for row in rows]
    scores = regression.score(examples, rows, [])
    assert scores["pearson"].point() == pytest.approx(stats.pearsonr(gold, said)[0], abs=1e-9)
    assert scores["spearman"].point() == pytest.approx(stats.spearmanr(gold, said)[0], abs=1e-9)
    numbers = regression.details(examples, rows, [])["numbers"]
    assert numbers["gold"]["largest"] == max(gold)
    assert json.loads(json.dumps(numbers)) == numbers


def test_features_carry_the_number() -> None:
    examples = [TextExample("a", "b", 2.5, ""), TextExample("a", None, None, "")]
    assert [f.labels for f in regression.encode(examples, TOKENIZER, [], Limits(8))] == [2.5, None]
