"""The losses against formulas worked by hand and against torch's own."""

import math

import pytest
import torch
from torch.nn import functional as F

from bertctl.distill.losses import LOSSES, View, attention_kl, hidden_cosine, hidden_mse, soft_target_kl


def test_soft_targets_of_two_opposed_rows_by_hand():
    teacher, student = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    p = math.e / (1 + math.e)  # softmax of (1, 0): logits over temperature 2
    by_hand = p * math.log(p / (1 - p)) + (1 - p) * math.log((1 - p) / p)
    assert by_hand == pytest.approx(0.462117, abs=1e-6)
    assert float(soft_target_kl(student, teacher, temperature=2.0)) == pytest.approx(1.848469, abs=1e-6)
    assert float(soft_target_kl(student, teacher, temperature=2.0)) == pytest.approx(4 * by_hand, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 10.0])
def test_soft_targets_are_torchs_kl_div_with_teacher_first(temperature):
    torch.manual_seed(0)
    teacher, student = torch.randn(7, 11) * 3, torch.randn(7, 11) * 3
    inputs = F.log_softmax(student / temperature, dim=-1), F.softmax(teacher / temperature, dim=-1)
    expected = F.kl_div(*inputs, reduction="sum") * temperature**2
    assert torch.allclose(soft_target_kl(student, teacher, temperature=temperature), expected, rtol=1e-5)


def test_the_gradient_of_soft_targets_keeps_its_size_at_high_temperature():
    """At high temperature T^2 KL tends to half the squared distance of centred logits over C (arXiv:1503.02531)."""
    torch.manual_seed(1)
    teacher, student = torch.randn(1, 6).double(), torch.randn(1, 6).double()
    gap = (teacher - teacher.mean()) - (student - student.mean())
    found = soft_target_kl(student, teacher, temperature=30.0)
    assert float(found) == pytest.approx(float(gap.square().sum() / (2 * 6)), rel=5e-2)


def test_cosine_is_torchs_embedding_loss_with_target_one():
    torch.manual_seed(2)
    student, teacher = torch.randn(5, 8), torch.randn(5, 8)
    expected = F.cosine_embedding_loss(student, teacher, torch.ones(5), reduction="sum")
    assert torch.allclose(hidden_cosine(student, teacher), expected, atol=1e-5)


def test_cosine_of_a_zero_vector_is_finite():
    assert float(hidden_cosine(torch.zeros(2, 4), torch.ones(2, 4))) == 2.0


def test_mse_is_the_mean_over_features_summed_over_tokens():
    torch.manual_seed(3)
    student, teacher = torch.randn(5, 8), torch.randn(5, 8)
    assert torch.allclose(hidden_mse(student, teacher), F.mse_loss(student, teacher) * 5)


def test_attention_kl_leaves_padding_out_and_is_a_mean_over_heads():
    teacher = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]])  # one token, two heads, the third key is padding
    student = torch.tensor([[[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]])
    first = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert float(attention_kl(student, teacher)) == pytest.approx((first + math.log(2)) / 2, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_zero_for_equals_and_positive_otherwise(name):
    torch.manual_seed(4)
    measure = LOSSES[name].measure
    one, other = (View(torch.randn(4, 9), torch.randn(6, 8), torch.randn(6, 2, 5).softmax(dim=-1)) for _ in range(2))
    assert float(measure(one, one, 2.0)) == pytest.approx(0.0, abs=1e-5)
    assert float(measure(one, other, 2.0)) > 0.01


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_a_sum_over_its_rows(name):
    torch.manual_seed(5)
    measure = LOSSES[name].measure

    def view() -> View:
        return View(torch.randn(6, 9), torch.randn(6, 8), torch.randn(6, 2, 5).softmax(dim=-1))

    def part(whole: View, rows: slice) -> View:
        return View(whole.rows[rows], whole.hidden[rows], whole.attention[rows])

    one, other = view(), view()
    parts = [measure(part(one, rows), part(other, rows), 2.0) for rows in (slice(0, 2), slice(2, 6))]
    assert torch.allclose(sum(parts), measure(one, other, 2.0), rtol=1e-5)
