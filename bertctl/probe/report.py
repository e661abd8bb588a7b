"""What people are told: the data before the work, a table of the layers after it."""

from typing import Any

import numpy as np

from bertctl.console import note, warn
from bertctl.probe.config import ProbeSection
from bertctl.probe.linear import share_right
from bertctl.probe.words import Words
from bertctl.tasks.audit import leakage
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Splits, Task

COLUMNS = {
    "layer": "layer",
    "accuracy": "accuracy",
    "low": "from",
    "high": "to",
    "control_accuracy": "control",
    "selectivity": "selectivity",
    "mean_cosine": "cosine",
    "effective_rank": "rank",
    "attention_entropy": "entropy",
}


def tell(task: Task, splits: Splits) -> str:
    """The split that is scored: test, or dev if there is none. Warns of that, and of repeats between splits."""
    scored = "test" if splits.test else "dev"
    if scored == "dev":
        warn("no test data: dev picks the probes and scores them, so the accuracies are a little too good")
    for name in ("dev", "test"):
        leak = leakage(task, splits.train, getattr(splits, name))
        if leak["folded"]:
            places = ", ".join(leak["places"][:2])
            warn(f"leakage: {leak['folded']:,} examples of {name} are in train, such as {places}")
    return scored


def summarise(
    section: ProbeSection, words: dict[str, Words], labels: list[str], rows: list[dict[str, Any]],
    details: dict[str, list[Any]],
) -> dict[str, Any]:  # fmt: skip
    """The result. `best_layer` is the one with the best accuracy on dev, the lowest of equals: test only scores."""
    best = max(rows, key=lambda row: (row["dev_accuracy"], -row["layer"]))
    known = set(words["train"].types)
    return {
        "words": {split: len(part) for split, part in words.items()},
        "labels": labels,
        "majority_baseline": majority(words["train"], words["test"], len(labels)),
        "seen_in_train": sum(name in known for name in words["test"].types) / len(words["test"]),
        "control": control_type(TASKS[section.task]) if section.control else None,
        "best_layer": best["layer"],
        "selectivity": best["selectivity"],
        "layers": rows,
        "attention_entropy_per_head": [],
        **details,
    }


def control_type(task: Task) -> str:
    """What has a random label of its own in the control task."""
    return "word type" if task.head == "token" else "image" if task.images else "text"


def majority(train: Words, test: Words, classes: int) -> float:
    """Accuracy on `test` of somebody who always says the most frequent label of `train`."""
    most = np.bincount(train.labels, minlength=classes).argmax()
    return share_right(test.labels, np.full(len(test), most))


def show(result: dict[str, Any]) -> None:
    """One row a layer, on stderr."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    for row in result["layers"]:
        cells = [_cell(row[key]) for key in COLUMNS]
        table.add_row(*cells)
    Console(stderr=True, markup=False, emoji=False, highlight=False).print(table)
    note("from, to: 95% interval of the accuracy; cosine, rank: of the states; entropy: of attention, in nats")
    note(f"always saying the most frequent label scores {result['majority_baseline']:.3f}")
    note(f"best layer (on dev): {result['best_layer']}")
    if result["control"] in ("text", "image"):
        row = next(row for row in result["layers"] if row["layer"] == result["best_layer"])
        learnt = f"{row['control_train_accuracy']:.3f} of the random labels of train's {result['control']}s"
        note(f"such a probe learns {learnt} by heart")


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
