"""Extractive question answering: the answer is a span of the context, or that there is none.

Scores follow the rules of SQuAD, in the version that the data have. Whether there is an answer is decided as BERT
decides it (arXiv:1810.04805, section 4.3): the score of [CLS] against that of the best span, with a threshold from dev.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bertctl.metrics.rows import Metric
from bertctl.metrics.span import Version, answer_scores, best_span_metrics, best_threshold, span_metrics
from bertctl.metrics.temperature import softmax
from bertctl.tasks.offsets import misfit
from bertctl.tasks.questions import QuestionExample, truth
from bertctl.tasks.spans import Span, best_spans, null_score
from bertctl.tasks.task import Features, Prediction

N_BEST = 10
THRESHOLD = "null_threshold"


def predictions(
    examples: Sequence[QuestionExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """{"id", "answer", "start", "end", "probability", "null_score", "null_difference", "n_best"} for each example.

    `start` and `end` are code points of the context, null for no answer, which is "" as in SQuAD. There is none if
    `null_difference`, the score of [CLS] less that of the best span, is above `null_threshold`; without that setting 0
    is the threshold in data that have questions without an answer, and other data always get an answer.
    Shapes: logits [T, 2] each.
    """
    rows = []
    for example, own, values in _by_example(examples, features, logits):
        threshold = settings.get(THRESHOLD, 0.0 if example.may_have_none else None)
        rows.append(answer(example, best_spans(own, values, N_BEST), null_score(values), threshold))
    return rows


def _by_example(
    examples: Sequence[QuestionExample], features: Sequence[Features], logits: Sequence[np.ndarray]
) -> Iterator[tuple[QuestionExample, list[Features], list[np.ndarray]]]:
    """Every example with its windows and their logits."""
    own: list[tuple[list[Features], list[np.ndarray]]] = [([], []) for _ in examples]
    for feature, values in zip(features, logits, strict=True):
        own[feature.example][0].append(feature)
        own[feature.example][1].append(values)
    return ((example, *found) for example, found in zip(examples, own, strict=True))


def answer(example: QuestionExample, spans: Sequence[Span], null: float, threshold: float | None) -> Prediction:
    """The prediction for one example. Probabilities are over the n best spans and, if there may be none, no answer."""
    difference = null - spans[0].score if spans else None
    silent = difference is None or (threshold is not None and difference > threshold)
    found: list[dict[str, Any]] = [
        {"text": example.context[s.start : s.end], "start": s.start, "end": s.end, "score": s.score} for s in spans
    ]
    if threshold is not None or not spans:
        found.append({"text": "", "start": None, "end": None, "score": null})
    shares = softmax(np.array([row["score"] for row in found]))
    best = [row | {"probability": float(share)} for row, share in zip(found, shares, strict=True)]
    said = best[-1] if silent else best[0]
    return {
        "id": example.id,
        "answer": said["text"],
        **{key: said[key] for key in ("start", "end", "probability")},
        "null_score": null,
        "null_difference": difference,
        "n_best": sorted(best, key=lambda row: -row["score"]),
    }


def tune(
    examples: Sequence[QuestionExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
) -> dict[str, Any]:
    """{"null_threshold"}: the one with the highest F1 on dev, half way to the next value that occurs there; {} if dev
    has no question without an answer."""
    if not any(example.answers == () for example in examples):
        return {}
    spoken = []
    for example, own, values in _by_example(examples, features, logits):
        row = answer(example, best_spans(own, values, N_BEST), null_score(values), None)
        if row["null_difference"] is not None:  # else no threshold makes it speak
            f1 = answer_scores(row["answer"], truth(example), "2.0")[1]
            spoken.append((f1, bool(example.answers), row["null_difference"]))
    if not spoken:
        return {}
    scores, answerable, differences = (np.array(column) for column in zip(*spoken, strict=True))
    low = best_threshold(scores, answerable, differences).threshold
    return {THRESHOLD: (low + min(differences[differences > low], default=low + 2.0)) / 2}


def majority(
    train: Sequence[QuestionExample], examples: Sequence[QuestionExample], label_names: Sequence[str]
) -> tuple[str, list[Prediction]] | None:
    """No answer to everything, if train has questions without one."""
    if not any(example.answers == () for example in train):
        return None
    return "no answer", [{"answer": ""} for _ in examples]


def said(prediction: Prediction) -> list[str]:
    """The answer."""
    return [prediction["answer"]]


def score(
    examples: Sequence[QuestionExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """exact and f1, in data of version 2.0 also has_answer_* and no_answer_*, and best_* over all thresholds if every
    prediction says how sure it is that there is no answer."""
    gold, version = [truth(example) for example in examples], version_of(examples)
    found = span_metrics(gold, [row["answer"] for row in predicted], version)
    unsure = [no_answer(row) for row in predicted]
    sure = [pair for pair in unsure if pair is not None]
    if version == "2.0" and sure and len(sure) == len(unsure):
        found |= best_span_metrics(gold, [said for said, _ in sure], [value for _, value in sure])
    return found


def no_answer(prediction: Prediction) -> tuple[str | None, float] | None:
    """(what is said if there is an answer, how sure it is that there is none); None if the prediction does not say."""
    if "no_answer_probability" in prediction:  # of another system
        return prediction["answer_if_any"], prediction["no_answer_probability"]
    if prediction.get("null_difference") is None:
        return None
    spoken = next(row["text"] for row in prediction["n_best"] if row["start"] is not None)
    return spoken, prediction["null_difference"]


def details(
    examples: Sequence[QuestionExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """The version of SQuAD whose rules apply, and counts: questions without gold answer and without a predicted one,
    and those with a gold answer that is not where the data say."""
    return {
        "squad_version": version_of(examples),
        "without_answer": sum(not example.answers for example in examples),
        "predicted_without_answer": sum(row["answer"] == "" for row in predicted),
        "misfits": sum(misfit(example) is not None for example in examples),
    }


def version_of(examples: Sequence[QuestionExample]) -> Version:
    """2.0 if some question of the data set has no answer."""
    return "2.0" if any(example.may_have_none for example in examples) else "1.1"
