"""Losses of spans and choices: those of transformers, and the same however a step is cut into batches."""

import pytest
import torch
import transformers

from bertctl.encoder.config import EncoderConfig
from bertctl.finetune.objective import TaskObjective
from bertctl.heads.model import Model
from bertctl.heads.table import HEADS
from bertctl.tasks.batches import collate
from bertctl.tasks.losses import PLAIN
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import IGNORED, Features
from bertctl.variants.hf import load_model

SIZES = {"vocab_size": 30, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 24}
SMALL = {**SIZES, "hidden_size": 16, "intermediate_size": 32, "initializer_range": 0.3}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def row(place: int, length: int, labels: int | list[int], role: int = 0) -> Features:
    ids = [1 + (place + role + 3 * i) % 29 for i in range(length)]
    return Features(ids, [0, 0] + [1] * (length - 2), labels, place, length, role=role)


def asked(lengths: list[int]) -> list[Features]:
    """Windows with a span each; one says that there is none, and one is not to be learnt."""
    spans = [[length // 2, length - 2] for length in lengths]
    spans[1] = [0, 0]
    return [row(place, length, span) for place, (length, span) in enumerate(zip(lengths, spans, strict=True))]


def chosen(lengths: list[list[int]]) -> list[Features]:
    return [
        row(place, length, int(role == place % 2), role)
        for place, group in enumerate(lengths)
        for role, length in enumerate(group)
    ]


def loss(model: Model, name: str, parts: list[list[Features]]) -> tuple[float, torch.Tensor]:
    """Mean loss and gradient of a step in micro-batches."""
    objective = TaskObjective(model, TASKS[name])
    batches = [collate(part, model, 0) for part in parts]
    count = sum(objective.counts(batch)["task"] for batch in batches)
    model.zero_grad()
    losses = [objective(batch)["task"] / count for batch in batches]
    sum(losses).backward()
    grads = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return sum(part.item() for part in losses), grads


@pytest.mark.parametrize("length", [8, 9])  # of which the second is padded
@pytest.mark.parametrize(("name", "kind"), [("qa", "QuestionAnswering"), ("multiple_choice", "MultipleChoice")])
def test_the_loss_of_transformers(name: str, kind: str, length: int, tmp_path) -> None:
    torch.manual_seed(0)
    theirs = getattr(transformers, f"BertFor{kind}")(transformers.BertConfig(**SMALL)).eval()
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path).model.eval()
    features = asked([length] * 3) if name == "qa" else chosen([[length] * 3] * 2)
    given = {
        "input_ids": torch.tensor([f.input_ids for f in features]),
        "token_type_ids": torch.tensor([f.token_type_ids for f in features]),
    }
    if name == "qa":
        starts, ends = torch.tensor([f.labels for f in features]).T
        expected = theirs(**given, start_positions=starts, end_positions=ends).loss
    else:
        grouped = {key: value.view(2, 3, -1) for key, value in given.items()}
        expected = theirs(**grouped, labels=torch.tensor([0, 1])).loss
    assert loss(ours, name, [features])[0] == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("name", ["qa", "multiple_choice"])
def test_a_step_in_any_micro_batches_has_the_gradient_of_the_whole(name: str) -> None:
    torch.manual_seed(0)
    model = Model(EncoderConfig(**SMALL, **STILL), {TASKS[name].head: TASKS[name].outputs([])})
    features = asked([20, 7, 12, 5]) if name == "qa" else chosen([[20, 7], [3, 12, 5], [9, 9]])
    whole_loss, whole = loss(model, name, [features])
    groups = [[f for f in features if f.example == place] for place in range(4)]
    alone, paired = [g for g in groups if g], [g for g in (groups[0] + groups[1], groups[2] + groups[3]) if g]
    for parts in (alone, paired):
        cut_loss, cut = loss(model, name, parts)
        assert cut_loss == pytest.approx(whole_loss, abs=1e-5)
        assert torch.allclose(cut, whole, atol=1e-5)


@pytest.mark.parametrize("name", ["qa", "multiple_choice"])
def test_what_has_no_label_has_no_loss_and_no_gradient_but_zero(name: str) -> None:
    """As a rank meets it that a short batch leaves without an example: no label, no real token."""
    torch.manual_seed(0)
    task = TASKS[name]
    logits = torch.randn((2, 8, 2) if HEADS[task.head].reads == "tokens" else (2, 1), requires_grad=True)
    batch = {
        "labels": torch.full((2, 8) if name == "qa" else (2,), IGNORED),
        "attention_mask": torch.zeros(2, 8, dtype=torch.bool),
        "groups": torch.tensor([0, 0]),
    }
    assert task.loss.count(batch, PLAIN) == 0
    total = task.loss.sum(logits, batch, PLAIN)
    total.backward()
    assert total.item() == 0.0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_choices_by_hand() -> None:
    """Two examples of two and three choices: log(1 + e^-1) and log(1 + e^1 + e^-2)."""
    batch = {"labels": torch.tensor([1, 0, 0, 1, 0]), "groups": torch.tensor([0, 0, 1, 1, 1])}
    logits = torch.tensor([[2.0], [1.0], [1.0], [0.0], [-2.0]])
    task = TASKS["multiple_choice"]
    by_hand = torch.log(1 + torch.exp(torch.tensor(-1.0))) + torch.log(1 + torch.exp(torch.tensor([1.0, -2.0])).sum())
    assert task.loss.sum(logits, batch, PLAIN).item() == pytest.approx(by_hand.item(), abs=1e-6)
    assert task.loss.count(batch, PLAIN) == 2
