"""Scores one system or two on the labelled data of a task. Read it from top to bottom."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertctl import signals
from bertctl.console import note, warn
from bertctl.errors import raise_problems
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.systems import Checkpoint, System, answers_in_files, answers_of
from bertctl.evaluate.task import labels_for
from bertctl.metrics.compare import compare
from bertctl.metrics.rows import Metric
from bertctl.tasks.label_checks import unknown_labels
from bertctl.tasks.scores import as_record, is_degenerate, summaries
from bertctl.tasks.splits import test_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Task
from bertctl.tasks.texts import refuse_other_texts
from bertctl.tasks.values import sorted_labels
from bertctl.training.runtime import Runtime


def score_task(
    section: EvaluateSection,
    name: str,
    checkpoints: Sequence[Checkpoint],
    *,
    folder: Path,
    seed: int,
    runtime: Runtime,
) -> dict[str, Any]:
    """Metrics with intervals, a row a class, calibration and errors of the first system; of a second one the same under
    `against`, and both compared. Writes predictions.jsonl, a line an example in input order, for each."""
    task = TASKS[name]
    heads = [labels_for(task, checkpoint.loaded, checkpoint.name) for checkpoint in checkpoints]
    split, read = test_data(task, section.data, labels=heads[0] if heads else None, seed=seed)
    for checkpoint in checkpoints:
        refuse_other_texts(read, checkpoint.loaded.extra, checkpoint.name, "evaluate")
    examples = task.scored(read)
    task = task.fitted(examples)
    for checkpoint, labels in zip(checkpoints[1:], heads[1:], strict=True):
        raise_problems(unknown_labels(task, examples, labels, checkpoint.name) if task.classes else [])
    files = answers_in_files(section, task, examples)  # what is wrong in them is said before a model runs
    models = [answers_of(c, task, examples, own, section, runtime) for c, own in zip(checkpoints, heads, strict=True)]
    systems = [*models, *files]
    labels = all_labels(task, examples, systems)
    metrics = [task.score(examples, system.predictions, labels) for system in systems]
    for suffix, system in zip(("", "-against"), systems, strict=False):
        write_predictions(folder, suffix, task, examples, system)
    found = [judged(section, task, examples, s, labels, m) for s, m in zip(systems, metrics, strict=True)]
    result = {"split": split, "examples": len(examples), "metric": task.metric, "labels": labels, **found[0]}
    if len(systems) == 2:
        result |= {"against": found[1], "comparison": comparison(section, *metrics)}
    return result


def all_labels(task: Task, examples: Sequence[Any], systems: Sequence[System]) -> list[str]:
    """Labels in one order for all systems: those of the first head, then what else a head, the data or a file has."""
    if not task.classes:
        return []
    heads = [name for system in systems if "model" in system.what for name in system.labels]
    gold = {name for example in examples for name, _ in task.gold(example)}
    others = sorted_labels(gold | {name for system in systems for name in system.labels})
    return list(dict.fromkeys([*heads, *others]))


def judged(
    section: EvaluateSection,
    task: Task,
    examples: Sequence[Any],
    system: System,
    labels: Sequence[str],
    metrics: Mapping[str, Metric],
) -> dict[str, Any]:
    """Everything that is said of one system."""
    if is_degenerate(task, examples, system.predictions):
        warn(f"{system.name}: degenerate, it says the same of everything")
    samples = section.bootstrap_samples
    return {
        **system.what,
        "metrics": summaries(metrics, samples=samples),
        **task.details(examples, system.predictions, labels),
        **task.report(examples, system.predictions, labels, samples),
        **system.about,
    }


def comparison(
    section: EvaluateSection, first: Mapping[str, Metric], second: Mapping[str, Metric]
) -> dict[str, dict[str, Any]]:
    """Every metric that both have: both values, their difference with its interval, and the p-value."""
    found = {}
    for name in [name for name in first if name in second]:
        signals.check("comparing")
        samples, rounds = section.bootstrap_samples, section.randomisation_rounds
        found[name] = compare(first[name], second[name], samples=samples, rounds=rounds)
    return found


def write_predictions(folder: Path, suffix: str, task: Task, examples: Sequence[Any], system: System) -> None:
    """predictions.jsonl: a line an example, in input order, with the gold answer. Of a model also what the task writes
    in the form of its own scripts."""
    with (folder / f"predictions{suffix}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for example, prediction in zip(examples, system.predictions, strict=True):
            row = {**as_record(example, prediction), "gold": task.truth(example)}
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
    own = task.files(examples, system.predictions) if "model" in system.what else {}
    for name, text in own.items():
        place = folder / name
        place.with_stem(place.stem + suffix).write_text(text, encoding="utf-8")


def show(result: Mapping[str, Any], out: Path) -> None:
    """Every metric with its interval; of two systems their difference, too; and where `out` has the rest."""
    compared = result.get("comparison", {})
    for name, found in result["metrics"].items():
        if found["value"] is None:
            note(f"{name}: undefined, {found['reason']}")
        else:
            interval = f"({found['low']:.4f} to {found['high']:.4f})"
            note(f"{name}: {found['value']:.4f} {interval}{beside(compared.get(name))}")
    note(f"in brackets: 95% intervals, a bootstrap over the examples; all of it: {out / 'result.json'}")


def beside(found: Mapping[str, Any] | None) -> str:
    """`, against 0.8100: +0.0123 (0.0020 to 0.0230), p = 0.0120`."""
    if found is None or found["difference"] is None:
        return ""
    interval = f"({found['low']:+.4f} to {found['high']:+.4f})"
    return f", against {found['second']:.4f}: {found['difference']:+.4f} {interval}, p = {found['p_value']:.4g}"
