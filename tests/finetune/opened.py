"""Labelled data as the stage opens them, for tests of what it then does with them."""

from typing import Any

from bertctl.finetune.data import TaskData, prepare_data
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS


def open_data(name: str, data: DataSection, tokenizer: Any, *, max_length: int = 40) -> TaskData:
    """The splits of a task, read, checked and encoded."""
    task = TASKS[name]
    splits = training_data(task, data, seed=0)
    labels = task.labels(splits.train)
    return prepare_data(task, data, splits, tokenizer, max_length=max_length, labels=labels, known=None)
