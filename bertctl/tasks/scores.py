"""Predictions judged: every metric with its interval, and whether a model says the same of everything."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bertctl.metrics.rows import SAMPLES
from bertctl.tasks.task import Prediction, Task


def scores_of(
    task: Task,
    examples: Sequence[Any],
    predictions: Sequence[Prediction],
    labels: Sequence[str],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """{"metrics": {name: value, low, high, ...}} and the task's details, such as a row a class, ready for JSON."""
    metrics = task.score(examples, predictions, labels)
    summaries = {name: metric.summary(samples=samples, seed=seed) for name, metric in metrics.items()}
    return {"metrics": summaries, **task.details(examples, predictions, labels)}


def majority_baseline(task: Task, examples: Sequence[Any], label: str, labels: Sequence[str]) -> dict[str, Any]:
    """The task's metric of somebody who always says `label`, with its interval."""
    metric = task.score(examples, task.constant(examples, label), labels)[task.metric]
    return {"label": label, **metric.summary()}


def is_degenerate(task: Task, examples: Sequence[Any], predictions: Sequence[Prediction]) -> bool:
    """Whether one label is predicted for everything although the gold labels differ."""
    gold = {label for example in examples for label, _ in task.gold(example)}
    return len(gold) > 1 and len(set(labels_said(predictions))) <= 1


def labels_said(predictions: Iterable[Prediction]) -> Iterator[str]:
    """Every predicted label, of texts or of words."""
    for prediction in predictions:
        if "label" in prediction:
            yield prediction["label"]
        else:
            yield from prediction["tags"]
