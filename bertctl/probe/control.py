"""The control task: random labels, which a probe can only learn by heart.

A probe that reads off what a layer knows does well on the real labels and badly on these; one that is strong enough to
remember words does well on both. Source: Hewitt and Liang, EMNLP 2019, arXiv:1909.03368, sections 2 and 3. Whole texts
and images are types of their own, an image known by the digest of its file: those of test are rarely in train, so what
is left of the task is how many random labels of train a probe can learn by heart, as in arXiv:1611.03530, section 2.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertctl.probe.linear import accuracy_metric, fit, scaled, share_right
from bertctl.probe.result import Layer, ProbeResult, Row
from bertctl.probe.words import Ids

BITS = 64


def control_probe(layer: Layer, row: Row) -> ProbeResult:
    """Accuracy on the control task of a probe with the linear probe's penalty, and the difference: selectivity; and
    its accuracy on the rows that it was fitted on, which says how many labels it can learn by heart."""
    accuracy, strength = row["accuracy"], row["strength"]
    if not layer.section.control or accuracy is None or strength is None:
        return ProbeResult(dict.fromkeys(("control_accuracy", "selectivity", "control_train_accuracy")))
    train, _, test = scaled(layer)
    words, classes = layer.words, len(layer.labels)
    shares = np.bincount(words["train"].labels, minlength=classes) / len(words["train"])
    labels = {split: control_labels(words[split].types, shares, layer.seed) for split in ("train", "test")}
    fitted = fit(train, labels["train"], classes, strength=strength, iterations=layer.section.iterations)
    found = accuracy_metric(labels["test"], fitted.predict(test), words["test"].examples).point()
    return ProbeResult(
        {
            "control_accuracy": found,
            "selectivity": None if found is None else accuracy - found,
            "control_train_accuracy": share_right(labels["train"], fitted.predict(train)),
        }
    )


def control_labels(types: Sequence[str], shares: NDArray[np.float64], seed: int) -> Ids:
    """A class number for each of N words: equal words get equal labels, drawn with probabilities `shares` [C].

    The label of a word follows from the word, the seed and `shares` alone, so that it is the same in every split and
    does not change when other words are added.
    """
    edges = np.cumsum(shares)
    drawn = {name: _uniform(name, seed) * edges[-1] for name in set(types)}
    places = np.array([drawn[name] for name in types])
    return np.minimum(np.searchsorted(edges, places, side="right"), len(shares) - 1).astype(np.int64)


def _uniform(name: str, seed: int) -> float:
    """A number in [0, 1) that looks random."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode("utf-8", "surrogatepass"), digest_size=BITS // 8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2 ** (BITS - 11)
