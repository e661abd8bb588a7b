"""The pretraining objective: masked tokens, and sentence pairs if there are any.

Shapes: B batch, T tokens, N masked positions, V vocabulary.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.heads.model import Model
from bertctl.training.batching import Batch


class PretrainingObjective(nn.Module):
    """Summed cross-entropies: `mlm` over masked tokens, `sentence_pair` over examples; the loss is the sum of their
    means, as in BERT (arXiv:1810.04805, appendix A.2)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.weights = {"mlm": 1.0} | ({"sentence_pair": 1.0} if "sentence_pair" in model.head_outputs else {})

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """What each term is divided by: masked tokens, examples."""
        counts = {"mlm": batch["labels"].numel(), "sentence_pair": len(batch["input_ids"])}
        return {term: torch.tensor(counts[term], device=batch["labels"].device) for term in self.weights}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed losses of a batch of `masked_batch`."""
        masked, pair = self.logits(batch)
        losses = {"mlm": F.cross_entropy(masked.float(), batch["labels"], reduction="sum")}
        if pair is not None:
            losses["sentence_pair"] = F.cross_entropy(pair.float(), batch["pair_labels"], reduction="sum")
        return losses

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Vocabulary logits [N, V] at the masked positions only, and pair logits [B, 2]."""
        output = self.model(batch["input_ids"], batch.get("attention_mask"), batch.get("token_type_ids"))
        pair = self.model.logits("sentence_pair", output) if "sentence_pair" in self.weights else None
        return self.model.masked_logits(output, batch["masked_positions"]), pair
