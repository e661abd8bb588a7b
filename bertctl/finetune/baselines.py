"""What a linear model scores that sees how often each word piece occurs, or how long the texts are, and no more.

Both are fitted with the task's own loss and a penalty on squared weights, by L-BFGS over all training inputs at once:
convex for the losses of whole texts, so that nothing depends on a seed. Dev picks the penalty, and a threshold if the
task has one. Shapes: N inputs, D columns, C outputs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertctl import signals
from bertctl.finetune.data import TaskData
from bertctl.metrics.rows import Metric
from bertctl.tasks.losses import PLAIN
from bertctl.tasks.predicting import Chunk, joined
from bertctl.tasks.task import Features, Task
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import Batch

PENALTIES = (1e-3, 1e-4, 1e-5)  # of counts; with SST-2, TREC and IMDB the best one was among these
ITERATIONS = 60  # of L-BFGS for each penalty, from the weights of the one before
MOST_INPUTS = 100_000  # training inputs, drawn at random from more; SST-2 has 67,349
MOST_WEIGHTS = 4_000_000  # the most frequent pieces, as many as make so many weights

Columns = Callable[[Sequence[Features]], Tensor]


def linear_baselines(data: TaskData) -> dict[str, dict[str, Any]]:
    """{"bag_of_words": ..., "length_baseline": ... of pairs}, each the task's metric on the scored split with its
    interval, and all metrics; {} for tasks that are not about whole texts."""
    if data.task.head != "sequence":
        return {}
    train = some_of(data.train)
    found = {"bag_of_words": fitted(data, train, piece_counts(data, train))}
    if _occurrences(train, data.tokenizer)[1].max(initial=0) >= data.tokenizer.vocab_size:  # there is a second text
        found["length_baseline"] = fitted(data, train, lengths(data, train))
    return found


def some_of(features: list[Features]) -> list[Features]:
    """All inputs, or the same `MOST_INPUTS` of more at every call, in their order."""
    if len(features) <= MOST_INPUTS:
        return features
    chosen = np.random.default_rng(0).choice(len(features), MOST_INPUTS, replace=False)
    return [features[place] for place in sorted(chosen.tolist())]


def piece_counts(data: TaskData, train: Sequence[Features]) -> Columns:
    """Inputs -> [N, D] sparse: how often each piece that train has occurs, in each text of a pair apart."""
    _, seen = _occurrences(train, data.tokenizer)
    seen = seen if len(seen) else np.zeros(1, dtype=np.int64)  # texts without a piece still make a column
    known, times = np.unique(seen, return_counts=True)
    most = max(1, MOST_WEIGHTS // data.task.outputs(data.labels))
    known = np.sort(known[np.argsort(-times, kind="stable")[:most]])

    def columns(features: Sequence[Features]) -> Tensor:
        rows, pieces = _occurrences(features, data.tokenizer)
        is_known = np.isin(pieces, known)
        where = torch.from_numpy(np.stack([rows[is_known], np.searchsorted(known, pieces[is_known])]))
        shape = (len(features), len(known))
        return torch.sparse_coo_tensor(where, torch.ones(where.shape[1]), shape, check_invariants=True).coalesce()

    return columns


def _occurrences(features: Sequence[Features], tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """(input, piece) of every piece; those of the second text, behind the first separator, are numbered after those of
    the first."""
    sizes = np.array([len(feature.input_ids) for feature in features])
    rows = np.repeat(np.arange(len(features)), sizes)
    ids = np.concatenate([feature.input_ids for feature in features])
    separators = np.cumsum(ids == tokenizer.sep_id)
    before_row = np.concatenate([[0], separators[np.cumsum(sizes) - 1]])[:-1]
    second = separators > before_row[rows]
    plain = ~np.isin(ids, list(tokenizer.special_ids))
    return rows[plain], (ids + tokenizer.vocab_size * second)[plain]


def lengths(data: TaskData, train: Sequence[Features]) -> Columns:
    """Inputs -> [N, 3]: pieces of the first and of the second text, and their difference without its sign, each with
    mean 0 and deviation 1 over train."""

    def counts(features: Sequence[Features]) -> Tensor:
        rows, pieces = _occurrences(features, data.tokenizer)
        second = pieces >= data.tokenizer.vocab_size
        first, pair = (np.bincount(rows[part], minlength=len(features)) for part in (~second, second))
        return torch.from_numpy(np.stack([first, pair, abs(first - pair)], axis=1)).float()

    mean, deviation = counts(train).mean(dim=0), counts(train).std(dim=0, correction=0).clamp(min=1e-6)
    return lambda features: (counts(features) - mean) / deviation


def fitted(data: TaskData, train: Sequence[Features], columns: Columns) -> dict[str, Any]:
    """The linear model over these columns, with the penalty that dev likes best, scored."""
    labels = {"labels": torch.tensor([feature.labels for feature in train])}
    inputs, dev, test = columns(train), joined(data.dev), joined(data.test)
    weights = torch.zeros(inputs.shape[1] + 1, data.task.outputs(data.labels), requires_grad=True)
    best: tuple[float, float, dict[str, Metric]] | None = None
    for penalty in PENALTIES:
        minimise(data.task, weights, inputs, labels, penalty)
        settings, metrics = scored(data, dev, columns, weights, None)
        value = metrics[data.task.metric].point()
        if best is None or (value is not None and value > best[0]):
            chosen = metrics if data.scored == "dev" else scored(data, test, columns, weights, settings)[1]
            best = (float("-inf") if value is None else value, penalty, chosen)
    assert best is not None  # there is a penalty
    _, penalty, metrics = best
    points = {name: metric.point() for name, metric in metrics.items()}
    return {**metrics[data.task.metric].summary(), "metrics": points, "penalty": penalty}


def minimise(task: Task, weights: Tensor, inputs: Tensor, labels: Batch, penalty: float) -> None:
    """Fit `weights` [D + 1, C], whose last row is the bias, in place."""
    assert task.loss is not None  # a task without one is not about whole texts with answers
    sum_of, count = task.loss.sum, task.loss.count(labels, PLAIN)
    search = torch.optim.LBFGS([weights], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        signals.check("fitting a baseline")
        search.zero_grad()
        value = sum_of(linear(inputs, weights), labels, PLAIN) / count + penalty * weights[:-1].square().sum()
        value.backward()
        return value

    search.step(loss)


def linear(inputs: Tensor, weights: Tensor) -> Tensor:
    """Logits. Shapes: inputs [N, D], sparse or not, weights [D + 1, C]; returns [N, C]."""
    return (
        torch.sparse.mm(inputs, weights[:-1]) + weights[-1] if inputs.is_sparse else inputs @ weights[:-1] + weights[-1]
    )


def scored(
    data: TaskData, part: Chunk, columns: Columns, weights: Tensor, settings: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Metric]]:
    """(settings, metrics) of some examples; without `settings` the task finds them on these, which must be dev."""
    with torch.no_grad():
        logits = list(linear(columns(part.features), weights).numpy())
    task, labels = data.task, data.labels
    found = task.tune(part.examples, part.features, logits, labels) if settings is None else settings
    predictions = task.predictions(part.examples, part.features, logits, labels, found)
    return found, task.score(part.examples, predictions, labels)
