"""The loop: one gradient however a step is cut, no update on what is not finite, dropout a function of the step."""

import pytest
import torch
from torch import nn

from bertctl.errors import NonFinite
from bertctl.training.loop import _total_norm, fit
from bertctl.training.runtime import Runtime

CPU = Runtime(torch.device("cpu"), torch.float32)


class TokenLoss(nn.Module):
    """Two terms with unlike counts: squares over real tokens, and one number for each example."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.weights = {"token": 1.0, "example": 0.5}
        self.embedding = nn.Embedding(11, 4)
        self.dropout = nn.Dropout(dropout)

    def counts(self, batch):
        return {"token": batch["attention_mask"].sum(), "example": torch.tensor(len(batch["input_ids"]))}

    def forward(self, batch):
        embedded = self.dropout(self.embedding(batch["input_ids"]) + 1)
        mask = batch["attention_mask"]
        return {"token": embedded.square().sum(-1)[mask].sum(), "example": embedded[:, 0].sum()}


def batch(rows, lengths, seed=0):
    ids = torch.randint(0, 11, (rows, 12), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "attention_mask": torch.arange(12)[None] < torch.tensor(lengths)[:, None]}


def split(whole, size):
    return [
        {name: tensor[i : i + size] for name, tensor in whole.items()} for i in range(0, len(whole["input_ids"]), size)
    ]


def train(objective, make, steps=3, start=0, max_grad_norm=1e9, lr=0.1):
    optimizer = torch.optim.SGD([{"params": list(objective.parameters()), "peak_lr": lr}], lr=lr)
    return list(
        fit(
            objective,
            make,
            optimizer=optimizer,
            schedule=lambda step: 1.0,
            start=start,
            steps=steps,
            runtime=CPU,
            max_grad_norm=max_grad_norm,
            seed=7,
        )
    )


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_micro_batches_of_unequal_length_give_the_same_step(size):
    whole = batch(8, [12, 1, 5, 9, 3, 12, 7, 2])
    results = []
    for cut in (8, size):
        torch.manual_seed(0)
        objective = TokenLoss()
        steps = train(objective, lambda step, cut=cut: split(whole, cut))
        results.append((steps, objective.embedding.weight.detach().clone()))
    (one, weights), (many, other) = results
    for a, b in zip(one, many, strict=True):
        assert a.loss == pytest.approx(b.loss, rel=1e-6)
        assert a.grad_norm == pytest.approx(b.grad_norm, rel=1e-6)
        assert (a.tokens, b.tokens) == (51, 51)
    torch.testing.assert_close(weights, other, atol=1e-6, rtol=1e-6)


def test_a_count_below_one_divides_as_any_other():
    """Class weights may add up to less than 1; only where nothing is counted is there nothing to divide by."""

    class Weighted(nn.Module):
        weights = {"x": 1.0}  # noqa: RUF012

        def __init__(self, count):
            super().__init__()
            self.scale, self.count = nn.Parameter(torch.ones(())), count

        def counts(self, batch):
            return {"x": torch.tensor(self.count)}

        def forward(self, batch):
            return {"x": self.count * 3.0 * self.scale}

    for count, loss in ((0.25, 3.0), (0.0, 0.0)):
        [step] = train(Weighted(count), lambda step: [batch(1, [3])], steps=1)
        assert step.loss == pytest.approx(loss)
        assert step.grad_norm == pytest.approx(loss)


def test_the_loss_is_the_mean_over_counted_items():
    # 10 tokens of loss 1 and 100 tokens of loss 2: (10 * 1 + 100 * 2) / 110, not the mean of the means 1.5
    class Given(nn.Module):
        weights = {"x": 1.0}  # noqa: RUF012

        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def counts(self, batch):
            return {"x": torch.tensor(float(batch["input_ids"].shape[1]))}

        def forward(self, batch):
            return {"x": (self.scale * batch["loss"]).sum()}

    parts = [{"input_ids": torch.zeros(1, n), "loss": torch.full((1, n), loss)} for n, loss in ((10, 1.0), (100, 2.0))]
    (step,) = train(Given(), lambda number: parts, steps=1, lr=0.0)
    assert step.loss == pytest.approx(1.909091, abs=1e-6)
    assert step.grad_norm == pytest.approx(1.909091, abs=1e-6)


def test_dropout_depends_on_seed_step_and_micro_batch_only():
    whole = batch(8, [12] * 8)
    torch.manual_seed(0)
    straight = TokenLoss(dropout=0.5)
    train(straight, lambda step: split(whole, 4), steps=4)
    torch.manual_seed(0)
    resumed = TokenLoss(dropout=0.5)
    train(resumed, lambda step: split(whole, 4), steps=2)
    torch.randn(1000)  # what another part of the program draws does not matter
    train(resumed, lambda step: split(whole, 4), start=2, steps=4)
    assert torch.equal(straight.embedding.weight, resumed.embedding.weight)
    torch.manual_seed(0)
    plain = TokenLoss()
    train(plain, lambda step: split(whole, 4), steps=4)
    assert not torch.equal(straight.embedding.weight, plain.embedding.weight)


@pytest.mark.parametrize("shapes", [[(5000, 4000), (7, 1), (3, 2000)], [(2, 2)], []])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norm_of_many_gradients_is_right_to_five_digits(shapes, dtype):
    """PyTorch's own of the first of these is wrong in the fourth."""
    torch.manual_seed(0)
    gradients = [torch.rand(shape).to(dtype).t() for shape in shapes]
    exact = sum(float(gradient.double().square().sum()) for gradient in gradients) ** 0.5
    assert float(_total_norm(gradients)) == pytest.approx(exact, rel=2e-5 if dtype == torch.float32 else 1e-2)


def test_gradients_are_clipped_and_the_norm_told_is_the_one_before():
    torch.manual_seed(0)
    objective = TokenLoss()
    before = objective.embedding.weight.detach().clone()
    (step,) = train(objective, lambda number: [batch(8, [12] * 8)], steps=1, max_grad_norm=0.01, lr=1.0)
    assert step.grad_norm > 0.01
    assert (objective.embedding.weight - before).norm().item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("where", ["weight", "gradient"])
def test_what_is_not_finite_stops_before_the_update(where):
    torch.manual_seed(0)
    objective = TokenLoss()
    if where == "weight":
        with torch.no_grad():
            objective.embedding.weight[3] = float("nan")
    else:
        objective.embedding.weight.register_hook(lambda gradient: gradient * float("inf"))
    before = objective.embedding.weight.detach().clone()
    with pytest.raises(NonFinite, match=r"step 1: .*(loss|gradient norm)"):
        train(objective, lambda number: [batch(8, [12] * 8)])
    assert torch.equal(objective.embedding.weight.nan_to_num(), before.nan_to_num())
