"""Cached gradients are the plain ones, ranks see each other's negatives, and neither padding nor windows matter."""

import multiprocessing
import os
import runpy
import socket
from pathlib import Path

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.tasks.batches import TrainingBatches, collate
from bertctl.tasks.embedding_losses import cosent, cosines, paired_cosines
from bertctl.tasks.embedding_objective import EmbeddingObjective
from bertctl.tasks.embedding_section import EmbeddingSection
from bertctl.tasks.task import Features
from bertctl.training import runtime as runtimes
from bertctl.training.loop import fit
from bertctl.training.runtime import Runtime

CPU = Runtime(torch.device("cpu"), torch.float32)


def small(dropout: float = 0.0, projection: int = 0) -> Model:
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        pooling="mean",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.3,
    )
    return Model(config, {"embedding": projection})


def text(place: int, role: int, score: float | None = None) -> Features:
    """A text of its own for each (place, role), 3 to 20 long."""
    length = 3 + (7 * place + 5 * role) % 18
    ids = [1 + (11 * place + 5 * role + i * (place + 2)) % 39 for i in range(length)]
    return Features(ids, [0] * length, score, place, length, role=role)


def examples(count: int, roles: int, scored: bool = False) -> list[list[Features]]:
    return [[text(p, r, float(p * 7 % 5) if scored else None) for r in range(roles)] for p in range(count)]


def loss_and_gradient(model: Model, items: list[list[Features]], loss: str, micro: int | None = None, **section):
    objective = EmbeddingObjective(model, EmbeddingSection(**section), loss, CPU, micro)
    batch = collate([feature for item in items for feature in item], model, 0)
    model.train()
    model.zero_grad()
    torch.manual_seed(3)
    value = objective(batch)[loss] / objective.counts(batch)[loss]
    value.backward()
    return value.item(), torch.cat([p.grad.flatten() for p in model.parameters()])


def vectors(model: Model, items: list[list[Features]], role: int) -> torch.Tensor:
    """One text at a time."""
    rows = [item[role] for item in items]
    return torch.cat([model.logits("embedding", model(torch.tensor([row.input_ids]))) for row in rows])


@torch.no_grad()
def test_the_loss_is_that_of_texts_encoded_one_by_one():
    model, items = small(projection=6).eval(), examples(5, 3)
    anchors, positives, negatives = (vectors(model, items, role) for role in range(3))
    scores = cosines(anchors, torch.cat([positives, negatives])) / 0.1
    there = -scores.log_softmax(1)[range(5), range(5)].mean()
    back = -(cosines(positives, anchors) / 0.1).log_softmax(1).diagonal().mean()
    batch = collate([feature for item in items for feature in item], model, 0)
    for both, expected in ((False, there), (True, (there + back) / 2)):
        section = EmbeddingSection(temperature=0.1, both_directions=both)
        objective = EmbeddingObjective(model, section, "in_batch_negatives", CPU, None)
        assert objective.counts(batch)["in_batch_negatives"] == 5
        assert objective(batch)["in_batch_negatives"].item() / 5 == pytest.approx(expected.item(), rel=1e-5)


@torch.no_grad()
def test_scored_pairs():
    model, items = small().eval(), examples(6, 2, scored=True)
    found = paired_cosines(vectors(model, items, 0), vectors(model, items, 1))
    wanted = torch.tensor([item[0].labels for item in items])
    batch = collate([feature for item in items for feature in item], model, 0)
    section = EmbeddingSection(highest_score=4.0)
    expected = {"cosent": cosent(found, wanted, temperature=0.05), "cosine_mse": (found - wanted / 4).square().mean()}
    for loss, value in expected.items():
        objective = EmbeddingObjective(model, section, loss, CPU, None)
        assert objective(batch)[loss].item() / 6 == pytest.approx(value.item(), rel=1e-5)


@pytest.mark.parametrize("micro", [1, 3, 8])
@pytest.mark.parametrize(
    ("loss", "roles"), [("in_batch_negatives", 3), ("triplet", 4), ("cosent", 2), ("cosine_mse", 2)]
)
def test_cached_gradients_are_the_plain_ones(loss, roles, micro):
    items = examples(8, roles, scored=roles == 2)
    plain = loss_and_gradient(small(), items, loss, both_directions=True)
    cached = loss_and_gradient(small(), items, loss, micro, both_directions=True)
    assert cached[0] == pytest.approx(plain[0], rel=1e-5)
    assert plain[1].abs().max() > 1e-3
    torch.testing.assert_close(cached[1], plain[1], atol=1e-5 * plain[1].abs().max().item(), rtol=1e-4)


def test_cached_gradients_have_the_dropout_of_their_forward_pass(monkeypatch):
    """The same parts, once with their activations kept and once computed again: bit for bit the same gradient."""
    items = examples(8, 2)
    cached = loss_and_gradient(small(dropout=0.2), items, "in_batch_negatives", 4)
    kept = "bertctl.tasks.embedding_objective.checkpoint"
    monkeypatch.setattr(kept, lambda function, *inputs, use_reentrant: function(*inputs))
    plain = loss_and_gradient(small(dropout=0.2), items, "in_batch_negatives", 4)
    assert cached[0] == plain[0]
    assert torch.equal(cached[1], plain[1])
    without = loss_and_gradient(small(), items, "in_batch_negatives", 4)
    assert without[0] != pytest.approx(plain[0], rel=1e-3)


