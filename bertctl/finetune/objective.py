"""The fine-tuning objective: cross-entropy of labels, one a text or one a word.

Shapes: B batch, T tokens, C labels.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.heads.model import Model
from bertctl.tasks.task import IGNORED
from bertctl.training.batching import Batch


class TaskObjective(nn.Module):
    """Summed cross-entropy `task`, divided by the labelled items: examples, or the first pieces of words."""

    def __init__(self, model: Model, head: str) -> None:
        super().__init__()
        self.model, self.head = model, head
        self.weights = {"task": 1.0}

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """The labelled items of the batch."""
        return {"task": (batch["labels"] != IGNORED).sum()}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed loss of a batch of `tasks.batches.collate`."""
        return {"task": summed_cross_entropy(self.logits(batch), batch["labels"])}

    def logits(self, batch: Batch) -> Tensor:
        """[B, C] or [B, T, C]."""
        output = self.model(batch["input_ids"], batch.get("attention_mask"), batch.get("token_type_ids"))
        return self.model.logits(self.head, output)


def summed_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum over the items that have a label. Shapes: logits [..., C], labels [...] with -100 where there is none."""
    return F.cross_entropy(logits.float().flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")
