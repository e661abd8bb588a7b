"""How a layer's states lie in space. Shapes: N states, E hidden size."""

import numpy as np
import torch
from numpy.typing import NDArray

from bertctl.probe.extract import States
from bertctl.probe.result import Layer, ProbeResult, Row


def geometry_probe(layer: Layer, row: Row) -> ProbeResult:
    """Mean cosine and effective rank of the states that are scored."""
    states, size = layer.states["test"], layer.section.geometry_states
    chosen = np.sort(np.random.default_rng(layer.seed).permutation(len(states))[:size])
    cosine = mean_cosine(states, pairs=size, seed=layer.seed)
    return ProbeResult({"mean_cosine": cosine, "effective_rank": effective_rank(states[chosen])})


def mean_cosine(states: States, *, pairs: int, seed: int) -> float | None:
    """Mean cosine of `pairs` random pairs of different states of [N, E]; None if there is no pair to compare.

    0 is what directions without a preference give; near 1 all states point the same way (anisotropy). States that
    are zero have no direction and are left out. Source: Ethayarajh, EMNLP 2019, arXiv:1909.00512, section 3.
    """
    if len(states) < 2:
        return None
    generator = np.random.default_rng(seed)
    first = generator.integers(0, len(states), pairs)
    second = (first + generator.integers(1, len(states), pairs)) % len(states)
    a, b = (np.asarray(states[ids], dtype=np.float64) for ids in (first, second))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    there = lengths > 0
    return float(((a * b).sum(axis=1)[there] / lengths[there]).mean()) if there.any() else None


def effective_rank(states: NDArray[np.floating]) -> float | None:
    """exp of the entropy of the singular values of [N, E], divided by their sum; None if all are zero.

    1 for states on one line through the origin, min(N, E) if all directions are used alike. The states are taken as
    they are: their mean is not subtracted. Source: Roy and Vetterli, EUSIPCO 2007, definition 1.
    """
    values = torch.linalg.svdvals(torch.from_numpy(np.asarray(states, dtype=np.float64)))
    total = float(values.sum())
    return float(torch.special.entr(values / total).sum().exp()) if total > 0 else None
