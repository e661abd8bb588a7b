"""Which evaluation counts as the best one, and when to stop."""

import pytest

from bertctl.finetune.best import Best


@pytest.mark.parametrize(
    ("values", "best_step", "without_better"),
    [
        ([0.5, 0.6, 0.4], 2, 1),
        ([0.5, 0.5, 0.5], 1, 2),  # of equal ones the earliest
        ([None, None], 1, 1),  # the first is kept even if the metric is undefined
        ([None, 0.0, None], 2, 1),  # any value is better than none
        ([-0.2, -0.1], 2, 0),
    ],
)
def test_the_best_of_a_row_of_evaluations(values, best_step, without_better):
    best = Best()
    for step, value in enumerate(values, 1):
        best.add(step, value)
    assert (best.step, best.without_better, best.evaluated) == (best_step, without_better, len(values))
    assert Best.from_state(best.state()) == best


def test_patience_counts_evaluations_without_a_better_one():
    best = Best()
    best.add(10, 0.5)
    best.add(20, 0.4)
    assert not best.exhausted(2)
    best.add(30, 0.5)
    assert best.exhausted(2)
    assert not best.exhausted(None)
