"""The pretraining objective: masked tokens, and sentence pairs if there are any.

Shapes: B batch, T tokens, N masked positions, V vocabulary.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.encoder.encoder import EncoderOutput
from bertctl.heads.model import Model
from bertctl.training.batching import Batch
from bertctl.training.runtime import Runtime

MASKED_COLUMNS = ("mlm_loss", "mlm_right", "masked_tokens")


class PretrainingObjective(nn.Module):
    """Summed cross-entropies: `mlm` over masked tokens, `sentence_pair` over examples; the loss is the sum of their
    means, as in BERT (arXiv:1810.04805, appendix A.2)."""

    columns = (*MASKED_COLUMNS, "pairs_right")

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.beside: dict[str, Model] = {}
        self.weights = {"mlm": 1.0} | ({"sentence_pair": 1.0} if "sentence_pair" in model.head_outputs else {})

    @property
    def stored(self) -> nn.Module:
        """What a checkpoint holds."""
        return self.model

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """What each term is divided by: masked tokens, examples."""
        counts = {"mlm": batch["labels"].numel(), "sentence_pair": len(batch["input_ids"])}
        return {term: torch.tensor(counts[term], device=batch["labels"].device) for term in self.weights}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed losses of a batch of `masked_batch`."""
        output = self._encode(batch)
        losses = {"mlm": self.model.masked_loss(output, batch["masked_positions"], batch["labels"])}
        if "sentence_pair" in self.weights:
            pair = self.model.logits("sentence_pair", output)
            losses["sentence_pair"] = F.cross_entropy(pair.float(), batch["pair_labels"], reduction="sum")
        return losses

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Vocabulary logits [N, V] at the masked positions only, and pair logits [B, 2]."""
        output = self._encode(batch)
        pair = self.model.logits("sentence_pair", output) if "sentence_pair" in self.weights else None
        return self.model.masked_logits(output, batch["masked_positions"]), pair

    def _encode(self, batch: Batch) -> EncoderOutput:
        """Of the last layer only what the heads read: the masked tokens, and the first ones if there are pairs."""
        ids = batch["input_ids"]
        places = self.model.places_read(ids, batch["masked_positions"])
        return self.model(ids, batch.get("attention_mask"), batch.get("token_type_ids"), places=places)

    def rows(self, batch: Batch, runtime: Runtime) -> NDArray[np.float64]:
        """Sums for each of the B examples of a masked batch, [B, 4] as `columns` says."""
        batch = {name: tensor.to(runtime.device) for name, tensor in batch.items()}
        with runtime.autocast():
            masked, pair = self.logits(batch)
        rows = np.zeros((len(batch["input_ids"]), len(self.columns)))
        rows[:, :3] = masked_rows(masked, batch)
        if pair is not None and "pair_labels" in batch:
            rows[:, 3] = (pair.argmax(dim=-1) == batch["pair_labels"]).double().cpu().numpy()
        return rows

    def summary(self, sums: Mapping[str, float], examples: int) -> dict[str, Any]:
        """What the sums of all rows say."""
        pairs = {"sentence_pair_accuracy": sums["pairs_right"] / examples} if "sentence_pair" in self.weights else {}
        return masked_summary(sums) | pairs


def masked_rows(logits: Tensor, batch: Batch) -> NDArray[np.float64]:
    """Loss, right tokens and masked tokens of each example, [B, 3], from the logits [N, V] at the masked positions."""
    examples, width = batch["input_ids"].shape
    losses = F.cross_entropy(logits.float(), batch["labels"], reduction="none")
    right = logits.argmax(dim=-1) == batch["labels"]
    return by_example(batch["masked_positions"] // width, examples, losses, right, torch.ones_like(right))


def by_example(example: Tensor, examples: int, *values: Tensor) -> NDArray[np.float64]:
    """[examples, len(values)]: sums of each of `values` [N] over those that belong to the same `example` [N]."""
    numbers = example.cpu().numpy()
    columns = [np.bincount(numbers, value.double().cpu().numpy(), minlength=examples) for value in values]
    return np.stack(columns, axis=1)


def masked_summary(sums: Mapping[str, float]) -> dict[str, Any]:
    """Loss (nats), accuracy and perplexity over masked tokens."""
    tokens = max(sums["masked_tokens"], 1)
    loss = sums["mlm_loss"] / tokens
    return {
        "masked_tokens": int(sums["masked_tokens"]),
        "mlm_loss": loss,
        "mlm_accuracy": sums["mlm_right"] / tokens,
        "perplexity": math.exp(min(loss, 700.0)),
    }
