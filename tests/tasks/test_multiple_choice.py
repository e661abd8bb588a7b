"""Choices compete within their example: encoding, predictions and scores by hand."""

import numpy as np
import pytest

from bertctl.tasks import multiple_choice as task
from bertctl.tasks.choices import ChoiceExample
from bertctl.tasks.task import Limits
from bertctl.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"], True, True)


def example(*choices: str, context: str = "a", question: str = "", label: int | None = 0) -> ChoiceExample:
    return ChoiceExample(context, question, choices, label, "f:1")


def read(*examples: ChoiceExample, length: int = 16) -> list[str]:
    features = task.encode(examples, TOKENIZER, [], Limits(length))
    return [" ".join(TOKENIZER.tokens[i] for i in feature.input_ids) for feature in features]


def test_one_input_a_choice_with_the_question_before_it() -> None:
    assert read(example("b", "c d")) == ["[CLS] a [SEP] b [SEP]", "[CLS] a [SEP] c d [SEP]"]
    assert read(example("b", "c", question="d"))[1] == "[CLS] a [SEP] d c [SEP]"
    assert read(example("b", "c", context="", question="d"))[1] == "[CLS] d [SEP] c [SEP]"
    features = task.encode([example("b", "c", "d", label=2), example("b", "c", label=None)], TOKENIZER, [], Limits(16))
    assert [(f.example, f.role, f.labels) for f in features] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 1),
        (1, 0, None),
        (1, 1, None),
    ]
    assert features[0].token_type_ids == [0, 0, 0, 1, 1]


def test_what_is_too_long_is_cut_from_the_longer_text_and_counted() -> None:
    long = example("b", "c", context="a a a a a")
    assert read(long, length=7)[0] == "[CLS] a a a [SEP] b [SEP]"
    assert [(f.pieces, f.cut) for f in task.encode([long], TOKENIZER, [], Limits(7))] == [(6, 2), (6, 2)]


def test_predictions_scores_and_details() -> None:
    examples = [example("b", "c", "d", label=2), example("b", "c", label=0)]
    features = task.encode(examples, TOKENIZER, [], Limits(16))
    found = [np.array([value]) for value in (0.0, 1.0, 3.0, -1.0, 0.0)]
    rows = task.predictions(examples, features, found, [], {})
    assert [(row["choice"], row["text"]) for row in rows] == [(2, "d"), (1, "c")]
    total = 1 + np.e + np.exp(3)
    assert rows[0]["probabilities"] == pytest.approx([1 / total, np.e / total, np.exp(3) / total])
    assert rows[1]["probability"] == pytest.approx(1 / (1 + np.exp(-1)))
    assert task.score(examples, rows, [])["accuracy"].point() == 0.5
    assert task.details(examples, rows, []) == {"chance_accuracy": (1 / 3 + 1 / 2) / 2, "choices": {"2": 1, "3": 1}}
    assert [task.said(row) for row in rows] == [[2], [1]]


def test_always_the_same_choice() -> None:
    train = [example("b", "c", "d", label=2), example("b", "c", "d", label=2), example("b", "c", label=1)]
    what, always = task.majority(train, train, [])
    assert (what, [row["choice"] for row in always]) == ("choice 2", [2, 2, 1])  # the last, where there is no third
    assert task.score(train, always, [])["accuracy"].point() == 1.0
