"""What a student imitates: against divergences written out by hand, for every task that can be distilled."""

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax

from bertctl.distill.losses import MEASURES
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import IGNORED

T = 2.0
GENERATOR = np.random.default_rng(0)


def tensor(*shape):
    return torch.tensor(3 * GENERATOR.normal(size=shape), dtype=torch.float32)


def measured(task, student, teacher, batch):
    """(sum, mean) of a task's imitation."""
    row = TASKS[task].imitation
    sides = [row.rows(logits, batch) for logits in (student, teacher)]
    count = int(row.count(batch))
    assert all(len(side) == count for side in sides)
    total = float(MEASURES[row.measure](*sides, T))
    return total, total / max(count, 1)


def divergence(wanted, given):
    """KL of two distributions [..., C], summed; places where nothing is wanted add nothing."""
    kept = wanted > 0
    return float((wanted[kept] * np.log(wanted[kept] / given[kept])).sum())


def test_labels_of_texts_and_of_words():
    student, teacher = tensor(4, 3), tensor(4, 3)
    batch = {"labels": torch.tensor([0, 2, IGNORED, 1])}
    kept = [0, 1, 3]
    expected = T**2 * divergence(softmax(teacher[kept] / T, -1), softmax(student[kept] / T, -1))
    assert measured("classification", student, teacher, batch)[0] == pytest.approx(expected, rel=1e-4)
    words = {"labels": torch.tensor([[0, 2, IGNORED, 1]])}
    assert measured("ner", student[None], teacher[None], words)[0] == pytest.approx(expected, rel=1e-4)


def test_each_label_of_many_is_a_coin():
    student, teacher = tensor(2, 3), tensor(2, 3)
    p, q = expit(teacher.numpy() / T), expit(student.numpy() / T)
    expected = T**2 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum()
    total, mean = measured("multi_label", student, teacher, {"labels": torch.zeros(2, 3)})
    assert (total, mean) == pytest.approx((expected, expected / 6), rel=1e-4)


def test_numbers_by_their_squared_difference():
    student, teacher = torch.tensor([[1.0], [2.0], [9.0]]), torch.tensor([[1.5], [4.0], [0.0]])
    batch = {"labels": torch.tensor([0.0, 1.0, float("nan")])}
    assert measured("regression", student, teacher, batch) == pytest.approx((4.25, 2.125))


def test_ends_of_answers_are_among_the_real_tokens():
    student, teacher = tensor(3, 5, 2), tensor(3, 5, 2)
    batch = {
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool(),
        "labels": torch.tensor([[1, 2], [0, 0], [IGNORED, IGNORED]]),
    }
    expected = sum(
        divergence(softmax(teacher[row, :width, end] / T), softmax(student[row, :width, end] / T))
        for row, width in ((0, 5), (1, 3))
        for end in (0, 1)
    )
    total, mean = measured("qa", student, teacher, batch)
    assert (total, mean) == pytest.approx((T**2 * expected, T**2 * expected / 4), rel=1e-4)
    shorter = {name: value[1:2, :3] for name, value in batch.items()}  # as a batch without padding has it
    alone = measured("qa", student[1:2, :3], teacher[1:2, :3], shorter)[0]
    padded = measured("qa", student[1:2], teacher[1:2], {name: value[1:2] for name, value in batch.items()})[0]
    assert alone == pytest.approx(padded, rel=1e-5)


def test_choices_compete_within_their_example():
    student, teacher = tensor(6, 1), tensor(6, 1)
    batch = {"groups": torch.tensor([0, 0, 0, 1, 1, 2]), "labels": torch.tensor([0, 1, 0, 1, 0, IGNORED])}
    expected = sum(
        divergence(softmax(teacher[begin:end, 0] / T), softmax(student[begin:end, 0] / T))
        for begin, end in ((0, 3), (3, 5))
    )
    total, mean = measured("multiple_choice", student, teacher, batch)
    assert (total, mean) == pytest.approx((T**2 * expected, T**2 * expected / 2), rel=1e-4)


def test_vectors_by_their_angle():
    student, teacher = (
        torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        torch.tensor([[1.0, 0.0], [3.0, 0.0], [0, 1]]),
    )
    ids = torch.ones(3, 4, dtype=torch.long)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]).bool()
    assert measured("embedding", student, teacher, {"input_ids": ids, "attention_mask": mask}) == pytest.approx(
        (1, 0.5)
    )
    assert measured("embedding", student, teacher, {"input_ids": ids})[0] == pytest.approx(2 - 0.5**0.5)


BATCHES = {
    "classification": ((2, 3), torch.tensor([IGNORED] * 2)),
    "multi_label": ((2, 3), torch.full((2, 3), float("nan"))),
    "regression": ((2, 1), torch.full((2,), float("nan"))),
    "ner": ((2, 4, 3), torch.full((2, 4), IGNORED)),
    "pos": ((2, 4, 3), torch.full((2, 4), IGNORED)),
    "qa": ((2, 4, 2), torch.full((2, 4), IGNORED)),
    "multiple_choice": ((2, 1), torch.tensor([IGNORED] * 2)),
    "embedding": ((2, 5), torch.zeros(2)),
}


@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if task.imitation is not None])
def test_a_batch_of_nothing_counts_nothing_and_has_a_gradient_of_zeros(task):
    shape, labels = BATCHES[task] if task in BATCHES else BATCHES["classification"]
    batch = {
        "input_ids": torch.zeros(2, 4, dtype=torch.long),
        "attention_mask": torch.zeros(2, 4, dtype=torch.bool),
        "labels": labels,
        "groups": torch.tensor([0, 1]),
    }
    student = tensor(*shape).requires_grad_()
    row = TASKS[task].imitation
    assert int(row.count(batch)) == 0
    MEASURES[row.measure](row.rows(student, batch), row.rows(tensor(*shape), batch), T).backward()
    assert float(student.grad.abs().sum()) == 0
