"""Questions from records: every form of answers that `datasets` and others write, and a problem for everything else."""

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.questions import Answer, QuestionExample, finish, gold, input_example, key, truth
from bertctl.tasks.squad import read_file

ROW = {"id": "q1", "question": "Who?", "context": "Ann saw Bob.", "answers": {"text": ["Bob"], "answer_start": [8]}}


def read(path: Path, rows: list[dict], data: DataSection | None = None) -> tuple[list[QuestionExample], list[str]]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems: list[str] = []
    return read_file(path, data or DataSection(), True, problems), problems


def test_both_forms_of_answers_and_none(tmp_path: Path) -> None:
    several = [{"text": "Ann", "answer_start": 0}, {"text": "Bob", "answer_start": 8}]
    rows = [
        ROW,
        {**ROW, "id": 2, "answers": several},
        {**ROW, "id": "3", "answers": {"text": [], "answer_start": []}},
        {**ROW, "id": "4", "answers": [], "is_impossible": True},
    ]
    examples, problems = read(tmp_path / "q.jsonl", rows)
    assert problems == []
    assert [example.id for example in examples] == ["q1", "2", "3", "4"]
    assert [example.answers for example in examples] == [
        (Answer("Bob", 8),),
        (Answer("Ann", 0), Answer("Bob", 8)),
        (),
        (),
    ]
    assert [truth(example) for example in examples] == [["Bob"], ["Ann", "Bob"], [], []]
    assert gold(examples[1]) == [("0:Ann", examples[1].where), ("8:Bob", examples[1].where)]
    assert gold(examples[2]) == [("", f"{tmp_path / 'q.jsonl'}:3")]
    assert key(examples[0]) == ("Who?", "Ann saw Bob.")


def test_parquet_and_other_columns_and_no_ids(tmp_path: Path) -> None:
    table = {"q": ["Who?"], "c": ["Ann saw Bob."], "a": [{"text": ["Bob"], "answer_start": [8]}]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "q.parquet")
    problems: list[str] = []
    data = DataSection(columns=ColumnsSection(text="q", text_pair="c", label="a"))
    (example,) = read_file(tmp_path / "q.parquet", data, True, problems)
    assert problems == []
    assert (example.id, example.question, example.answers) == ("1", "Who?", (Answer("Bob", 8),))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"answers": None}, "got null as answers, expected"),
        ({"answers": "Bob"}, "got text as answers, expected"),
        ({"answers": {"text": ["Bob"], "answer_start": []}}, "got an object as answers, expected"),
        ({"answers": {"text": ["Bob"], "answer_start": ["8"]}}, "got text as answer_start, expected a whole number"),
        ({"answers": {"text": ["Bob"], "answer_start": [True]}}, "got true or false as answer_start"),
        ({"answers": {"text": [""], "answer_start": [0]}}, "got an empty text as an answer, expected text"),
        ({"answers": [{"text": 3, "answer_start": 0}]}, "got a number as an answer, expected text"),
        ({"is_impossible": True}, "got is_impossible true and 1 answers, expected answers exactly if it is false"),
        ({"answers": [], "is_impossible": False}, "got is_impossible false and 0 answers"),
        ({"question": None}, "got null in the column 'question', expected text"),
        ({"context": ["a"]}, "got a list in the column 'context', expected text"),
        ({"id": 1.5}, "got a number as the id of a question, expected text"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, change: dict, said: str) -> None:
    _, problems = read(tmp_path / "q.jsonl", [{**ROW, "id": "q0"}, {**ROW, **change}])
    assert len(problems) == 1
    assert problems[0].startswith(f"{tmp_path / 'q.jsonl'}:2: ")
    assert said in problems[0]


def test_ids_that_come_twice_and_columns_that_are_not_there(tmp_path: Path) -> None:
    _, problems = read(tmp_path / "q.jsonl", [ROW, ROW, {**ROW, "id": "other"}, ROW])
    assert [problem.split(": ")[0].rsplit(":", 1)[1] for problem in problems] == ["2", "4"]
    examples, problems = read(tmp_path / "q.jsonl", [{"question": "Who?", "text": "Ann"}])
    assert examples == []
    assert len(problems) == 2
    assert "expected one of context, passage, paragraph for `text_pair`" in problems[0]
    (tmp_path / "q.csv").write_text("question,context\nWho?,Ann\n")
    read_file(tmp_path / "q.csv", DataSection(), True, problems)
    assert problems[-1] == f"{tmp_path / 'q.csv'}: got csv, expected questions as SQuAD JSON, JSONL or Parquet"


def test_a_data_set_with_a_question_without_answer_is_version_two() -> None:
    one = QuestionExample("1", "Who?", "Ann", (Answer("Ann", 0),), "f:1")
    none = QuestionExample("2", "Who?", "Ann", (), "f:2")
    unknown = QuestionExample("3", "Who?", "Ann", None, "f:3")
    assert finish({"train": [one], "test": [unknown]}, DataSection(), []) == {"train": [one], "test": [unknown]}
    found = finish({"train": [one], "test": [none]}, DataSection(), [])
    assert [example.may_have_none for split in found.values() for example in split] == [True, True]


def test_input_for_predict_is_an_object_with_both_texts() -> None:
    example = input_example({"question": "Who?", "context": "Ann"}, DataSection(), "<stdin>:7")
    assert (example.question, example.context, example.answers, example.where) == ("Who?", "Ann", None, "<stdin>:7")
    assert (example.id, gold(example)) == ("7", [])
    assert input_example({"id": 3, "question": "Who?", "context": "Ann"}, DataSection(), "<stdin>:7").id == "3"
    with pytest.raises(BertctlError, match=r"^<stdin>:7: got text, expected objects with a question and its context"):
        input_example("Who?", DataSection(), "<stdin>:7")
    with pytest.raises(BertctlError, match=r"^<stdin>:7: got an object with 'question'"):
        input_example({"question": "Who?"}, DataSection(), "<stdin>:7")
