"""SQuAD documents: told apart from lines by their content, walked whatever is in them, and written back."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertctl.tasks.config import DataSection
from bertctl.tasks.questions import Answer, QuestionExample
from bertctl.tasks.squad import files, logistic, read_file

FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CONTEXT = "Ann saw Bob in Rome."
SURE = {"id": "a", "question": "Who?", "answers": [{"text": "Bob", "answer_start": 8}]}
NONE = {
    "id": "b",
    "question": "When?",
    "answers": [],
    "is_impossible": True,
    "plausible_answers": [{"text": "Rome", "answer_start": 15}],
}


def document(*questions: dict, context: object = CONTEXT) -> dict:
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def read(path: Path, content: str, *, labelled: bool = True) -> tuple[list[QuestionExample], list[str]]:
    path.write_text(content, encoding="utf-8")
    problems: list[str] = []
    return read_file(path, DataSection(), labelled, problems), problems


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["dev.json", "dev.jsonl", "dev"])
def test_a_document_is_one_however_it_is_laid_out(tmp_path: Path, indent: int | None, name: str) -> None:
    examples, problems = read(tmp_path / name, json.dumps(document(SURE, NONE), indent=indent))
    assert problems == []
    where = [f"{tmp_path / name}: question {number}" for number in "ab"]
    assert examples == [
        QuestionExample("a", "Who?", CONTEXT, (Answer("Bob", 8),), where[0]),
        QuestionExample("b", "When?", CONTEXT, (), where[1]),  # plausible answers are no answers
    ]


def test_lines_of_objects_under_the_same_name_are_no_document(tmp_path: Path) -> None:
    row = json.dumps({**SURE, "context": CONTEXT})
    assert len(read(tmp_path / "dev.json", row)[0]) == 1
    assert len(read(tmp_path / "dev.json", row + "\n" + row.replace('"a"', '"c"'))[0]) == 2


def test_questions_without_answers_are_read_when_none_are_asked_for(tmp_path: Path) -> None:
    bare = {"id": "a", "question": "Who?"}
    assert read(tmp_path / "q.json", json.dumps(document(bare)), labelled=False)[0][0].answers is None
    assert "got null as answers" in read(tmp_path / "q.json", json.dumps(document(bare)))[1][0]


def test_everything_of_another_form_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    whole = document(SURE, {**NONE, "id": None}, {**SURE, "id": "c", "question": 3}, "text", SURE)
    whole["data"] += [{"title": "u"}, {"paragraphs": [{"context": None, "qas": 3}]}, []]
    _, problems = read(path, json.dumps(whole))
    assert problems == [
        f"{path}: data[0].paragraphs[0].qas[1]: got null as the id of a question, expected text",
        f"{path}: question c: got a number in the column 'question', expected text",
        f"{path}: data[0].paragraphs[0].qas[3]: got text, expected an object",
        f"{path}: data[1]: got null as paragraphs, expected a list",
        f"{path}: data[2].paragraphs[0]: got null in the column 'context', expected text",
        f"{path}: data[2].paragraphs[0]: got a number as qas, expected a list",
        f"{path}: data[3]: got a list, expected an object",
        f"{path}: question a: got the id 'a' more than once, expected distinct ids",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"data": [\n{"paragraphs": ]}', ":2: got bad JSON"),
        ('{"version": "1.1", "data": NaN}', ":1: got bad JSON (NaN, which is no JSON value), expected SQuAD JSON"),
        ('{"data": []}', ": got no question, expected some"),
        ('{"data": {}}', ": got an object as data, expected a list"),
        ("[" * 100_000, ":1: got a JSON array"),
        ("", ":1: got an empty file"),
    ],
)
def test_broken_files(tmp_path: Path, content: str, said: str) -> None:
    examples, problems = read(tmp_path / "q.json", content)
    assert examples == []
    assert len(problems) == 1
    assert problems[0].startswith(f"{tmp_path / 'q.json'}{said}")


@FUZZ
@given(st.lists(st.tuples(st.text(), st.text(min_size=1), st.text(), st.text(), st.booleans()), min_size=1, max_size=5))
def test_any_text_is_read_as_it_is(tmp_path: Path, parts: list[tuple[str, str, str, str, bool]]) -> None:
    """As a document, as lines, with escapes and without: the same examples, and every answer fits."""
    rows = []
    for number, (before, answer, after, question, has) in enumerate(parts):
        given_answers = [{"text": answer, "answer_start": len(before)}] if has else []
        rows.append(
            {"id": str(number), "question": question, "answers": given_answers, "context": before + answer + after}
        )
    articles = [{"paragraphs": [{"context": row["context"], "qas": [row]}]} for row in rows]
    found = []
    for ascii_only in (True, False):
        whole = json.dumps({"data": articles}, ensure_ascii=ascii_only)
        lines = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
        for content in (whole, lines):
            examples, problems = read(tmp_path / "q.json", content)
            assert problems == []
            found.append([(e.id, e.question, e.context, e.answers) for e in examples])
    assert all(one == found[0] for one in found)
    assert len(found[0]) == len(parts)
    assert all(
        context[answer.start : answer.start + len(answer.text)] == answer.text
        for _, _, context, answers in found[0]
        for answer in answers or ()
    )


KEYS = ["data", "paragraphs", "qas", "context", "id", "question", "answers", "text"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


@FUZZ
@given(JSON)
def test_any_json_is_read_or_refused(tmp_path: Path, value: object) -> None:
    examples, problems = read(tmp_path / "q.json", json.dumps({"data": value}))
    assert examples or problems


def test_predictions_in_the_form_of_the_official_scripts() -> None:
    rows = [
        {"id": "a", "answer": "B\u00f6b", "null_difference": -2.0},
        {"id": "b", "answer": "", "null_difference": 0.5},
        {"id": "c", "answer": "", "null_difference": None},
    ]
    made = files([], rows)
    assert json.loads(made["squad-predictions.json"]) == {"a": "B\u00f6b", "b": "", "c": ""}
    shares = json.loads(made["squad-no-answer.json"])
    assert shares == pytest.approx({"a": 1 / (1 + math.exp(2)), "b": 1 / (1 + math.exp(-0.5)), "c": 1.0})
    assert [logistic(x) for x in (-1e9, 0.0, 1e9)] == [0.0, 0.5, 1.0]
