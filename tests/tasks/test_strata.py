"""Parts of the data that hold the labels in their shares."""

from collections import Counter

import pytest

from bertctl.tasks.strata import strata, stratified_order
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import TextExample, TokenExample

TEXTS = TASKS["classification"]
SHARES = {"often": 70, "seldom": 20, "rare": 10}
EXAMPLES = [
    TextExample(f"t{n}", None, label, "") for n, label in enumerate(n for n in SHARES for _ in range(SHARES[n]))
]


@pytest.mark.parametrize("count", [10, 20, 30, 70, 100])
def test_every_stretch_from_the_start_has_the_labels_in_their_shares(count: int) -> None:
    order = stratified_order(TEXTS, EXAMPLES, seed=3)
    assert sorted(order) == list(range(100))
    found = Counter(EXAMPLES[place].label for place in order[:count])
    for label, size in SHARES.items():
        assert abs(found[label] - size * count / 100) <= 1


def test_the_order_goes_by_seed() -> None:
    assert stratified_order(TEXTS, EXAMPLES, 1) == stratified_order(TEXTS, EXAMPLES, 1)
    assert stratified_order(TEXTS, EXAMPLES, 1) != stratified_order(TEXTS, EXAMPLES, 2)


def test_of_several_labels_the_rarest_counts() -> None:
    tags = [("A", "B"), ("A", "A"), ("B", "A"), ("A", "A", "A")]
    sentences = [TokenExample(("w",) * len(row), row, "f", ()) for row in tags]
    assert [set(places) for places in strata(TASKS["pos"], sentences, 0)] == [{0, 2}, {1, 3}]
