"""Many fine-tunings in place of one: what folds, learning curves and searches have in common.

Each trial is a whole fine-tuning in a run folder of its own below `out/runs`, with other examples or another section.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.console import note
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.data import hash_of
from bertctl.finetune.start import BOOKKEEPING, FROM_SCRATCH, PRETRAINED, resolve_source
from bertctl.tasks.task import Splits, Task
from bertctl.training.origin import origin_hash
from bertctl.training.run_folder import RunFolder
from bertctl.training.runtime import Runtime

RUNS = "runs"
VARIANTS = (PRETRAINED, FROM_SCRATCH)


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


def explore(way: Way, project: Project, *, resume: bool, runtime: Runtime) -> dict[str, Any]:
    """Do many fine-tunings, each in a run folder of its own below `out/runs`, as one run that can be resumed."""
    began = time.monotonic()
    section, out = project.section, project.out
    values = section.model_dump(mode="json", exclude={"name", "model", "data", "training"})
    values["model"] = origin_hash(resolve_source(section))
    values["training"] = section.training.model_dump(mode="json", exclude=BOOKKEEPING)
    inputs = {"data": hash_of(project.task, project.splits)}
    with RunFolder(
        out,
        kind="finetune",
        resume=resume,
        keep=section.training.keep_checkpoints,
        fingerprint={**values, **inputs},
        inputs=inputs,
        rank=runtime.rank,
    ) as folder:
        if folder.finished:
            note(f"{out}: this run is finished; nothing to do")
            return folder.result
        result, kept = way(project)
        result |= {"seconds": round(time.monotonic() - began, 2)}
        folder.finish(lambda temp: copy_model(kept / "model", temp), result)
        return result


def copy_model(source: Path, folder: Path) -> None:
    """The files of a finished model, without its manifest."""
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST))


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
