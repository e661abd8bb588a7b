"""Questions with choices from the columns of SWAG, of other tables, and from lists; a problem for everything else."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks.choices import ChoiceExample, gold, input_example, key, read_file, truth
from bertctl.tasks.config import ColumnsSection, DataSection

FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SWAG = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\r\n"
    '0,anet,1,"A man, tall. He",A man is tall.,He,gold,runs.,"sits, then stands.",flies.,None,1\r\n'
)
ROW = {"context": "It rains.", "choices": ["wet", "dry"], "label": 0}


def read(path: Path, content: str, **columns: object) -> tuple[list[ChoiceExample], list[str]]:
    path.write_bytes(content.encode())
    problems: list[str] = []
    return read_file(path, DataSection(columns=ColumnsSection(**columns)), True, problems), problems


def lines(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_the_columns_of_swag(tmp_path: Path) -> None:
    examples, problems = read(tmp_path / "val.csv", SWAG)
    assert problems == []
    endings = ("runs.", "sits, then stands.", "flies.", "None")
    assert examples == [ChoiceExample("A man is tall.", "He", endings, 1, f"{tmp_path / 'val.csv'}:2")]
    assert gold(examples[0]) == [("1", examples[0].where)]
    assert truth(examples[0]) == 1
    assert key(examples[0]) == ("A man is tall.", "He", *endings)


def test_lists_of_any_number_and_labels_as_numbers_or_texts(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "choices": ["a", "b", "c"], "label": "2"}, {**ROW, "label": "dry"}]
    examples, problems = read(tmp_path / "t.jsonl", lines(*rows))
    assert problems == []
    assert [(len(example.choices), example.label) for example in examples] == [(2, 0), (3, 2), (2, 1)]
    questions, problems = read(tmp_path / "t.jsonl", lines({"question": "Why?", "options": ["a", "b"], "answer": 1}))
    assert problems == []
    assert (questions[0].context, questions[0].question, questions[0].label) == ("", "Why?", 1)


def test_numbered_columns_go_by_their_numbers_and_named_ones_as_named(tmp_path: Path) -> None:
    header = "question," + ",".join(f"choice{n}" for n in range(10, -1, -1)) + ",label"
    (example,), problems = read(tmp_path / "t.csv", header + "\nq," + ",".join("kjihgfedcba") + ",3\n")
    assert (problems, "".join(example.choices)) == ([], "abcdefghijk")
    (example,), problems = read(
        tmp_path / "t.tsv", "x\ty\tz\tr\nq\tno\tyes\t1\n", text="x", choices=("z", "y"), label="r"
    )
    assert (problems, example.choices, example.label) == ([], ("yes", "no"), 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"choices": ["wet"]}, "got 1 choices, expected at least 2 texts to choose from"),
        ({"choices": "wet"}, "got text in the column 'choices', expected at least 2"),
        ({"choices": ["wet", 3]}, "got a number in the column 'choices', expected text"),
        ({"label": 2}, "got 2 in the column 'label', expected a number from 0 to 1, or the text of one choice"),
        ({"label": -1}, "got -1 in the column 'label'"),
        ({"label": None}, "got null in the column 'label'"),
        ({"label": True}, "got True in the column 'label'"),
        ({"label": "damp"}, "got 'damp' in the column 'label'"),
        ({"choices": ["wet", "wet"], "label": "wet"}, "got 'wet' in the column 'label'"),
        ({"context": 3}, "got a number in the column 'context', expected text"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, change: dict, said: str) -> None:
    _, problems = read(tmp_path / "t.jsonl", lines(ROW, {**ROW, **change}))
    assert len(problems) == 1
    assert problems[0].startswith(f"{tmp_path / 't.jsonl'}:2: ")
    assert said in problems[0]


def test_columns_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    _, problems = read(tmp_path / "t.jsonl", lines({"a": 1}))
    assert [problem.split(" for ")[1].split(";")[0] for problem in problems] == ["`text`", "`choices`", "`label`"]
    _, problems = read(tmp_path / "t.jsonl", lines(ROW), text="x", choices=("y", "z"))
    assert [problem.split(", expected ")[1].split(" for ")[0] for problem in problems] == [
        "the column 'x'",
        "the column 'y'",
        "the column 'z'",
    ]


def test_input_for_predict() -> None:
    example = input_example({"context": "c", "choices": ["a", "b"]}, DataSection(), "<stdin>:3")
    assert (example.label, example.where, gold(example)) == (None, "<stdin>:3", [])
    with pytest.raises(BertctlError, match=r"^<stdin>:3: got text, expected objects like"):
        input_example("c", DataSection(), "<stdin>:3")


@FUZZ
@given(st.lists(st.tuples(st.text(), st.text(), st.lists(st.text(), min_size=2, max_size=4)), min_size=1, max_size=5))
def test_any_text_is_read_as_it_is(tmp_path: Path, parts: list[tuple[str, str, list[str]]]) -> None:
    rows = [{"context": c, "question": q, "choices": found, "label": 1} for c, q, found in parts]
    examples, problems = read(tmp_path / "t.jsonl", lines(*rows))
    assert problems == []
    assert [(e.context, e.question, list(e.choices)) for e in examples] == parts
