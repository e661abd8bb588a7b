"""Rankings: values worked out by hand."""

import math

import pytest
from sklearn.metrics import ndcg_score

from bertctl.metrics.ranking import ranked, ranking_metrics

QRELS = {
    "q1": {"d1": 1, "d4": 1},
    "q2": {"d2": 3, "d3": 2, "d5": 1, "d9": 0},
    "q3": {"d7": 1},
    "q4": {"d1": 0},  # nothing relevant
}
RANKINGS = {
    "q1": ["d2", "d1", "d3", "d4"],
    "q2": ["d3", "d9", "d2", "d1"],
    "q3": ["d1", "d2", "d3", "d4"],
    "q5": ["d1"],  # not judged
}


def points(cuts, rankings=RANKINGS, qrels=QRELS):
    return {name: metric.point() for name, metric in ranking_metrics(rankings, qrels, cuts).items()}


def test_by_hand():
    found = points([("mrr", 10), ("recall", 3), ("map", 10), ("map", 3), ("p", 1), ("p", 3), ("mrr", 1)])
    assert found == {
        "mrr@10": pytest.approx((1 / 2 + 1 + 0) / 3, abs=1e-9),
        "recall@3": pytest.approx((1 / 2 + 2 / 3 + 0) / 3, abs=1e-9),
        "map@10": pytest.approx(((1 / 2 + 2 / 4) / 2 + (1 + 2 / 3) / 3 + 0) / 3, abs=1e-9),
        "map@3": pytest.approx(((1 / 2) / 2 + (1 + 2 / 3) / 3 + 0) / 3, abs=1e-9),
        "p@1": pytest.approx(1 / 3, abs=1e-9),
        "p@3": pytest.approx((1 / 3 + 2 / 3 + 0) / 3, abs=1e-9),
        "mrr@1": pytest.approx(1 / 3, abs=1e-9),
    }


def test_ndcg_by_hand_and_equal_to_scikit_learn():
    log = math.log2
    first = (1 / log(3) + 1 / log(5)) / (1 + 1 / log(3))
    second = (2 + 3 / log(4)) / (3 + 2 / log(3) + 1 / log(4))
    assert points([("ndcg", 10)])["ndcg@10"] == pytest.approx((first + second) / 3, abs=1e-9)
    cut = (2 / 1) / (3 + 2 / log(3))
    assert points([("ndcg", 2)])["ndcg@2"] == pytest.approx((1 / log(3) / (1 + 1 / log(3)) + cut) / 3, abs=1e-9)
    documents = [f"d{i}" for i in range(1, 10)]
    grades = [QRELS["q2"].get(document, 0) for document in documents]
    order = ["d3", "d9", "d2", "d1", "d4", "d5", "d6", "d7", "d8"]
    scores = [-order.index(document) for document in documents]
    for k in (2, 5, 10):
        found = points([("ndcg", k)], {"q2": order}, {"q2": QRELS["q2"]})[f"ndcg@{k}"]
        assert found == pytest.approx(ndcg_score([grades], [scores], k=k), abs=1e-9)


def test_a_query_without_ranking_counts_and_one_without_relevant_document_does_not():
    metric = ranking_metrics({"q1": ["d1", "d4"]}, QRELS, [("recall", 10)])["recall@10"]
    assert metric.rows.tolist() == [[1, 1], [0, 1], [0, 1], [0, 0]]
    assert metric.summary()["note"] == "1 of 4 queries have no relevant document and are left out"
    nothing = ranking_metrics({}, {"q4": {"d1": 0}}, [("p", 1)])["p@1"].summary()
    assert nothing["value"] is None
    assert nothing["reason"] == "no query has a relevant document"


def test_equal_scores_go_by_id_from_the_last_to_the_first():
    assert ranked({"d1": 0.5, "d10": 0.5, "d2": 0.5, "x": 0.9, "a": 0.1}) == ["x", "d2", "d10", "d1", "a"]
    assert ranked({"d1": 0.5, "d10": 0.5}, limit=1) == ["d10"]


def test_the_usual_cuts_have_their_names():
    assert list(ranking_metrics(RANKINGS, QRELS)) == ["ndcg@10", "mrr@10", "recall@10", "recall@100", "map@100", "p@1"]


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="ranked twice"):
        ranking_metrics({"q1": ["d1", "d1"]}, QRELS)
    for cuts in ([("ndgc", 10)], [("p", 0)]):
        with pytest.raises(ValueError, match="depth from 1"):
            ranking_metrics(RANKINGS, QRELS, cuts)
