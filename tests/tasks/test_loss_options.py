"""Class weights, label smoothing and focal loss: PyTorch's and scikit-learn's own numbers, and numbers by hand."""

import math

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F

from bertctl.errors import BertctlError
from bertctl.finetune.objective import balanced_weights, loss_options
from bertctl.finetune.strategy_config import LossSection
from bertctl.recipe.load import build_recipe
from bertctl.tasks.losses import LossOptions
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import IGNORED, Features

WEIGHTS = torch.tensor([0.2, 1.0, 3.0])


def mean_loss(logits, labels, options, name="classification", parts=1):
    """Sum over count, both added up over micro-batches."""
    loss = TASKS[name].loss
    cut = list(zip(logits.chunk(parts), labels.chunk(parts), strict=True))
    total = sum(loss.sum(rows, {"labels": gold}, options) for rows, gold in cut)
    return total / sum(loss.count({"labels": gold}, options) for _, gold in cut)


def drawn(tokens=None):
    generator = torch.Generator().manual_seed(0)
    shape = (12,) if tokens is None else (12, tokens)
    labels = torch.randint(0, 3, shape, generator=generator)
    if tokens is not None:
        labels[:, 0] = IGNORED
    return torch.randn(*shape, 3, generator=generator), labels


@pytest.mark.parametrize("parts", [1, 3, 12])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tokens", [None, 5])
def test_the_mean_is_that_of_pytorch_in_any_micro_batches(parts, weights, smoothing, tokens):
    logits, labels = drawn(tokens)
    expected = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), weight=weights, label_smoothing=smoothing, ignore_index=IGNORED
    )
    found = mean_loss(logits, labels, LossOptions(weights, smoothing), "ner" if tokens else "classification", parts)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


def test_focal_loss_by_hand():
    """p = 3/4 and 1/5 of the right class: -(1/4)^2 log 3/4, and -(4/5)^2 log 1/5 with weight 3."""
    logits = torch.tensor([[math.log(3.0), 0.0], [math.log(4.0), 0.0]])
    labels = torch.tensor([0, 1])
    plain = (-(0.25**2) * math.log(0.75), -(0.8**2) * math.log(0.2))
    found = mean_loss(logits, labels, LossOptions(focal_gamma=2.0))
    assert float(found) == pytest.approx(sum(plain) / 2, rel=1e-6)
    weighted = mean_loss(logits, labels, LossOptions(torch.tensor([1.0, 3.0]), focal_gamma=2.0))
    assert float(weighted) == pytest.approx((plain[0] + 3 * plain[1]) / 4, rel=1e-6)


def test_focal_loss_of_label_sets_by_hand():
    """A label that holds at p = 3/4, and one that does not, at p = 1/5: their shares of being right are 3/4 and 4/5."""
    logits = torch.tensor([[math.log(3.0), -math.log(4.0)]])
    labels = torch.tensor([[1.0, 0.0]])
    by_hand = -(0.25**2) * math.log(0.75) - 0.2**2 * math.log(0.8)
    loss = TASKS["multi_label"].loss
    assert float(loss.sum(logits, {"labels": labels}, LossOptions(focal_gamma=2.0))) == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize("name", ["classification", "ner"])
def test_focal_loss_skips_what_has_no_label_and_without_gamma_is_cross_entropy(name):
    logits, labels = drawn(4)
    found = mean_loss(logits, labels, LossOptions(focal_gamma=1e-9), name)
    assert float(found) == pytest.approx(float(mean_loss(logits, labels, LossOptions(), name)), rel=1e-5)


def test_focal_loss_has_a_gradient_where_nothing_is_left_to_learn():
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    mean_loss(logits, torch.tensor([0]), LossOptions(focal_gamma=0.5)).backward()
    assert torch.isfinite(logits.grad).all()


def features(labels):
    return [Features([1, 2], [0, 0], label, place, 2) for place, label in enumerate(labels)]


def test_balanced_weights_are_those_of_scikit_learn():
    labels = [0] * 7 + [1] * 2 + [3]
    expected = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=labels)
    assert balanced_weights(features(labels), 4).tolist() == pytest.approx([*expected[:2], 1.0, expected[2]])
    rows = [[IGNORED, 0, 0, 1, IGNORED], [IGNORED, 0, IGNORED]]
    assert balanced_weights(features(rows), 2).tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])


def options_of(tree, name="classification", labels=("no", "yes")):
    return loss_options(build_recipe(tree, LossSection), TASKS[name], labels, features([0, 0, 0, 1]))


def test_weights_go_by_label_name():
    assert options_of({"class_weights": {"yes": 4.0}}).class_weights.tolist() == [1.0, 4.0]
    assert options_of({"class_weights": "balanced"}).class_weights.tolist() == pytest.approx([2 / 3, 2.0])
    assert options_of({}) == LossOptions()
    assert options_of({"class_weights": {"no": 0.0}}).class_weights.tolist() == [0.0, 1.0]
    with pytest.raises(BertctlError, match="got 0 for every label of train"):
        options_of({"class_weights": {"no": 0.0, "yes": 0.0}})


def test_what_a_loss_does_not_take_is_refused():
    with pytest.raises(BertctlError, match="got the label 'maybe', expected some of no, yes"):
        options_of({"class_weights": {"yes": 4.0, "maybe": 1.0}})
    with pytest.raises(BertctlError) as caught:
        options_of({"class_weights": "balanced", "label_smoothing": 0.1}, name="regression", labels=())
    assert caught.value.problems == (
        "finetune.loss.class_weights: the loss of regression takes none of them",
        "finetune.loss.label_smoothing: the loss of regression takes none of them",
    )
    with pytest.raises(BertctlError, match="the loss of multi_label takes focal_gamma"):
        options_of({"label_smoothing": 0.1}, name="multi_label")
    for wrong in ({"label_smoothing": 0.1, "focal_gamma": 1.0}, {"class_weights": {"a": -1.0}}, {"class_weights": "x"}):
        with pytest.raises(BertctlError):
            build_recipe(wrong, LossSection)
