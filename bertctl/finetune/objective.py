"""The fine-tuning objective: a task's own loss of its head's logits.

Shapes: B batch, T tokens, C outputs.
"""

from dataclasses import replace

from torch import Tensor, nn

from bertctl.heads.model import Model
from bertctl.tasks.losses import PLAIN, LossOptions
from bertctl.tasks.task import Task
from bertctl.training.batching import Batch


class TaskObjective(nn.Module):
    """Summed loss `task`, divided by the labelled items: examples, or the first pieces of words."""

    class_weights: Tensor | None

    def __init__(self, model: Model, task: Task, options: LossOptions = PLAIN) -> None:
        super().__init__()
        self.model, self.task, self.plain_options = model, task, options
        self.register_buffer("class_weights", options.class_weights, persistent=False)
        self.weights = {"task": 1.0}

    @property
    def options(self) -> LossOptions:
        """The options, with the class weights on the device of the model."""
        return replace(self.plain_options, class_weights=self.class_weights)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """The labelled items of the batch."""
        return {"task": self.task.loss.count(batch, self.options)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed loss of a batch of `tasks.batches.collate`."""
        return {"task": self.task.loss.sum(self.logits(batch), batch, self.options)}

    def logits(self, batch: Batch) -> Tensor:
        """[B, C] or [B, T, C]."""
        output = self.model(batch["input_ids"], batch.get("attention_mask"), batch.get("token_type_ids"))
        return self.model.logits(self.task.head, output)


def build_objective(model: Model, task: Task, options: LossOptions = PLAIN) -> nn.Module:
    """The task's own objective, or else the loss of its head's logits."""
    return TaskObjective(model, task, options) if task.objective is None else task.objective(model, options)
