"""Examples by their rarest label, shuffled by seed: one way to draw for all who need a part with the labels in their
shares, be it held out, trained on, or a fold."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from bertctl.tasks.task import Task


def strata(task: Task, examples: Sequence[Any], seed: int) -> list[list[int]]:
    """Places of the examples that share their rarest label, each list in random order, the rarest label first.

    Tasks without classes have one stratum.
    """
    counts = Counter(label for example in examples for label, _ in task.gold(example)) if task.classes else Counter()
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for place in np.random.default_rng(seed).permutation(len(examples)).tolist():
        labels = {label for label, _ in task.gold(examples[place])} & counts.keys()
        found[min(((counts[label], label) for label in labels), default=(0, ""))].append(place)
    return [found[key] for key in sorted(found)]


def stratified_order(task: Task, examples: Sequence[Any], seed: int) -> list[int]:
    """All places in an order of which every stretch from the start has the labels in their shares, so that the first
    tenth lies within the first three tenths: example i of the n of a stratum stands at (i + 1/2) / n of the way."""
    spread = {
        place: (number + 0.5) / len(places)
        for places in strata(task, examples, seed)
        for number, place in enumerate(places)
    }
    return sorted(spread, key=spread.__getitem__)
