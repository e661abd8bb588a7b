"""Predictions of answers: probabilities, thresholds and scores, by numbers worked out by hand."""

import json

import numpy as np
import pytest

from bertctl.tasks import qa
from bertctl.tasks.questions import Answer, QuestionExample
from bertctl.tasks.spans import encode
from bertctl.tasks.task import Limits
from bertctl.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "ann", "saw", "bob"], True, True)
CONTEXT = "Ann saw Bob"  # positions 3, 4, 5 after [CLS] who [SEP]


def example(number: str = "1", answer: str | None = "Bob", *, version: str = "2.0") -> QuestionExample:
    answers = () if answer is None else (Answer(answer, CONTEXT.index(answer)),)
    return QuestionExample(number, "Who", CONTEXT, answers, f"f:{number}", may_have_none=version == "2.0")


def logits(null: float, *, bob: float = 2.0, ann: float = 1.0) -> np.ndarray:
    """[7, 2]: the span of one word scores twice its number, [CLS] `null`, everything else far less."""
    values = np.full((7, 2), -50.0)
    values[0], values[3], values[5] = null / 2, ann, bob
    return values


def predict(examples: list[QuestionExample], found: list[np.ndarray], settings: dict | None = None) -> list[dict]:
    features = encode(examples, TOKENIZER, [], Limits(16))
    assert [len(feature.input_ids) for feature in features] == [7] * len(found)
    return qa.predictions(examples, features, found, [], settings or {})


def test_an_answer_with_its_place_and_probability() -> None:
    (row,) = predict([example(version="1.1")], [logits(9.0)])
    json.dumps(row, allow_nan=False)
    assert (row["id"], row["answer"], row["start"], row["end"]) == ("1", "Bob", 8, 11)
    assert (row["null_score"], row["null_difference"]) == (9.0, 5.0)
    spans = [("Bob", 4.0), ("Ann saw Bob", 3.0), ("Ann", 2.0)]  # Ann is first, Bob last: 1 + 2
    assert [(best["text"], best["score"]) for best in row["n_best"][:3]] == spans
    total = sum(np.exp(best["score"]) for best in row["n_best"])
    assert row["probability"] == pytest.approx(np.exp(4.0) / total)
    assert sum(best["probability"] for best in row["n_best"]) == pytest.approx(1.0)
    assert all(CONTEXT[best["start"] : best["end"]] == best["text"] for best in row["n_best"])


def test_no_answer_where_the_data_have_such_questions_and_its_score_is_above_the_threshold() -> None:
    examples = [example("1"), example("2")]
    speaks, silent = predict(examples, [logits(3.9), logits(4.1)])
    assert (speaks["answer"], silent["answer"]) == ("Bob", "")
    assert (silent["start"], silent["end"]) == (None, None)
    assert [best["text"] for best in silent["n_best"][:2]] == ["", "Bob"]
    total = np.exp(4.1) + sum(np.exp(best["score"]) for best in silent["n_best"] if best["text"])
    assert silent["probability"] == pytest.approx(np.exp(4.1) / total)
    assert [row["answer"] for row in predict(examples, [logits(3.9), logits(4.1)], {"null_threshold": -0.5})] == [
        "",
        "",
    ]
    assert [row["answer"] for row in predict(examples, [logits(3.9), logits(4.1)], {"null_threshold": 1})] == [
        "Bob"
    ] * 2


def test_the_score_of_no_answer_is_the_least_of_all_windows() -> None:
    long = QuestionExample("1", "Who", " ".join([CONTEXT] * 3), (), "f:1", may_have_none=True)
    features = encode([long], TOKENIZER, [], Limits(8, 1))
    assert len(features) > 2
    found = [np.full((len(feature.input_ids), 2), -50.0) for feature in features]
    for place, values in enumerate(found):
        values[0] = 5.0 - place
        values[features[place].positions[0]] = float(place)
    (row,) = qa.predictions([long], features, found, [], {"null_threshold": 99})
    last = features[-1].spans[0]
    assert (row["start"], row["end"]) == last  # the best over all windows, in code points of the whole context
    assert row["null_score"] == 2 * (5.0 - (len(features) - 1))


