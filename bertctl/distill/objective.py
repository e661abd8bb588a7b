"""The distillation objective: what the student's outputs are compared with, and how much each comparison counts.

Shapes: B batch, T tokens, N rows to imitate, M real tokens, C classes or vocabulary, E hidden size, H heads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.distill.losses import LOSSES, View
from bertctl.encoder.encoder import EncoderOutput
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.tasks.imitation import Imitation, Measure
from bertctl.tasks.losses import PLAIN
from bertctl.tasks.task import Task
from bertctl.training.batching import Batch, inputs_of, real_tokens


@dataclass(frozen=True)
class Predicted:
    """`rows` [N, C]: the numbers that imitate the teacher's, compared by `measure`; `labelled`: for each loss on labels
    its logits and the labels."""

    rows: Tensor
    labelled: dict[str, tuple[Tensor, Tensor]]
    measure: Measure = "kl"


class Reader(Protocol):
    """How one kind of head is read: the only part that knows whether this is pretraining data or a task."""

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Divisors: `rows`, and one for each loss on labels."""
        ...

    def places(self, model: Model, batch: Batch) -> Tensor | None:
        """The only places among the flattened tokens whose last state `predict` reads; None if it reads all."""
        ...

    def predict(self, model: Model, output: EncoderOutput, batch: Batch) -> Predicted:
        """The logits of a model for a batch; the same rows in the same order for any model."""
        ...

    def hard(self, name: str, predicted: Predicted, batch: Batch) -> Tensor:
        """The summed loss on labels that `name` is."""
        ...


def real_positions(output: EncoderOutput) -> Tensor:
    """[M] places of the real tokens in the flattened batch."""
    states, mask = output.last_hidden_state, output.attention_mask
    if mask is None:
        return torch.arange(states.shape[:2].numel(), device=states.device)
    return mask.flatten().nonzero().squeeze(-1)


@dataclass(frozen=True)
class MaskedReader:
    """Masked tokens, and sentence pairs if `pairs`; soft targets at `all` real tokens or at the `masked` ones."""

    soft_positions: str
    pairs: bool

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        masked = torch.as_tensor(batch["labels"].numel(), device=batch["labels"].device)
        rows = masked if self.soft_positions == "masked" else real_tokens(batch)
        examples = torch.as_tensor(len(batch["input_ids"]), device=batch["labels"].device)
        return {"rows": rows, "mlm": masked, "sentence_pair": examples}

    def places(self, model: Model, batch: Batch) -> Tensor | None:
        all_of_them = self.soft_positions == "all"
        return None if all_of_them else model.places_read(batch["input_ids"], batch["masked_positions"])

    def predict(self, model: Model, output: EncoderOutput, batch: Batch) -> Predicted:
        masked = batch["masked_positions"]
        if self.soft_positions == "masked":
            rows = masked_rows = model.masked_logits(output, masked)
        else:
            real = real_positions(output)
            rows = model.masked_logits(output, real)
            masked_rows = rows[torch.searchsorted(real, masked)]
        labelled = {"mlm": (masked_rows, batch["labels"])}
        if self.pairs and "sentence_pair" in model.head_outputs:
            labelled["sentence_pair"] = (model.logits("sentence_pair", output), batch["pair_labels"])
        return Predicted(rows, labelled)

    def hard(self, name: str, predicted: Predicted, batch: Batch) -> Tensor:
        logits, labels = predicted.labelled[name]
        return F.cross_entropy(logits.float(), labels, reduction="sum")


