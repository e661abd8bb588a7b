"""What a report shows besides scores: worked out by hand."""

import math

import pytest
from sklearn.metrics import confusion_matrix

from bertctl.tasks.reports import MOST_CHARACTERS, text_report, word_report
from bertctl.tasks.task import TextExample, TokenExample

LABELS = ["red", "green"]
TEXTS = [
    TextExample("one", None, "red", "f:1"),
    TextExample("two " * 200, "pair", "red", "f:2"),
    TextExample("three", None, "green", "f:3"),
    TextExample("four", None, "green", "f:4"),
]


def said(red):
    return {"label": "red" if red >= 0.5 else "green", "probabilities": {"red": red, "green": 1 - red}}


def test_texts():
    predicted = [said(0.9), said(0.2), said(0.7), said(0.1)]
    found = text_report(TEXTS, predicted, LABELS, 50)
    gold, guess = [e.label for e in TEXTS], [row["label"] for row in predicted]
    assert found["confusion"]["counts"] == confusion_matrix(gold, guess, labels=LABELS).tolist() == [[1, 1], [1, 1]]
    calibration = found["calibration"]
    losses = [-math.log(p) for p in (0.9, 0.2, 0.3, 0.9)]
    assert calibration["nll"]["value"] == pytest.approx(sum(losses) / 4)
    # bins of 1/15: 0.9 and 0.9 (both right), 0.8 (wrong), 0.7 (wrong)
    assert calibration["ece"]["value"] == pytest.approx((2 * 0.1 + 0.8 + 0.7) / 4)
    assert sum(row["examples"] for row in calibration["reliability"]) == 4
    first, second = found["costliest_errors"]
    assert first == {
        "where": "f:2",
        "text": ("two " * 200)[:MOST_CHARACTERS] + "...",
        "text_pair": "pair",
        "gold": "red",
        "predicted": "green",
        "probability": pytest.approx(0.8),
        "loss": pytest.approx(losses[1]),
    }
    assert (second["where"], second["loss"]) == ("f:3", pytest.approx(losses[2]))
    assert "text_pair" not in second


def test_probability_0_of_the_gold_label_comes_first_and_is_no_number():
    predicted = [said(0.9), said(0.2), said(1.0), said(0.1)]
    found = text_report(TEXTS, predicted, LABELS, 50)
    assert [row["where"] for row in found["costliest_errors"]] == ["f:3", "f:2"]
    assert found["costliest_errors"][0]["loss"] is None
    assert found["calibration"]["nll"]["reason"] == "a gold class has probability 0"


def test_confidence_is_that_of_the_label_that_was_said_and_every_named_label_counts():
    shares = {"red": 0.3, "green": 0.2, "blue": 0.5}  # blue is neither gold nor said
    found = text_report(TEXTS, [{"label": "red", "probabilities": shares}] * 4, LABELS, 50)
    assert found["calibration"]["ece"]["value"] == pytest.approx(abs(0.3 - 2 / 4))
    red, green = 0.7**2 + 0.2**2 + 0.5**2, 0.3**2 + 0.8**2 + 0.5**2
    assert found["calibration"]["brier"]["value"] == pytest.approx((2 * red + 2 * green) / 4)
    assert [row["probability"] for row in found["costliest_errors"]] == [0.3, 0.3]


def test_without_probabilities_there_is_the_confusion_alone():
    found = text_report(TEXTS, [{"label": "blue"}] * 4, [*LABELS, "blue"], 50)
    assert list(found) == ["confusion"]
    assert found["confusion"]["counts"] == [[0, 0, 2], [0, 0, 2], [0, 0, 0]]


def test_words():
    examples = [
        TokenExample(("Ann", "saw", "Bob"), ("B", "O", "B"), "f", (1, 2, 3)),
        TokenExample((), (), "f", ()),
        TokenExample(("x", "y"), ("O", "O"), "f", (5, 6)),
    ]
    predicted = [
        {"tags": ["B", "O", "O"], "probabilities": [0.9, 0.9, 0.6]},
        {"tags": [], "probabilities": []},
        {"tags": ["B", "O"], "probabilities": [0.8, 0.5]},
    ]
    found = word_report(examples, predicted, ["O", "B"], 50)
    assert found["confusion"]["counts"] == [[2, 1], [1, 1]]
    assert found["calibration"]["ece"]["value"] == pytest.approx((2 * 0.1 + 0.6 + 0.8 + 0.5) / 5)
    assert found["calibration"]["ece"]["examples"] == 2  # sentences with words
    assert [(row["where"], row["word"], row["context"]) for row in found["costliest_errors"]] == [
        ("f:5", "x", "x y"),
        ("f:3", "Bob", "Ann saw Bob"),
    ]
    bare = [{"tags": row["tags"]} for row in predicted]
    assert list(word_report(examples, bare, ["O", "B"], 50)) == ["confusion"]
