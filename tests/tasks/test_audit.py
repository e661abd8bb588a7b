"""What is said about the data before training."""

import json

import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.audit import audit, folded, majority_baseline, refuse_truncation, truncation
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Features, Splits, TextExample, TokenExample

TASK = TASKS["classification"]


def text(words: str, label: str, line: int = 1) -> TextExample:
    return TextExample(words, None, label, f"f:{line}")


def test_leakage_exact_and_folded_contradictions_and_empty_texts() -> None:
    train = [
        text("Good film", "1", 1),
        text("bad", "0", 2),
        text("good  FILM", "0", 3),
        text("", "1", 4),
        text("x", "1", 5),
    ]
    test = [text("Good film", "1", 6), text("GOOD film\n", "1", 7), text("new", "0", 8)]
    report = audit(TASK, Splits(train, [], test, ("noted",)))
    assert report["leakage"] == {"train-test": {"exact": 1, "folded": 2, "places": ["f:6", "f:7"]}}
    assert report["contradictions"]["train"] == {"texts": 1, "places": [["f:1", "f:3"]]}
    assert report["contradictions"]["test"]["texts"] == 0
    assert report["splits"]["train"] == {
        "examples": 5,
        "empty_texts": 1,
        "repeated_texts": 1,
        "labels": {"1": 3, "0": 2},
    }
    assert report["majority_baseline"]["test"]["label"] == "1"
    assert report["majority_baseline"]["test"]["accuracy"] == pytest.approx(2 / 3)
    assert report["notes"] == ["noted"]
    json.dumps(report, allow_nan=False)


def test_a_label_that_a_small_part_of_train_lacks_is_missed() -> None:
    baseline = majority_baseline(TASK, [text("a", "1")], [text("b", "1"), text("c", "0"), text("d", "0")])
    assert (baseline["label"], baseline["accuracy"]) == ("1", pytest.approx(1 / 3))


def test_majority_of_tags_is_no_entity() -> None:
    train = [TokenExample(("a", "b", "c"), ("O", "O", "B-X"), "f", (1, 2, 3), "BIO")]
    baseline = majority_baseline(TASKS["ner"], train, train)
    assert (baseline["label"], baseline["f1"], baseline["precision"]) == ("O", 0.0, None)
    assert baseline["token_accuracy"] == pytest.approx(2 / 3)


def test_a_pair_is_another_text_than_its_halves() -> None:
    pair = TextExample("a", "b", "1", "f:1")
    report = audit(TASK, Splits([pair, text("a b", "0")], [TextExample("b", "a", "1", "f:2")], []))
    assert report["leakage"]["train-dev"]["folded"] == 0
    assert folded(["A\u00a0 b", "C"]) == ("a b", "c")


def test_truncation_is_counted_and_can_be_refused() -> None:
    features = [Features([2, 5, 3], [0, 0, 0], None, 0, 601, 91), Features([2, 5, 3], [0, 0, 0], None, 1, 510, 0)]
    assert truncation(features) == {"truncated": 1, "examples": 2, "pieces": 1111, "pieces_kept": 1020}
    with pytest.raises(BertctlError, match=r"f:1: got 601 word pieces, expected at most 510 \(max_length 512\)"):
        refuse_truncation([text("a", "1", 1), text("b", "1", 2)], features, 512)
    refuse_truncation([text("b", "1", 2)], features[1:], 512)
