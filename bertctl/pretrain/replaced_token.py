"""ELECTRA's objective: a small generator fills masked places, and the model tells which tokens are not the original.

Source: arXiv:2003.10555 and its released code. What the generator puts in place is drawn by inverse transform sampling
with numbers that come with the batch, so a step is the same for any number of micro-batches and ranks, and after any
resume. No gradient passes through the drawing.
Shapes: B batch, T tokens, N masked positions, M real tokens, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.pretrain.objective import MASKED_COLUMNS, by_example, masked_rows, masked_summary
from bertctl.pretrain.shared_embeddings import SHARINGS
from bertctl.training.batching import Batch
from bertctl.training.runtime import Runtime

HEAD = "replaced_token"


def generator_config(config: EncoderConfig, width: float) -> EncoderConfig:
    """The generator of a discriminator: `width` of its hidden and intermediate size and of its heads, all its layers,
    and embeddings of its size, for the two to share. Source: section 3.2; the released code has the same."""
    hidden = max(2, 2 * round(config.hidden_size * width / 2))
    most = max(1, hidden // config.head_size)
    heads = next(n for n in range(most, 0, -1) if hidden % n == 0 and hidden // n % 2 == 0)
    embedding = config.embedding_size or config.hidden_size
    return replace(
        config,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=max(1, round(config.intermediate_size * width)),
        embedding_size=None if embedding == hidden else embedding,
    )


@torch.no_grad()
def sampled(logits: Tensor, draws: Tensor) -> Tensor:
    """Tokens [N] drawn from softmax(logits [N, V]) by uniform numbers [N] in [0, 1)."""
    reached = logits.float().softmax(dim=-1).cumsum(dim=-1)
    wanted = draws[:, None] * reached[:, -1:]  # float32 shares do not add up to 1 exactly
    return torch.searchsorted(reached, wanted, right=True).squeeze(-1).clamp(max=logits.shape[-1] - 1)


class ReplacedTokenObjective(nn.Module):
    """Summed losses: `mlm` of the generator over masked tokens, `replaced_token` of the model over real tokens, the
    binary cross-entropy of telling replaced ones. A token that was drawn as it was counts as original."""

    columns = (*MASKED_COLUMNS, "loss", "right", "tokens", "found", "called", "replaced")

    def __init__(self, model: Model, generator: Model, weights: Mapping[str, float], sharing: str = "shared") -> None:
        super().__init__()
        SHARINGS[sharing](generator, model)
        self.model, self.generator = model, generator
        self.beside = {"generator": generator}
        self.weights = dict(weights)

    @property
    def stored(self) -> nn.Module:
        """What a checkpoint holds: both models, what they share once."""
        return self

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """What each term is divided by: masked tokens, real tokens."""
        real = torch.as_tensor(len(real_places(batch)), device=batch["labels"].device)
        return {"mlm": torch.as_tensor(batch["labels"].numel(), device=real.device), HEAD: real}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed losses of a batch of `masked_batch` with draws."""
        guesses, logits, replaced = self.logits(batch)
        return {
            "mlm": F.cross_entropy(guesses.float(), batch["labels"], reduction="sum"),
            HEAD: F.binary_cross_entropy_with_logits(logits.float(), replaced.float(), reduction="sum"),
        }

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The generator's logits [N, V] at the masked positions; the model's [M] at the real tokens, and whether these
        were replaced, [M] bool."""
        rest = (batch.get("attention_mask"), batch.get("token_type_ids"))
        places = batch["masked_positions"]
        guesses = self.generator.masked_logits(self.generator(batch["input_ids"], *rest), places)
        original = batch["input_ids"].flatten().index_copy(0, places, batch["labels"])
        corrupted = original.index_copy(0, places, sampled(guesses, batch["draws"]))
        output = self.model(corrupted.view_as(batch["input_ids"]), *rest)
        real = real_places(batch)
        return guesses, self.model.logits(HEAD, output).flatten()[real], (corrupted != original)[real]

    def rows(self, batch: Batch, runtime: Runtime) -> NDArray[np.float64]:
        """Sums for each of the B examples of a masked batch, [B, 9] as `columns` says."""
        batch = {name: tensor.to(runtime.device) for name, tensor in batch.items()}
        with runtime.autocast():
            guesses, logits, replaced = self.logits(batch)
        examples, width = batch["input_ids"].shape
        called = logits > 0
        losses = F.binary_cross_entropy_with_logits(logits.float(), replaced.float(), reduction="none")
        told = (losses, called == replaced, torch.ones_like(called), called & replaced, called, replaced)
        own = by_example(real_places(batch) // width, examples, *told)
        return np.concatenate([masked_rows(guesses, batch), own], axis=1)

    def summary(self, sums: Mapping[str, float], examples: int) -> dict[str, Any]:
        """The generator's scores; the model's over all real tokens, and precision and recall of replaced ones: None
        where nothing was called replaced, or nothing was replaced, and `undefined` then says so."""
        tokens, undefined = max(sums["tokens"], 1), {}
        if not sums["called"]:
            undefined["replaced_token_precision"] = "no token was called replaced"
        if not sums["replaced"]:
            undefined["replaced_token_recall"] = "no token was replaced"
        result = masked_summary(sums) | {
            "replaced_token_loss": sums["loss"] / tokens,
            "replaced_token_accuracy": sums["right"] / tokens,
            "replaced_token_precision": sums["found"] / sums["called"] if sums["called"] else None,
            "replaced_token_recall": sums["found"] / sums["replaced"] if sums["replaced"] else None,
            "replaced_token_share": sums["replaced"] / tokens,
        }
        return result | ({"undefined": undefined} if undefined else {})


def real_places(batch: Batch) -> Tensor:
    """[M] places of the real tokens in the flattened batch."""
    mask, ids = batch.get("attention_mask"), batch["input_ids"]
    return torch.arange(ids.numel(), device=ids.device) if mask is None else mask.flatten().nonzero().squeeze(-1)
