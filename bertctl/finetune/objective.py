"""The fine-tuning objective: a task's own loss of its head's logits.

Shapes: B batch, T tokens, C outputs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bertctl.errors import BertctlError, raise_problems
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.data import TaskData
from bertctl.finetune.strategy_config import LossSection
from bertctl.heads.model import Model
from bertctl.tasks.losses import PLAIN, LossOptions
from bertctl.tasks.task import IGNORED, Features, Task
from bertctl.training.batching import Batch, inputs_of

if TYPE_CHECKING:
    from bertctl.tasks.task import MakeObjective


class TaskObjective(nn.Module):
    """Summed loss `task`, divided by the labelled items: examples, or the first pieces of words."""

    class_weights: Tensor | None

    def __init__(self, model: Model, task: Task, options: LossOptions = PLAIN) -> None:
        super().__init__()
        assert task.loss is not None  # else the task has an objective of its own
        self.model, self.task, self.loss, self.plain_options = model, task, task.loss, options
        self.register_buffer("class_weights", options.class_weights, persistent=False)
        self.weights = {"task": 1.0}

    @property
    def options(self) -> LossOptions:
        """The options, with the class weights on the device of the model."""
        return replace(self.plain_options, class_weights=self.class_weights)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """The labelled items of the batch."""
        return {"task": self.loss.count(batch, self.options)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed loss of a batch of `tasks.batches.collate`."""
        return {"task": self.loss.sum(self.logits(batch), batch, self.options)}

    def logits(self, batch: Batch) -> Tensor:
        """[B, C] or [B, T, C]."""
        return self.model.read(
            self.task.head, inputs_of(batch), batch.get("attention_mask"), batch.get("token_type_ids")
        )


def objective_maker(section: FinetuneSection, data: TaskData) -> "MakeObjective":
    """(model, runtime, micro-batch size) -> the task's own objective, or else the loss of its head's logits. Errors:
    BertctlError for what the recipe asks of a loss that it cannot do."""
    task, options = data.task, loss_options(section.loss, data.task, data.labels, data.train)
    if task.objective is not None:
        return task.objective(section.embedding, data.splits.train)
    return lambda model, runtime, micro_batch_size: TaskObjective(model, task, options)


def loss_options(section: LossSection, task: Task, labels: Sequence[str], train: Sequence[Features]) -> LossOptions:
    """What the recipe changes about the loss of a task. Errors: BertctlError for what it does not take, and for class
    weights of labels that there are none of."""
    given = {name for name, value in section.model_dump().items() if value}
    takes = () if task.loss is None else task.loss.takes
    known = f"the loss of {task.name} takes {', '.join(takes) or 'none of them'}"
    problems = [f"finetune.loss.{name}: {known}" for name in sorted(given - set(takes))]
    named = section.class_weights if isinstance(section.class_weights, dict) else {}
    if not problems:
        known = f"expected some of {', '.join(labels)}"
        problems = [
            f"finetune.loss.class_weights: got the label {name!r}, {known}" for name in named if name not in labels
        ]
    raise_problems(problems)
    weights = None
    if section.class_weights == "balanced":
        weights = balanced_weights(train, len(labels))
    elif section.class_weights is not None:
        weights = torch.tensor([named.get(label, 1.0) for label in labels])
        if not weights[_items(train)].any():
            raise BertctlError("finetune.loss.class_weights: got 0 for every label of train, expected one that counts")
    return LossOptions(weights, section.label_smoothing, section.focal_gamma)


def balanced_weights(train: Sequence[Features], classes: int) -> Tensor:
    """[C]: items / (occurring classes * items of the class), so that each class has the same say; 1 for a class without
    items. Source: the `balanced` of scikit-learn, after King and Zeng, 2001."""
    items = _items(train)
    counts = items.bincount(minlength=classes).double()
    weights = len(items) / (int((counts > 0).sum()) * counts.clamp(min=1))
    return torch.where(counts > 0, weights, 1.0).float()


def _items(train: Sequence[Features]) -> Tensor:
    """The number of the class of every labelled item, of whole texts or of words."""
    rows = [feature.labels if isinstance(feature.labels, list) else [feature.labels] for feature in train]
    return torch.tensor([label for row in rows for label in row if label not in (None, IGNORED)], dtype=torch.int64)
