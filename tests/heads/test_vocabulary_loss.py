"""The loss in pieces against PyTorch's two calls, in value and gradients, in every precision and for any number of
pieces."""

import pytest
import torch
from torch.nn import functional as F

from bertctl.heads import vocabulary_loss as module
from bertctl.heads.vocabulary_loss import vocabulary_loss

ROWS, WIDTH, VOCABULARY = 50, 24, 301


def inputs(dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    tensors = scale * draw(ROWS, WIDTH), draw(VOCABULARY, WIDTH), draw(VOCABULARY)
    labels = torch.randint(0, VOCABULARY, (ROWS,), generator=generator)
    return [tensor.to(dtype).requires_grad_() for tensor in tensors], labels


def plain(rows, weight, bias, labels):
    return F.cross_entropy(F.linear(rows, weight, bias), labels, reduction="sum")


@pytest.mark.parametrize("rows_of_product", [7, 50, 2048])
def test_equals_cross_entropy_of_a_linear_layer(monkeypatch, rows_of_product):
    monkeypatch.setattr(module, "ROWS_OF_PRODUCT", rows_of_product)
    (ours, labels), (theirs, _) = inputs(torch.float32), inputs(torch.float64)
    loss, expected = vocabulary_loss(*ours, labels), plain(*theirs, labels)
    (0.25 * loss).backward()
    (0.25 * expected).backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), other.grad, rtol=1e-4, atol=1e-5)


def test_scores_that_leave_nothing_for_the_label_give_a_finite_loss():
    (ours, labels), (theirs, _) = inputs(torch.float32, scale=100.0), inputs(torch.float64, scale=100.0)
    loss, expected = vocabulary_loss(*ours, labels), plain(*theirs, labels)
    loss.backward()
    assert expected.item() / ROWS > 200  # shares far below the smallest float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert all(tensor.grad.isfinite().all() for tensor in ours)


def test_under_autocast_the_products_are_in_bf16_and_the_gradients_in_float32():
    (ours, labels), (exact, _) = inputs(torch.float32), inputs(torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = vocabulary_loss(*ours, labels)
    loss.backward()
    plain(*exact, labels).backward()
    assert loss.dtype == torch.float32
    for mine, other in zip(ours, exact, strict=True):
        assert mine.grad.dtype == torch.float32
        error = (mine.grad.double() - other.grad).norm() / other.grad.norm()
        assert 1e-5 < error < 2e-2  # bf16 has 8 bits


def test_rows_without_a_label_cost_nothing():
    (rows, weight, bias), _ = inputs(torch.float32)
    loss = vocabulary_loss(rows[:0], weight, bias, torch.zeros(0, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0
    assert not weight.grad.any()
    assert not bias.grad.any()


@pytest.mark.parametrize("rows_of_product", [20, 2048])
def test_rows_past_the_labels_count_for_nothing(monkeypatch, rows_of_product):
    monkeypatch.setattr(module, "ROWS_OF_PRODUCT", rows_of_product)
    (ours, labels), (theirs, _) = inputs(torch.float32), inputs(torch.float64)
    loss = vocabulary_loss(*ours, labels[:33])
    expected = plain(theirs[0][:33], *theirs[1:], labels[:33])
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), other.grad, rtol=1e-4, atol=1e-5)


def test_gradients_reach_only_what_is_trained():
    (rows, weight, bias), labels = inputs(torch.float32)
    weight.requires_grad_(False)
    vocabulary_loss(rows, weight, bias, labels).backward()
    assert weight.grad is None
    assert rows.grad is not None
