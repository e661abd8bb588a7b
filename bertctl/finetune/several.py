"""Many fine-tunings in place of one: what folds, learning curves and searches have in common.

Each trial is a whole fine-tuning in a run folder of its own below `out/runs`, with other examples or another section.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl.finetune.config import FinetuneSection
from bertctl.tasks.task import Splits, Task

RUNS = "runs"
VARIANTS = ("pretrained", "from_scratch")


@dataclass(frozen=True)
class Trial:
    """One fine-tuning: the name of its folder, what is done, and with which examples."""

    name: str
    section: FinetuneSection
    splits: Splits


@dataclass(frozen=True)
class Project:
    """What trials are made of. `labels` are those of all examples, so that every trial has the same outputs; `train`
    does a trial and returns its result; `writes`: whether this rank writes files."""

    section: FinetuneSection
    task: Task
    splits: Splits
    labels: list[str]
    seed: int
    out: Path
    train: Callable[[Trial], dict[str, Any]]
    writes: bool

    def folder(self, name: str) -> Path:
        """Where the trial of this name lives."""
        return self.out / RUNS / name


Way = Callable[[Project], tuple[dict[str, Any], Path]]
"""Does all trials; returns the result, and the folder of the trial whose model is kept."""


def dev_of(result: dict[str, Any]) -> float | None:
    """The dev metric of the run that a trial chose."""
    chosen = result["pretrained"]
    value: float | None = next(run["dev"] for run in chosen["seeds"] if run["seed"] == chosen["seed"])
    return value


def best_of(values: list[float | None]) -> int:
    """The place of the highest value, of equal ones the first; an undefined one is below all others."""
    return max(range(len(values)), key=lambda place: _or_lowest(values[place]))


def _or_lowest(value: float | None) -> float:
    return float("-inf") if value is None else value
