"""Classification metrics against scikit-learn, and where they are undefined."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, precision_recall_fscore_support

from bertctl.metrics.classification import classification_metrics, count_rows, per_class

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_equal_to_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = np.array(pairs).T
    found = {name: metric.point() for name, metric in classification_metrics(gold, predicted, 4).items()}
    assert found["accuracy"] == pytest.approx(accuracy_score(gold, predicted), abs=1e-9)
    assert found["macro_f1"] == pytest.approx(f1_score(gold, predicted, average="macro"), abs=1e-9)
    assert found["micro_f1"] == pytest.approx(f1_score(gold, predicted, average="micro"), abs=1e-9)
    if len(set(gold)) > 1:
        assert found["mcc"] == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-9)
    else:
        assert found["mcc"] is None


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_classes_equal_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = np.array(pairs).T
    columns = precision_recall_fscore_support(gold, predicted, labels=range(4), zero_division=np.nan)
    for row, precision, recall, f1, support in zip(per_class(gold, predicted, "abcd"), *columns, strict=True):
        for value, expected in ((row["precision"], precision), (row["recall"], recall), (row["f1"], f1)):
            assert value is None if np.isnan(expected) else value == pytest.approx(expected, abs=1e-9)
        assert row["support"] == support


def test_absent_class_does_not_lower_macro_f1_and_its_support_is_shown() -> None:
    gold = np.array([0, 0, 1])
    metric = classification_metrics(gold, gold, 3)["macro_f1"]
    assert metric.point() == 1.0
    assert "present in gold" in metric.summary()["note"]
    assert [row["support"] for row in per_class(gold, gold, ["0", "1", "2"])] == [2, 1, 0]


def test_whole_set_and_not_mean_of_batches() -> None:
    gold, predicted = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    metric = classification_metrics(gold, predicted, 2)["macro_f1"]
    batches = [count_rows(gold[i : i + 2], predicted[i : i + 2], 2) for i in (0, 2)]
    assert metric.point() == pytest.approx(0.7333, abs=1e-4)
    assert metric.value(np.concatenate(batches).sum(axis=0)) == metric.point()


def test_mcc_of_constant_predictions_is_zero_and_of_constant_gold_is_undefined() -> None:
    two, one = np.array([0, 1, 1]), np.array([1, 1, 1])
    assert classification_metrics(two, one, 2)["mcc"].point() == 0.0
    summary = classification_metrics(one, two, 2)["mcc"].summary()
    assert summary["value"] is None
    assert summary["reason"] == "the gold labels are all of one class"


@pytest.mark.parametrize(("gold", "predicted"), [([0, 1], [0]), ([0, 2], [0, 0]), ([0, -1], [0, 0])])
def test_what_does_not_fit_is_refused(gold: list[int], predicted: list[int]) -> None:
    with pytest.raises(ValueError, match=r"fit|length"):
        count_rows(np.array(gold), np.array(predicted), 2)


def test_no_examples_is_undefined() -> None:
    nothing = np.zeros(0, dtype=int)
    assert all(metric.point() is None for metric in classification_metrics(nothing, nothing, 2).values())
