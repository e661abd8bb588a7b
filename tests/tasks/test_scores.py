"""Degenerate predictions, and the majority baseline with its interval."""

from bertctl.tasks.scores import is_degenerate, majority_baseline, scores_of
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import TextExample, TokenExample

TEXTS = [TextExample("t", None, label, f"f:{i}") for i, label in enumerate("aab")]
WORDS = [TokenExample(("x", "y"), ("B-A", "O"), "f", (1, 2), scheme="BIO")]


def test_one_answer_to_everything_is_degenerate_unless_it_is_right():
    task = TASKS["classification"]
    assert is_degenerate(task, TEXTS, [{"label": "a"}] * 3)
    assert not is_degenerate(task, TEXTS, [{"label": "a"}, {"label": "a"}, {"label": "b"}])
    assert not is_degenerate(task, TEXTS[:2], [{"label": "a"}] * 2)
    assert is_degenerate(TASKS["ner"], WORDS, [{"tags": ["O", "O"]}])
    assert not is_degenerate(TASKS["ner"], WORDS, [{"tags": ["B-A", "O"]}])


def test_the_majority_baseline_has_the_share_of_its_label():
    found = majority_baseline(TASKS["classification"], [*TEXTS, TEXTS[2]], TEXTS, ["a", "b"])
    assert found["label"] == "a"
    assert found["value"] == 2 / 3
    assert found["low"] <= 2 / 3 <= found["high"]


def test_scores_are_json_with_metrics_and_a_row_a_class():
    found = scores_of(TASKS["classification"], TEXTS, [{"label": "a"}] * 3, ["a", "b"], samples=50)
    assert found["metrics"]["mcc"]["value"] == 0.0  # constant predictions on two classes
    assert [(row["label"], row["support"]) for row in found["per_class"]] == [("a", 2), ("b", 1)]
