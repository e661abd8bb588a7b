"""A linear probe: softmax regression from a layer's states to labels.

Shapes: N rows, E hidden size, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from bertctl import signals
from bertctl.metrics.rows import Metric, bootstrap
from bertctl.probe.extract import States
from bertctl.probe.result import SPLITS, Layer, ProbeResult, Row
from bertctl.probe.words import Ids

FLAT = 1e-6  # largest gradient at which a fit counts as done


@dataclass(frozen=True)
class Scaling:
    """Takes states to mean 0 and variance 1 in every dimension, as the training rows had them."""

    mean: Tensor
    scale: Tensor

    def __call__(self, states: States) -> Tensor:
        return (torch.from_numpy(np.array(states)) - self.mean) / self.scale


@dataclass(frozen=True)
class Fit:
    """A fitted probe: weight [C, E] and bias [C]."""

    weight: Tensor
    bias: Tensor

    def predict(self, inputs: Tensor) -> Ids:
        """Class numbers [N] of scaled states [N, E]."""
        found: Ids = F.linear(inputs, self.weight, self.bias).argmax(dim=1).numpy()
        return found


def linear_probe(layer: Layer, row: Row) -> ProbeResult:
    """Accuracy on the scored rows, with interval, of the penalty that is best on dev."""
    section, classes = layer.section, len(layer.labels)
    train, dev, test = scaled(layer)
    gold = {split: layer.words[split].labels for split in SPLITS}
    best: tuple[float, float, Fit] | None = None
    start: Fit | None = None
    for strength in sorted(section.strengths, reverse=True):  # each starts from the stronger one's solution
        start = fit(train, gold["train"], classes, strength=strength, iterations=section.iterations, start=start)
        score = share_right(gold["dev"], start.predict(dev))
        if best is None or score > best[0]:
            best = score, strength, start
    assert best is not None  # there is at least one strength
    score, strength, chosen = best
    metric = accuracy_metric(gold["test"], chosen.predict(test), layer.words["test"].examples)
    low, high = bootstrap(metric, samples=section.bootstrap_samples, seed=layer.seed)
    return ProbeResult(
        {"accuracy": metric.point(), "low": low, "high": high, "dev_accuracy": score, "strength": strength}
    )


def scaled(layer: Layer) -> tuple[Tensor, Tensor, Tensor]:
    """The states of train, dev and test [N, E], scaled by what train shows."""
    scaling = scaling_of(layer.states["train"])
    train, dev, test = (scaling(layer.states[split]) for split in SPLITS)
    return train, dev, test


def scaling_of(states: States) -> Scaling:
    """From the mean and deviation of [N, E]; a dimension that never changes is only shifted."""
    deviation = states.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 0, deviation, 1.0)
    mean = states.mean(axis=0, dtype=np.float64)
    return Scaling(torch.from_numpy(mean).float(), torch.from_numpy(scale).float())


def fit(
    inputs: Tensor, labels: Ids, classes: int, *, strength: float, iterations: int, start: Fit | None = None
) -> Fit:
    """Minimise mean cross-entropy + strength / 2 * |weight|^2 by L-BFGS, from `start` or zeros; the bias is free.

    The problem is convex, so the start decides the time and not the result; nothing is random. In scikit-learn's terms
    strength = 1 / (C * N). Shapes: inputs [N, E], labels [N]. Errors: Stopped.
    """
    weight = torch.zeros(classes, inputs.shape[1]) if start is None else start.weight.clone()
    bias = torch.zeros(classes) if start is None else start.bias.clone()
    weight.requires_grad_()
    bias.requires_grad_()
    targets = torch.from_numpy(labels)
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=iterations,
        tolerance_grad=FLAT,
        tolerance_change=1e-9,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        signals.check("fitting a probe")
        optimizer.zero_grad()
        value = F.cross_entropy(F.linear(inputs, weight, bias), targets) + 0.5 * strength * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return Fit(weight.detach(), bias.detach())


def share_right(gold: Ids, predicted: Ids) -> float:
    """Share of equal numbers."""
    return float((gold == predicted).mean())


def accuracy_metric(gold: Ids, predicted: Ids, examples: Sequence[int] | NDArray[np.int64]) -> Metric:
    """Accuracy over rows, resampled by sentence: words of one sentence are no independent draws."""
    rows = np.stack([np.bincount(examples, gold == predicted), np.bincount(examples)], axis=1)
    return Metric("accuracy", rows[rows[:, 1] > 0], lambda sums: sums[..., 0] / sums[..., 1], "there are no words")
