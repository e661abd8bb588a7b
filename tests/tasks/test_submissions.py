"""Predictions of other systems: every form that is read, by id or in order, and what is refused with its place."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks.choices import ChoiceExample
from bertctl.tasks.config import DataSection
from bertctl.tasks.questions import Answer, QuestionExample
from bertctl.tasks.submissions import with_no_answer
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import TextExample, TokenExample

TEXTS = [TextExample("t", None, label, f"gold:{line}") for line, label in enumerate(["red", "blue"], 1)]
NUMBERS = [TextExample("t", None, float(line), f"gold:{line}") for line in (1, 2)]
SETS = [TextExample("t", None, names, "gold:1") for names in (("a", "b"), ())]
QUESTIONS = [
    QuestionExample("q1", "who?", "Ann and Bob", (Answer("Ann", 0),), "gold: q1", True),
    QuestionExample("q2", "where?", "Ann and Bob", (), "gold: q2", True),
]
SPOKEN = {"text": "Ann", "start": 0, "end": 3, "probability": 0.5}
CHOICES = [ChoiceExample("c", "q", ("x", "y", "z"), 1, "gold:1"), ChoiceExample("c", "q", ("x", "y"), 0, "gold:2")]
WORDS = [
    TokenExample(("Ann", "saw"), ("B-PER", "O"), "gold", (1, 2), "BIO"),
    TokenExample(("Rome",), ("B-LOC",), "gold", (4,), "BIO"),
]
EXAMPLES = {
    "classification": TEXTS,
    "multi_label": SETS,
    "regression": NUMBERS,
    "qa": QUESTIONS,
    "multiple_choice": CHOICES,
    "ner": WORDS,
    "pos": WORDS,
}


@pytest.fixture
def read(tmp_path):
    """(task, file name, text) -> (predictions, problems)."""

    def read(task, name, text, **data):
        path, problems = tmp_path / name, []
        path.write_text(text)
        found = TASKS[task].submission(path, EXAMPLES[task], DataSection(**data), problems)
        return found, [problem.replace(str(tmp_path) + "/", "") for problem in problems]

    return read


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("task", "name", "text", "expected"),
    [
        ("classification", "p.jsonl", lines({"label": "red"}, {"label": "red"}), [{"label": "red"}] * 2),
        ("classification", "p.tsv", "prediction\nblue\nred\n", [{"label": "blue"}, {"label": "red"}]),
        ("classification", "p.csv", 'index,prediction\n0,"blue"\n1,red\n', [{"label": "blue"}, {"label": "red"}]),
        ("classification", "p.jsonl", lines({"label": True}, {"label": 1}), [{"label": "true"}, {"label": "1"}]),
        ("multi_label", "p.jsonl", lines({"labels": ["b", "b"]}, {"labels": []}), [{"labels": ["b"]}, {"labels": []}]),
        ("regression", "p.jsonl", lines({"score": 1}, {"score": -2.5}), [{"value": 1.0}, {"value": -2.5}]),
        ("regression", "p.tsv", "prediction\n0.25\n1e-3\n", [{"value": 0.25}, {"value": 0.001}]),
        ("multiple_choice", "p.jsonl", lines({"choice": 2}, {"choice": 0}), [{"choice": 2}, {"choice": 0}]),
        ("multiple_choice", "p.tsv", "label\n0\n1\n", [{"choice": 0}, {"choice": 1}]),
        ("qa", "p.json", '{"q2": "", "q1": "Ann"}', [{"id": "q1", "answer": "Ann"}, {"id": "q2", "answer": ""}]),
        ("qa", "p.json", '{"q2": "Bob", "q7": ""}', [{"id": "q1", "answer": None}, {"id": "q2", "answer": "Bob"}]),
        (
            "qa",
            "p.jsonl",
            lines({"id": "q2", "prediction_text": "B"}, {"id": "q1", "prediction_text": ""}),
            [{"id": "q1", "answer": ""}, {"id": "q2", "answer": "B"}],
        ),
        (
            "qa",
            "p.jsonl",
            lines({"answer": "A"}, {"answer": "B"}),
            [{"id": f"q{i}", "answer": "?AB"[i]} for i in (1, 2)],
        ),
    ],
)
def test_every_form(read, task, name, text, expected):
    assert read(task, name, text) == (expected, [])


def test_names_of_numbers_and_lists_in_cells_go_as_the_data_say(read):
    found, problems = read("classification", "p.tsv", "label\n1\n0\n", label_names=("red", "blue"))
    assert (found, problems) == ([{"label": "blue"}, {"label": "red"}], [])
    found, problems = read("multi_label", "p.tsv", "labels\na|b\n\n", label_separator="|")
    assert (found, problems) == ([{"labels": ["a", "b"]}, {"labels": []}], [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.conll", "Ann\tB-PER\r\nsaw\tB-LOC\r\n\r\nRome\tO"),
        ("p.txt", "Ann x B-PER\nsaw x B-LOC\nRome x O\n"),  # sentences parted elsewhere
        ("p.jsonl", lines({"tokens": ["Ann", "saw"], "tags": ["B-PER", "B-LOC"]}, {"tokens": ["Rome"], "tags": ["O"]})),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tags_of_words(read, name, text):
    found, problems = read("ner", name, text)
    assert problems == []
    assert [row["tags"] for row in found] == [["B-PER", "B-LOC"], ["O"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ann\tO\nsees\tO\n\nRome\tO\n", "p.conll:2: got the word 'sees', expected 'saw' as in gold:2"),
        ("Ann\tO\nsaw\tO\n", "p.conll: got no more words, expected 'Rome' as in gold:4"),
        ("Ann\tO\nsaw\tO\n\nRome\tO\nnow\tO\n", "p.conll:5: got the word 'now', expected no more words"),
    ],
)
def test_words_that_are_not_those_of_the_data(read, text, message):
    assert read("ner", "p.conll", text) == ([], [message])


@pytest.mark.parametrize(
    ("task", "name", "text", "message"),
    [
        ("classification", "p.jsonl", lines({"label": "red"}), "p.jsonl: got 1 predictions, expected 2 in order"),
        (
            "classification",
            "p.jsonl",
            lines({"x": "red"}, {"x": "red"}),
            "p.jsonl: got the columns 'x', expected one of",
        ),
        ("classification", "p.tsv", "label\nred\nblue\nred\n", "p.tsv: got 3 predictions, expected 2 in order"),
        ("classification", "p.jsonl", lines({"label": "r"}, {"label": None}), "p.jsonl:2: got null, expected a label"),
        ("classification", "p.conll", "a\tb\n", "p.conll: got columns of words"),
        (
            "classification",
            "p.jsonl",
            lines({"label": "r"}, {"label": "r", "probabilities": {"r": 2}}),
            "p.jsonl:2: got",
        ),
        (
            "classification",
            "p.jsonl",
            lines({"label": "r", "probabilities": {"r": 0.8, "b": 0.3}}, {"label": "r", "probabilities": {"r": 0.8}}),
            "p.jsonl:1: got `probabilities` that sum to 1.1, expected those of all labels, which sum to 1",
        ),
        ("regression", "p.jsonl", lines({"value": 1}, {"value": "x"}), "p.jsonl:2: got text, expected a finite number"),
        ("multi_label", "p.jsonl", lines({"labels": "a"}, {"labels": []}), "p.jsonl:1: got text, expected a list"),
        (
            "multiple_choice",
            "p.jsonl",
            lines({"choice": 1}, {"choice": 2}),
            "p.jsonl:2: got 2, expected a choice from 0",
        ),
        ("qa", "p.json", '{"q1": 3}', "p.json:1: got a number for the question q1, expected text"),
        ("qa", "p.json", '{"1": "x"}', "p.json:1: got the id '1', expected ids of the data, such as 'q1'"),
        ("qa", "p.json", '{"q1": "x", "q1": "y"}', "p.json:1: got bad JSON (the key 'q1' twice)"),
        ("qa", "p.jsonl", lines(*[{"id": "q1", "answer": ""}] * 2), "p.jsonl:2: got the id 'q1' more than once"),
    ],
)
def test_what_cannot_be_scored_is_named(read, task, name, text, message):
    _, problems = read(task, name, text)
    assert any(problem.startswith(message) for problem in problems), problems


def test_no_answer_probabilities(tmp_path):
    path = tmp_path / "na.json"
    path.write_text('{"q1": 0.6, "q2": 0.5, "q3": 1}')
    rows = [{"id": "q1", "answer": "Ann"}, {"id": "q2", "answer": None}]
    found = with_no_answer(rows, path, 0.5)
    assert [(row["answer"], row["answer_if_any"], row["no_answer_probability"]) for row in found] == [
        ("", "Ann", 0.6),
        (None, None, 0.5),
    ]
    assert [row["answer"] for row in with_no_answer(rows, path, 0.6)] == ["Ann", None]
    for text, message in (("[1]", "got a list"), ('{"q1": 1}', "the id 'q2': got null"), ("{", "got bad JSON")):
        path.write_text(text)
        with pytest.raises(BertctlError, match=message):
            with_no_answer(rows, path, 0.5)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["label", "labels", "value", "choice", "answer", "tags", "tokens", "probabilities", "id", "x"])


def test_our_own_predictions_score_as_the_model_did(read):
    """With what no answer would have scored, so that the best thresholds are the same."""
    rows = [
        {"id": "q1", "answer": "", "null_difference": 1.5, "n_best": [{"text": "", "start": None}, SPOKEN]},
        {"id": "q2", "answer": "Bob", "null_difference": -2.0, "n_best": [SPOKEN | {"text": "Bob"}]},
    ]
    found, problems = read("qa", "predictions.jsonl", lines(*rows))
    assert problems == []
    mine, theirs = (TASKS["qa"].score(QUESTIONS, predicted, []) for predicted in (rows, found))
    assert {name: metric.point() for name, metric in theirs.items()} == {n: m.point() for n, m in mine.items()}
    assert theirs["best_exact"].point() == 0.5  # of "who?" the answer Ann, from a threshold of 1.5 on


@pytest.mark.parametrize("task", sorted(EXAMPLES))
def test_any_record_is_a_prediction_or_a_problem(task, tmp_path):
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=3))
    def check(records):
        path, problems = tmp_path / "p.jsonl", []
        path.write_text(lines(*records))
        found = TASKS[task].submission(path, EXAMPLES[task], DataSection(), problems)
        if not problems:
            assert len(found) == len(EXAMPLES[task])
            json.dumps(found, allow_nan=False, ensure_ascii=False).encode()

    check()
