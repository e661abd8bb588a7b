"""Predictions judged: every metric with its interval, and whether a model says the same of everything."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertctl.metrics.rows import SAMPLES, Metric
from bertctl.tasks.task import Prediction, Task


def scores_of(
    task: Task,
    examples: Sequence[Any],
    predictions: Sequence[Prediction],
    labels: Sequence[str],
    *,
    samples: int = SAMPLES,
) -> dict[str, Any]:
    """{"metrics": {name: value, low, high, ...}} and the task's details, such as a row a class, ready for JSON."""
    metrics = summaries(task.score(examples, predictions, labels), samples=samples)
    return {"metrics": metrics, **task.details(examples, predictions, labels)}


def as_record(example: Any, prediction: Prediction) -> Prediction:
    """A prediction as files have it: with the id of its example, if the data give it one."""
    name = getattr(example, "id", None)
    return prediction if name is None else {"id": name, **prediction}


def summaries(metrics: Mapping[str, Metric], *, samples: int = SAMPLES) -> dict[str, dict[str, Any]]:
    """Every metric as value, low, high, ..., ready for JSON."""
    return {name: metric.summary(samples=samples) for name, metric in metrics.items()}


def majority_baseline(
    task: Task, train: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]
) -> dict[str, Any] | None:
    """The task's metric of somebody who always gives the answer that train suggests, with its interval; None if the
    task has no such answer."""
    always = task.majority(train, examples, labels)
    if always is None:
        return None
    what, predictions = always
    return {"label": what, **task.score(examples, predictions, labels)[task.metric].summary()}


def is_degenerate(task: Task, examples: Sequence[Any], predictions: Sequence[Prediction]) -> bool:
    """Whether one answer is given for everything although the gold labels differ."""
    gold = {answer for example in examples for answer, _ in task.gold(example)}
    answers = [answer for prediction in predictions for answer in task.said(prediction)]
    return len(gold) > 1 and len(answers) > 1 and len(set(answers)) == 1