def test_the_threshold_is_searched_on_dev() -> None:
    """Differences to the best span, 4.0: -2, -1, 1, 2; the second and the fourth have no answer."""
    examples = [example("1"), example("2", None), example("3"), example("4", None)]
    found = [logits(2.0), logits(3.0), logits(5.0), logits(6.0)]
    features = encode(examples, TOKENIZER, [], Limits(16))
    threshold = qa.tune(examples, features, found, [])["null_threshold"]
    rows = qa.predictions(examples, features, found, [], {"null_threshold": threshold})
    scores = qa.score(examples, rows, [])
    assert scores["f1"].point() == 0.75  # no threshold parts all four
    assert threshold in (-1.5, 1.5)  # half way between two differences that occur
    only = [logits(2.0), logits(9.0), logits(3.0), logits(9.5)]
    assert qa.tune(examples, features, only, []) == {"null_threshold": 2.0}  # between -1 and 5
    assert qa.tune(examples[::2], features[::2], found[::2], []) == {}


def test_a_context_without_a_piece_has_no_answer_and_no_say_in_the_threshold() -> None:
    blank = QuestionExample("9", "Who", " ", (), "f:9", may_have_none=True)
    features = encode([blank], TOKENIZER, [], Limits(16))
    (row,) = qa.predictions([blank], features, [np.zeros((4, 2))], [], {"null_threshold": 99})
    assert (row["answer"], row["null_difference"], row["probability"]) == ("", None, 1.0)
    assert qa.tune([blank], features, [np.zeros((4, 2))], []) == {}


def test_scores_details_and_what_always_saying_nothing_gives() -> None:
    examples = [example("1"), example("2", None), example("3", "Ann saw")]
    rows = [{"answer": "bob!"}, {"answer": "Ann"}, {"answer": "Ann"}]
    points = {name: metric.point() for name, metric in qa.score(examples, rows, []).items()}
    assert points == pytest.approx(
        {
            "exact": 1 / 3,
            "f1": (1 + 2 / 3) / 3,  # `Ann` of `Ann saw`: precision 1, recall 1/2
            "has_answer_exact": 1 / 2,
            "has_answer_f1": (1 + 2 / 3) / 2,
            "no_answer_exact": 0.0,
            "no_answer_f1": 0.0,
        }
    )
    counts = {"squad_version": "2.0", "without_answer": 1, "predicted_without_answer": 0, "misfits": 0}
    assert qa.details(examples, rows, []) == counts
    what, always = qa.majority(examples, examples, [])
    assert (what, qa.score(examples, always, [])["exact"].point()) == ("no answer", pytest.approx(1 / 3))
    assert qa.majority([example(version="1.1")], examples, []) is None
    assert [qa.said(row) for row in rows] == [["bob!"], ["Ann"], ["Ann"]]


def test_version_one_counts_no_group_apart_and_misfits_are_counted() -> None:
    moved = QuestionExample("1", "Who", CONTEXT, (Answer("Bob", 3),), "f:1")
    scores = qa.score([moved], [{"answer": "Bob"}], [])
    assert {name: metric.point() for name, metric in scores.items()} == {"exact": 1.0, "f1": 1.0}  # scored by its text
    assert qa.details([moved], [{"answer": "Bob"}], [])["misfits"] == 1


def test_best_scores_over_thresholds_are_there_if_every_answer_says_how_sure_it_is() -> None:
    examples = [example("1"), example("2", None), example("3", None)]
    rows = predict(examples, [logits(5.0), logits(6.0), logits(-9.0)])
    assert [row["answer"] for row in rows] == ["", "", "Bob"]
    found = {name: metric.point() for name, metric in qa.score(examples, rows, []).items()}
    assert found["f1"] == pytest.approx(1 / 3)
    # differences 1, 2 and -13: at 1 the first two are right, and no threshold silences the third alone
    assert found["best_exact"] == found["best_f1"] == pytest.approx(2 / 3)
    assert "best_f1" not in qa.score(examples, [{"answer": ""}, *rows[1:]], [])