@dataclass(frozen=True)
class TaskReader:
    """A task's head: rows as the task imitates, and the task's own loss on labels if it has one."""

    task: Task
    imitation: Imitation

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        labelled = {} if self.task.loss is None else {"hard_labels": self.task.loss.count(batch, PLAIN)}
        return {"rows": self.imitation.count(batch), **labelled}

    def places(self, model: Model, batch: Batch) -> Tensor | None:
        return model.first_tokens(self.task.head, inputs_of(batch))

    def predict(self, model: Model, output: EncoderOutput, batch: Batch) -> Predicted:
        logits = model.logits(self.task.head, output)
        labelled = {} if self.task.loss is None else {"hard_labels": (logits, batch["labels"])}
        return Predicted(self.imitation.rows(logits, batch), labelled, self.imitation.measure)

    def hard(self, name: str, predicted: Predicted, batch: Batch) -> Tensor:
        assert self.task.loss is not None  # else no weight asks for it
        return self.task.loss.sum(predicted.labelled[name][0], batch, PLAIN)


class DistillationObjective(nn.Module):
    """Weighted sum of the means of the losses in `weights` (names of LOSSES and of losses on labels).

    The teacher is no submodule: it is never trained, saved, or spread over ranks, and it stays in evaluation mode. A
    learned projection takes the student's states to the teacher's width where the two differ (as TinyBERT's W_h,
    arXiv:1909.10351); it is saved in checkpoints and thrown away with the objective.
    """

    trains_all = False  # a loss of inner states reaches nothing that comes after them

    def __init__(
        self, student: Model, teacher: Model, reader: Reader, *, weights: Mapping[str, float], temperature: float
    ) -> None:
        super().__init__()
        self.student = student
        self.reader = reader
        self.temperature = temperature
        self.weights = {name: weight for name, weight in weights.items() if weight > 0}
        self._teacher = (teacher.eval().requires_grad_(False),)  # in a tuple, so that nn.Module does not take it in
        self.attention = any(LOSSES[name].reads == "attention" for name in self.weights if name in LOSSES)
        hidden = any(LOSSES[name].reads == "hidden" for name in self.weights if name in LOSSES)
        widths = student.config.hidden_size, teacher.config.hidden_size
        self.projection = nn.Linear(*widths, bias=False) if hidden and widths[0] != widths[1] else None
        heads = student.config.num_attention_heads, teacher.config.num_attention_heads
        if self.attention and heads[0] != heads[1]:
            raise BertctlError(f"weights.attention_kl: got {heads[0]} and {heads[1]} heads, expected equally many")
        patches = student.config.num_patches, teacher.config.num_patches
        self.inner = hidden or self.attention
        if self.inner and patches[0] != patches[1]:
            raise BertctlError(
                f"weights: got {patches[0]} and {patches[1]} patches an image, expected equally many where states or "
                "attention are compared"
            )

    @property
    def teacher(self) -> Model:
        """The model that is imitated."""
        return self._teacher[0]

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """What each term is divided by: rows to imitate, real tokens, or labels."""
        known = {**self.reader.counts(batch), "tokens": real_tokens(batch)}
        return {name: known[LOSSES[name].per if name in LOSSES else name] for name in self.weights}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed losses by term."""
        with torch.no_grad():
            wanted, _ = self._view(self.teacher, batch, None)
        given, predicted = self._view(self.student, batch, self.projection)
        losses = {}
        for name in self.weights:
            if name in LOSSES:
                losses[name] = LOSSES[name].measure(given, wanted, self.temperature)
            else:
                losses[name] = self.reader.hard(name, predicted, batch)
        return losses

    def _view(self, model: Model, batch: Batch, projection: nn.Module | None) -> tuple[View, Predicted]:
        output = model(
            inputs_of(batch),
            batch.get("attention_mask"),
            batch.get("token_type_ids"),
            places=None if self.inner else self.reader.places(model, batch),
            output_attentions=self.attention,
        )
        predicted = self.reader.predict(model, output, batch)
        real = real_positions(output)
        hidden = output.last_hidden_state.flatten(0, 1)[real]
        last = None if output.attentions is None else output.attentions[-1].transpose(1, 2).flatten(0, 1)[real]
        hidden = hidden if projection is None else projection(hidden)
        return View(predicted.rows, hidden, last, predicted.measure), predicted
