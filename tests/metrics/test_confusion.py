"""The confusion matrix against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from bertctl.metrics.confusion import confusion, confusion_matrix


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_equal_to_scikit_learn(pairs):
    gold, predicted = np.array(pairs).T
    expected = metrics.confusion_matrix(gold, predicted, labels=range(4))
    np.testing.assert_array_equal(confusion_matrix(gold, predicted, 4), expected)


def test_rows_are_gold_and_unknown_names_come_last():
    found = confusion(["b", "a", "b", "a"], ["a", "z", "b", "z"], ["b", "a"])
    assert found == {
        "labels": ["b", "a", "z"],
        "counts": [[1, 1, 0], [0, 0, 2], [0, 0, 0]],
        "mistaken": [
            {"gold": "a", "predicted": "z", "count": 2},
            {"gold": "b", "predicted": "a", "count": 1},
        ],
    }
    assert confusion([], [], ["a"]) == {"labels": ["a"], "counts": [[0]], "mistaken": []}


def test_a_matrix_of_many_labels_is_left_out_and_its_largest_mistakes_are_not():
    names = [str(number) for number in range(101)]
    found = confusion(names, names[1:] + names[:1], names)
    assert found["counts"] is None
    assert len(found["mistaken"]) == 20


@pytest.mark.parametrize(("gold", "predicted"), [([0, 1], [0]), ([0, 2], [0, 0]), ([0, -1], [0, 0])])
def test_what_does_not_fit_is_refused(gold, predicted):
    with pytest.raises(ValueError, match=r"fit|length"):
        confusion_matrix(np.array(gold), np.array(predicted), 2)
