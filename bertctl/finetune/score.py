"""Scores a trained model: the settings that dev gives, the test set once, and its predictions beside."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from bertctl.artifacts.folder import write_whole
from bertctl.console import warn
from bertctl.tasks.scores import as_record, is_degenerate, scores_of
from bertctl.tasks.task import nothing_to_tune
from bertctl.training.run_folder import RunFolder
from bertctl.training.runtime import Runtime

if TYPE_CHECKING:
    from bertctl.finetune.train import Trainee


def score_run(trainee: "Trainee", folder: RunFolder) -> dict[str, Any]:
    """Score the test set, or dev if there is none, with the best weights, in float32 as `evaluate` does; predictions go
    beside."""
    data = trainee.data
    chunks, examples = (data.test, data.splits.test) if data.scored == "test" else (data.dev, data.splits.dev)
    exact = replace(trainee.runtime, dtype=torch.float32)
    settings = tuned_on_dev(trainee, exact)
    predictions, _ = trainee.predict(chunks, exact, settings)
    if trainee.runtime.rank == 0:
        rows = [as_record(*pair) for pair in zip(examples, predictions, strict=True)]
        lines = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        for name, text in {f"predictions-{data.scored}.jsonl": lines, **data.task.files(examples, predictions)}.items():
            write_whole(folder.out / name, text)
    degenerate = is_degenerate(data.task, examples, predictions)
    if degenerate:
        warn(f"{trainee.plan.name}: degenerate, it says the same of everything; try another seed or a lower rate")
    return {
        "split": data.scored,
        "degenerate": degenerate,
        "settings": dict(settings),
        **scores_of(data.task, examples, predictions, data.labels),
    }


def tuned_on_dev(trainee: "Trainee", runtime: Runtime) -> Mapping[str, Any]:
    """What the task finds on dev, such as a threshold; most find nothing, and need no pass over dev for it."""
    if trainee.data.task.tune is nothing_to_tune:
        return {}
    return trainee.predict(trainee.data.dev, runtime, None)[1]
