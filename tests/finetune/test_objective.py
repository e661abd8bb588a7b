"""Summed losses with counts: how a step is cut into micro-batches does not change its gradient."""

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.finetune.objective import TaskObjective
from bertctl.heads.model import Model
from bertctl.tasks.batches import collate
from bertctl.tasks.losses import summed_cross_entropy
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import IGNORED, Features

SMALL = EncoderConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=24,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def features(head: str) -> list[Features]:
    rows = []
    for place, length in enumerate((3, 20, 7, 12, 5)):
        ids = [1 + (place + i) % 29 for i in range(length)]
        labels = place % 3 if head == "sequence" else [IGNORED, *(i % 3 for i in range(length - 2)), IGNORED]
        rows.append(Features(ids, [0] * length, labels, place, length))
    return rows


def gradient(model: Model, head: str, parts: list[list[Features]]) -> tuple[float, torch.Tensor]:
    """Loss and gradient of a step in micro-batches, as the loop computes them."""
    objective = TaskObjective(model, TASKS["ner" if head == "token" else "classification"])
    batches = [collate(part, model, 0) for part in parts]
    count = sum(objective.counts(batch)["task"] for batch in batches)
    model.zero_grad()
    losses = [objective(batch)["task"] / count for batch in batches]
    for loss in losses:
        loss.backward()
    grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return sum(loss.item() for loss in losses), torch.cat(grads)


@pytest.mark.parametrize("head", ["sequence", "token"])
def test_micro_batches_of_any_size_give_the_gradient_of_the_whole(head):
    torch.manual_seed(0)
    model, rows = Model(SMALL, {head: 3}), features(head)
    loss, whole = gradient(model, head, [rows])
    for parts in ([[row] for row in rows], [rows[:1], rows[1:]], [rows[:3], rows[3:]]):
        cut_loss, cut = gradient(model, head, parts)
        assert cut_loss == pytest.approx(loss, abs=1e-6)
        assert torch.allclose(cut, whole, atol=1e-6)


def test_only_labelled_items_count():
    logits = torch.tensor([[[2.0, 0.0], [0.0, 3.0], [9.0, -9.0]]])
    labels = torch.tensor([[0, 1, IGNORED]])
    by_hand = torch.log1p(torch.exp(torch.tensor(-2.0))) + torch.log1p(torch.exp(torch.tensor(-3.0)))
    assert float(summed_cross_entropy(logits, labels)) == pytest.approx(float(by_hand), abs=1e-6)
