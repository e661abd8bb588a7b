"""The objective of the embedding task: the texts of a whole step, on all ranks, are compared with each other.

Shapes: R model inputs, T tokens, n texts of this rank, N texts of all ranks, E width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertctl.errors import raise_problems
from bertctl.heads.model import Model
from bertctl.tasks.embedding_data import PairExample
from bertctl.tasks.embedding_losses import (
    cosent,
    cosine_mse,
    in_batch_negatives,
    no_negatives,
    paired_cosines,
    text_ids,
    triplet,
)
from bertctl.tasks.embedding_section import EmbeddingSection
from bertctl.training.batching import Batch
from bertctl.training.runtime import Runtime

SCORED = ("cosent", "cosine_mse")
ANCHOR, POSITIVE, NEGATIVE = 0, 1, 2  # roles; further negatives of an example have 3, 4, ...
WIDTH_MULTIPLE = 8


@dataclass(frozen=True)
class Texts:
    """Texts in the order of their examples and, within one, of their roles: vectors [n, E], groups [n] (which example),
    roles [n], ids [n] (equal for equal texts), scores [n]."""

    vectors: Tensor
    groups: Tensor
    roles: Tensor
    ids: Tensor
    scores: Tensor


class EmbeddingObjective(nn.Module):
    """One summed loss, divided by the anchors, the triplets or the scored pairs.

    A batch is the whole share of a rank: examples that are compared cannot be parted. With `micro_batch_size` the
    inputs of so many examples go through the encoder at a time, and in the backward pass again, so that memory holds
    the activations of as many: the gradient is that of the whole batch, dropout included.
    Source: GradCache, arXiv:2101.06983.
    """

    def __init__(
        self, model: Model, section: EmbeddingSection, loss: str, runtime: Runtime, micro_batch_size: int | None
    ) -> None:
        super().__init__()
        self.model, self.section, self.loss, self.runtime = model, section, loss, runtime
        self.micro_batch_size = micro_batch_size
        self.weights = {loss: 1.0}

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """The items of this rank that the loss is divided by."""
        texts = self._texts(batch, batch["input_ids"].new_zeros(len(batch["input_ids"]), 0))
        kept = self._triplets(texts)[1] if self.loss == "triplet" else texts.roles == ANCHOR
        return {self.loss: kept.sum()}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed loss of a batch of `tasks.batches.collate`, whose `labels`, if it has any, are scores."""
        vectors = self._vectors(batch)
        texts = self._texts(batch, vectors)
        compare = {
            "in_batch_negatives": self._in_batch_negatives,
            "triplet": self._triplet,
            "cosent": self._cosent,
            "cosine_mse": self._cosine_mse,
        }
        nothing = 0.0 * vectors.sum()  # a rank without examples has a gradient too, of zeros
        return {self.loss: compare[self.loss](texts) + nothing}

    def _in_batch_negatives(self, texts: Texts) -> Tensor:
        vectors, start = self.runtime.gather(texts.vectors)
        roles, ids = self.runtime.gather(torch.stack([texts.roles, texts.ids], dim=1))[0].unbind(1)
        anchors, positives, negatives = roles == ANCHOR, roles == POSITIVE, roles >= NEGATIVE
        first = anchors[:start].sum()
        own = first + torch.arange(int((texts.roles == ANCHOR).sum()), device=ids.device)
        candidates = torch.cat([vectors[positives], vectors[negatives]])
        candidate_ids = torch.cat([ids[positives], ids[negatives]])
        excluded = no_negatives(ids[anchors][own], ids[anchors], ids[positives], candidate_ids, own)
        temperature = self.section.temperature
        there = in_batch_negatives(vectors[anchors][own], candidates, own, excluded, temperature=temperature)
        if not self.section.both_directions:
            return there
        excluded = no_negatives(ids[positives][own], ids[positives], ids[anchors], ids[anchors], own)
        back = in_batch_negatives(vectors[positives][own], vectors[anchors], own, excluded, temperature=temperature)
        return (there + back) / 2

    def _triplets(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """(places of the negatives, which of them count): none that is the anchor or the positive in other words."""
        negatives = (texts.roles >= NEGATIVE).nonzero().squeeze(1)
        of = texts.groups[negatives]
        anchors, positives = (texts.ids[texts.roles == role] for role in (ANCHOR, POSITIVE))
        return negatives, (texts.ids[negatives] != anchors[of]) & (texts.ids[negatives] != positives[of])

    def _triplet(self, texts: Texts) -> Tensor:
        negatives, kept = self._triplets(texts)
        of = texts.groups[negatives]
        anchors, positives = (texts.vectors[texts.roles == role][of] for role in (ANCHOR, POSITIVE))
        return triplet(anchors, positives, texts.vectors[negatives], kept, margin=self.section.margin)

    def _scored(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """Cosine and score of each pair."""
        first = texts.roles == ANCHOR
        return paired_cosines(texts.vectors[first], texts.vectors[texts.roles == POSITIVE]), texts.scores[first]

    def _cosent(self, texts: Texts) -> Tensor:
        """The batch's one number, counted once for each of the pairs: a rank adds its share."""
        found, wanted = self._scored(texts)
        share = len(found)
        found, wanted = self.runtime.gather(found)[0], self.runtime.gather(wanted)[0]
        return share * cosent(found, wanted, temperature=self.section.temperature)

    def _cosine_mse(self, texts: Texts) -> Tensor:
        found, wanted = self._scored(texts)
        return cosine_mse(found, wanted / self.section.highest_score)

    def _texts(self, batch: Batch, vectors: Tensor) -> Texts:
        """Windows of one text as their mean; rows without a token, which fill up a rank, left out."""
        real = _real(batch)
        kept = real.any(1)
        span = int(batch["roles"].max()) + 1
        keys, text = torch.unique((batch["groups"] * span + batch["roles"])[kept], return_inverse=True)
        scores = batch["labels"][kept] if "labels" in batch else vectors.new_zeros(len(text))
        windows = torch.bincount(text, minlength=len(keys))
        return Texts(
            vectors=vectors.new_zeros(len(keys), vectors.shape[1]).index_add(0, text, vectors[kept]) / windows[:, None],
            groups=keys // span,
            roles=keys % span,
            ids=torch.zeros_like(keys).index_add(0, text, text_ids(batch["input_ids"], real)[kept]),
            scores=scores.new_zeros(len(keys)).scatter(0, text, scores),
        )

    def _vectors(self, batch: Batch) -> Tensor:
        """[R, E] float32, computed in parts of like length, each no wider than it must be: questions are shorter than
        passages, and would be mostly padding beside them."""
        ids, types, real = batch["input_ids"], batch.get("token_type_ids"), _real(batch)
        lengths = real.sum(1)
        order = lengths.argsort(descending=True, stable=True)
        examples = int(batch["groups"].max()) + 1
        rows = examples if self.micro_batch_size is None else self.micro_batch_size * -(-len(ids) // examples)
        parts = []
        for part in order.split(rows):
            longest = max(1, int(lengths[part[0]]))
            width = min(ids.shape[1], -(-longest // WIDTH_MULTIPLE) * WIDTH_MULTIPLE)
            segments = None if types is None else types[part, :width]
            inputs = ids[part, :width], real[part, :width], segments
            keeps = self.micro_batch_size is None or not torch.is_grad_enabled()
            parts.append(self._encode(*inputs) if keeps else checkpoint(self._encode, *inputs, use_reentrant=False))
        return torch.cat(parts)[order.argsort()]

    def _encode(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        return self.model.read("embedding", input_ids, attention_mask, token_type_ids).float()


def _real(batch: Batch) -> Tensor:
    """[R, T] bool."""
    mask = batch.get("attention_mask")
    return torch.ones_like(batch["input_ids"], dtype=torch.bool) if mask is None else mask.bool()


def objective_for(
    section: EmbeddingSection, examples: Sequence[PairExample]
) -> Callable[[Model, Runtime, int | None], EmbeddingObjective]:
    """What makes the objective of a model, for a runtime and a micro-batch size. Errors: BertctlError if the training
    examples are not of the kind that the loss compares."""
    scores = [example.score for example in examples if example.score is not None]
    loss = section.loss or ("cosent" if scores else "in_batch_negatives")
    where = examples[0].where
    problems = []
    if loss in SCORED and not scores:
        problems.append(f"{where}: got pairs without a score, expected scored pairs for the loss {loss}")
    if loss not in SCORED and scores:
        problems.append(f"{where}: got scored pairs, expected pairs that belong together for the loss {loss}")
    if loss == "triplet" and not scores and not any(example.negatives for example in examples):
        problems.append(f"{where}: got no negatives, expected triplets for the loss triplet")
    if loss == "cosine_mse":
        outside = [e for e in examples if e.score is not None and abs(e.score) > section.highest_score]
        expected = f"at most {section.highest_score:g} (`embedding.highest_score`), which a cosine of 1 stands for"
        problems += [f"{e.where}: got the score {e.score:g}, expected {expected}" for e in outside[:1]]
    raise_problems(problems)
    return lambda model, runtime, micro: EmbeddingObjective(model, section, loss, runtime, micro)
