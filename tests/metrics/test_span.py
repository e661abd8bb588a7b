"""Answers by the SQuAD rules: values worked out by hand from the published rules."""

import numpy as np
import pytest

from bertctl.metrics.span import best_span_metrics, best_threshold, normalized, span_metrics, span_rows, with_threshold


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel\tTower!", "eiffel tower"),
        ("an A-frame, a theatre", "aframe theatre"),  # punctuation goes before articles are looked for
        ("U.S.", "us"),
        ("a.", ""),
        ("«the» 10%", "« » 10"),  # only ASCII punctuation goes
        ("İstanbul", "i̇stanbul"),
    ],
)
def test_normalisation(text, expected):
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("predicted", "gold", "version", "exact", "f1"),
    [
        ("the Norman kings", ["Norman kings."], "1.1", 1, 1),
        ("in the year 1066", ["1066", "the year 1066"], "1.1", 0, 2 * 2 / 5),  # best: {year, 1066} of 3 and 2 words
        ("no no yes", ["no yes yes"], "1.1", 0, 2 * 2 / 6),  # a bag: one `no` and one `yes` are shared
        ("Rhine", ["Danube"], "1.1", 0, 0),
        ("the", ["a"], "1.1", 1, 0),  # two empty texts: equal, but 1.1 gives no F1 where no word is shared
        ("the", ["a", "Danube"], "2.0", 0, 0),  # 2.0 leaves out `a`
        ("", [], "2.0", 1, 1),
        ("the", [], "2.0", 1, 1),
        ("Rhine", [], "2.0", 0, 0),
        ("", ["Rhine"], "2.0", 0, 0),
        (None, [], "2.0", 0, 0),
        (None, ["Rhine"], "1.1", 0, 0),
    ],
)
def test_scores_by_hand(predicted, gold, version, exact, f1):
    assert span_rows([gold], [predicted], version).tolist() == [[exact, pytest.approx(f1, abs=1e-9)]]


GOLD = [["Rhine"], ["in 1066", "1066"], [], []]
SAID = ["the Rhine", "year 1066", "", "Danube"]


def test_means_and_parts():
    found = {name: metric.point() for name, metric in span_metrics(GOLD, SAID, "2.0").items()}
    assert found == {
        "exact": pytest.approx(2 / 4),
        "f1": pytest.approx((1 + 2 / 3 + 1 + 0) / 4, abs=1e-9),
        "has_answer_exact": 0.5,
        "has_answer_f1": pytest.approx((1 + 2 / 3) / 2, abs=1e-9),
        "no_answer_exact": 0.5,
        "no_answer_f1": 0.5,
    }
    old = span_metrics(GOLD[:2], ["the Rhine", None], "1.1")
    assert {name: metric.point() for name, metric in old.items()} == {"exact": 0.5, "f1": 0.5}


def test_a_part_that_is_empty_is_undefined():
    summary = span_metrics(GOLD[:2], SAID[:2], "2.0")["no_answer_f1"].summary()
    assert summary["value"] is None
    assert summary["reason"] == "every question has an answer"
    assert span_metrics(GOLD, SAID, "2.0")["no_answer_f1"].note == "over 2 of 4 questions"


def test_threshold_by_hand():
    no_answer = [0.1, 0.6, 0.7, 0.9]
    scores, answerable = span_rows(GOLD, SAID, "2.0"), np.array([True, True, False, False])
    # above 0.5: questions 2, 3, 4 become unanswered: 0, 1, 1
    assert with_threshold(scores[:, 0], answerable, no_answer, 0.5).tolist() == [1, 0, 1, 1]
    found = best_span_metrics(GOLD, SAID, no_answer)
    # exact, unanswered above 0: 2; answered up to 0.1: 3, 0.6: 3, 0.7: 3, 0.9: 2. The lowest of the best
    assert found["best_exact"].point() == pytest.approx(3 / 4)
    assert "best threshold for these questions, 0.1" in found["best_exact"].note
    # f1: up to 0.6 question 2 adds 2/3
    assert found["best_f1"].point() == pytest.approx((3 + 2 / 3) / 4, abs=1e-9)
    assert "0.6" in found["best_f1"].note


def test_best_threshold_is_the_best_of_all_thresholds():
    generator = np.random.default_rng(0)
    for _ in range(50):
        answerable = generator.random(12) < 0.5
        scores = generator.integers(0, 2, 12).astype(float)
        no_answer = generator.integers(-3, 4, 12).astype(float)  # ties, and values below 0
        best = best_threshold(scores, answerable, no_answer)
        tried = {t: with_threshold(scores, answerable, no_answer, t).mean() for t in np.arange(-4.0, 5.0)}
        assert best.score == pytest.approx(max(tried.values()))
        assert with_threshold(scores, answerable, no_answer, best.threshold).mean() == pytest.approx(best.score)
    assert best_threshold(np.zeros(2), np.zeros(2, dtype=bool), [0.4, 0.4]).threshold == 0.0


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="1 predictions for 2 questions"):
        span_rows([["a"], ["b"]], ["a"], "1.1")
    with pytest.raises(ValueError, match="without gold answer"):
        span_rows([[]], ["a"], "1.1")
    with pytest.raises(ValueError, match="one finite"):
        best_threshold(np.zeros(2), np.zeros(2, dtype=bool), [0.4, float("nan")])
    assert span_metrics([], [], "2.0")["exact"].point() is None
