"""F1 of label sets against scikit-learn, and where it is undefined."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from bertctl.metrics.multi_label import multi_label_metrics, per_label

MATRICES = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=n, max_size=n)] * 2)
)


@settings(max_examples=100, deadline=None)
@given(MATRICES)
def test_equal_to_scikit_learn(pair):
    gold, predicted = (np.array(matrix) for matrix in pair)
    found = {name: metric.point() for name, metric in multi_label_metrics(gold, predicted).items()}
    assert found["subset_accuracy"] == pytest.approx(accuracy_score(gold, predicted), abs=1e-9)
    if gold.any() or predicted.any():
        for average in ("micro", "macro"):
            expected = f1_score(gold, predicted, average=average, zero_division=np.nan)
            assert found[f"{average}_f1"] == pytest.approx(expected, abs=1e-9)
    else:
        assert found["micro_f1"] is found["macro_f1"] is None


@settings(max_examples=40, deadline=None)
@given(MATRICES)
def test_labels_equal_scikit_learn(pair):
    gold, predicted = (np.array(matrix) for matrix in pair)
    columns = precision_recall_fscore_support(gold, predicted, zero_division=np.nan)
    for row, precision, recall, f1, support in zip(per_label(gold, predicted, "abc"), *columns, strict=True):
        for value, expected in ((row["precision"], precision), (row["recall"], recall), (row["f1"], f1)):
            assert value is None if np.isnan(expected) else value == pytest.approx(expected, abs=1e-9)
        assert row["support"] == support


def test_no_label_at_all_is_right_and_leaves_f1_undefined():
    nothing = np.zeros((2, 3), dtype=bool)
    found = multi_label_metrics(nothing, nothing)
    assert found["subset_accuracy"].point() == 1.0
    assert found["micro_f1"].summary()["reason"] == "no example has a label, neither in gold nor in predictions"
    assert multi_label_metrics(nothing[:0], nothing[:0])["subset_accuracy"].point() is None


@pytest.mark.parametrize("shape", [(2,), (3, 3), (2, 2)])
def test_what_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match="one shape"):
        multi_label_metrics(np.zeros((2, 3)), np.zeros(shape))