def test_only_one_part_is_in_memory_at_a_time():
    """Elements that autograd keeps after the forward pass: with parts of 2 of 16 examples about an eighth."""
    sizes = {}
    for micro in (None, 2):
        model, kept = small(), []
        objective = EmbeddingObjective(model, EmbeddingSection(), "in_batch_negatives", CPU, micro)
        batch = collate([feature for item in examples(16, 2) for feature in item], model, 0)
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t.numel()) or t, lambda t: t):
            objective(batch)
        sizes[micro] = sum(kept)
    assert sizes[2] < sizes[None] / 6


def test_equal_inputs_are_never_negatives():
    """A text that occurs in two examples, padded to other widths by its neighbours."""
    model, items = small(), examples(2, 2)
    same = [items[0], [items[1][0], Features(items[0][1].input_ids, items[0][1].token_type_ids, None, 1, 1, role=1)]]
    loss, gradient = loss_and_gradient(model, same, "in_batch_negatives")
    assert (loss, gradient.abs().max().item()) == (0.0, 0.0)
    hard = [
        [*item, Features(items[0][1].input_ids, items[0][1].token_type_ids, None, p, 1, role=2)]
        for p, item in enumerate(items)
    ]
    objective = EmbeddingObjective(model, EmbeddingSection(), "triplet", CPU, None)
    assert objective.counts(collate([feature for item in hard for feature in item], model, 0))["triplet"] == 1


@torch.no_grad()
def test_a_text_in_windows_is_the_mean_of_them():
    model, items = small().eval(), examples(3, 2)
    parts = [text(9, 0).input_ids, text(8, 1).input_ids]
    windows = [Features(ids, [0] * len(ids), None, 1, len(ids), role=1) for ids in parts]
    batch = collate([*items[0], items[1][0], *windows, *items[2]], model, 0)
    objective = EmbeddingObjective(model, EmbeddingSection(temperature=1.0), "in_batch_negatives", CPU, None)
    mean = torch.cat([model.logits("embedding", model(torch.tensor([ids]))) for ids in parts]).mean(0, keepdim=True)
    positives = vectors(model, items, 1)
    positives[1] = mean
    expected = -cosines(vectors(model, items, 0), positives).log_softmax(1).diagonal().sum()
    assert objective(batch)["in_batch_negatives"].item() == pytest.approx(expected.item(), rel=1e-5)


CASES = {
    "both": ("in_batch_negatives", 3, 16, 2, True),
    "triplet": ("triplet", 4, 16, None, False),
    "cosent": ("cosent", 2, 16, None, False),
    "mse": ("cosine_mse", 2, 16, 3, False),
    "uneven": ("in_batch_negatives", 2, 5, None, True),
    "idle": ("in_batch_negatives", 2, 1, None, False),  # a rank without an example
}


def step(case, runtime: Runtime):
    """Loss and weights after one step of the loop, in which the ranks share the examples."""
    loss, roles, count, micro, both = case
    model = small()
    objective = EmbeddingObjective(model, EmbeddingSection(both_directions=both), loss, runtime, micro)
    features = [feature for item in examples(count, roles, scored=loss.startswith("cos")) for feature in item]
    batches = TrainingBatches(features, model, 0, count, None, 4, runtime, grouped=True)
    optimizer = torch.optim.SGD([{"params": list(objective.parameters()), "peak_lr": 0.1}], lr=0.1)
    settings = {"optimizer": optimizer, "schedule": lambda number: 1.0, "start": 0, "steps": 1, "runtime": runtime}
    [done] = list(fit(objective, batches, **settings, max_grad_norm=1e9, seed=0))
    return done.loss, [parameter.detach().clone() for parameter in model.parameters()]


def test_two_ranks_of_eight_equal_one_of_sixteen(tmp_path: Path):
    """Two processes of gloo, forked from one that has loaded torch, which takes longer than all else here."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["bertctl.tasks.embedding_objective", "bertctl.training.loop", "pytest"])
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    places = [
        {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)} for rank in (0, 1)
    ]
    ranks = [
        forks.Process(target=runpy.run_path, args=(__file__, {"PLACE": place, "OUT": tmp_path / "found.pt"}, "rank"))
        for place in places
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    found = torch.load(tmp_path / "found.pt")
    for name, case in CASES.items():
        loss, weights = step(case, CPU)
        assert found[name][0] == pytest.approx(loss, rel=1e-5, abs=1e-7), name
        for one, two in zip(weights, found[name][1], strict=True):
            torch.testing.assert_close(two, one, atol=2e-6, rtol=1e-5, msg=name)


if __name__ == "rank":
    os.environ |= globals()["PLACE"]
    with runtimes.start("float32") as this:
        steps = {name: step(case, this) for name, case in CASES.items()}
        if this.rank == 0:
            torch.save(steps, globals()["OUT"])
