"""The learning curve: the same fine-tuning on growing parts of the training data, beside the same encoder without
pretraining, which shows what pretraining is worth where labels are few."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from bertctl.console import note
from bertctl.finetune.result import BASELINES, words
from bertctl.finetune.several import VARIANTS, Project, Trial
from bertctl.tasks.strata import stratified_order


def learning_curve(project: Project) -> tuple[dict[str, Any], Path]:
    """Fine-tune on each share of train; dev and test stay as they are. The result is that of the largest share, with a
    row for each in `curve`; its model is kept."""
    trials = parts(project)
    rows = []
    result: dict[str, Any] = {}
    for share, trial in trials:
        note(f"{trial.name}: {len(trial.splits.train):,} of {len(project.splits.train):,} training examples")
        result = project.train(trial)
        scores = {name: result[name] for name in (*BASELINES, *VARIANTS) if result.get(name) is not None}
        rows.append({"fraction": share, "train_examples": len(trial.splits.train), **scores})
    for row in rows:
        shown = ", ".join(
            f"{name.replace('_', ' ')} {words(row[name]['value'])}" for name in (*BASELINES, *VARIANTS) if name in row
        )
        note(f"{result['task']} {result['metric']} with {row['train_examples']:,} examples: {shown}")
    return {**result, "curve": rows}, project.folder(trials[-1][1].name)


def parts(project: Project) -> list[tuple[float, Trial]]:
    """(share, trial) from the smallest to the largest: each holds the one before it, and the labels in their shares."""
    train = project.splits.train
    order = stratified_order(project.task, train, project.seed)
    section = project.section.model_copy(update={"train_fraction": (), "from_scratch": True})
    trials = []
    for share in sorted(project.section.train_fraction):
        chosen = sorted(order[: max(1, round(share * len(train)))])
        some = replace(project.splits, train=[train[place] for place in chosen])
        trials.append((share, Trial(f"fraction-{share:g}", section, some)))
    return trials
