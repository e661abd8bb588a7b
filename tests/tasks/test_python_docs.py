"""The data that Python carries, as examples of the tasks."""

import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.audit import audit
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS

SIZES = {"train_examples": 48, "dev_examples": 16, "test_examples": 32}


@pytest.mark.parametrize(
    ("task", "subset"),
    [("classification", None), ("classification", "pairs"), ("ner", None), ("qa", None), ("embedding", None)],
)
def test_splits_have_the_sizes_asked_for_and_share_nothing(task: str, subset: str | None) -> None:
    data = DataSection(name="python_docs", subset=subset, **SIZES)
    splits = training_data(TASKS[task], data, seed=5)
    assert [
        0.7 * size <= len(examples) <= size for size, (_, examples) in zip(SIZES.values(), splits.items(), strict=True)
    ]
    report = audit(TASKS[task], splits)
    assert all(leak["folded"] == 0 for leak in report["leakage"].values())
    assert report["contradictions"]["train"]["texts"] == 0


def test_there_is_nothing_for_parts_of_speech() -> None:
    with pytest.raises(BertctlError, match="python_docs: got the task pos"):
        training_data(TASKS["pos"], DataSection(name="python_docs"), seed=0)
