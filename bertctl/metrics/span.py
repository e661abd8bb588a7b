"""Exact match and F1 of answers to questions about a text, by the rules of SQuAD 1.1 and 2.0.

Both compare normalised text and take the best of the gold answers. They differ in three points: 2.0 knows questions
without an answer, for which an empty answer is right; it leaves out gold answers of which nothing is left after
normalisation; and the F1 of two texts of which nothing is left is 1 in 2.0 and 0 in 1.1. A prediction that is missing
(None) counts 0 in both: the script of 1.1 says so, that of 2.0 ends with an error. Scores go from 0 to 1, those of the
scripts to 100.
Source: Rajpurkar et al., arXiv:1606.05250 and arXiv:1806.03822; their scripts evaluate-v1.1.py and evaluate-v2.0.py.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertctl.metrics.rows import Metric, mean_metric

Version = Literal["1.1", "2.0"]
ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
EMPTY = "there are no questions"
NAMES = ("exact", "f1")


def normalized(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single blanks."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def token_f1(predicted: str, gold: str, version: Version) -> float:
    """F1 of the words of two normalised texts, as bags."""
    said, true = predicted.split(), gold.split()
    if version == "2.0" and not (said and true):
        return float(said == true)
    shared = sum((Counter(said) & Counter(true)).values())
    return 2 * shared / (len(said) + len(true)) if shared else 0.0


def answer_scores(predicted: str | None, gold: Sequence[str], version: Version) -> tuple[float, float]:
    """(exact, f1) of one answer, each the best over the gold answers. No gold answers: an empty one is right."""
    if predicted is None:
        return 0.0, 0.0
    said, true = normalized(predicted), [normalized(text) for text in gold]
    if version == "2.0":
        true = [text for text in true if text] or [""]
    pairs = [(float(said == text), token_f1(said, text, version)) for text in true]
    return max(exact for exact, _ in pairs), max(f1 for _, f1 in pairs)


def span_rows(gold: Sequence[Sequence[str]], predicted: Sequence[str | None], version: Version) -> np.ndarray:
    """(exact, f1) of every question. Shapes: [N, 2].

    Errors: ValueError if there are more or fewer predictions than questions, or a 1.1 question without gold answer.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"got {len(predicted)} predictions for {len(gold)} questions")
    if version == "1.1" and not all(gold):
        raise ValueError("got a question without gold answer, which SQuAD 1.1 does not have")
    scores = [answer_scores(said, true, version) for said, true in zip(predicted, gold, strict=True)]
    return np.array(scores, dtype=np.float64).reshape(-1, 2)


def span_metrics(gold: Sequence[Sequence[str]], predicted: Sequence[str | None], version: Version) -> dict[str, Metric]:
    """exact and f1; in 2.0 also has_answer_exact, has_answer_f1, no_answer_exact and no_answer_f1.

    Shapes: N questions; gold: the answers of each, none if it has none. Errors: as `span_rows`.
    """
    scores = span_rows(gold, predicted, version)
    answerable = np.array([bool(texts) for texts in gold], dtype=bool)
    found = _means(scores, np.ones(len(scores), dtype=bool), "", EMPTY)
    if version == "2.0":
        found |= _means(scores, answerable, "has_answer_", "every question is without an answer")
        found |= _means(scores, ~answerable, "no_answer_", "every question has an answer")
    return found


def best_span_metrics(
    gold: Sequence[Sequence[str]], predicted: Sequence[str | None], no_answer: Sequence[float]
) -> dict[str, Metric]:
    """best_exact and best_f1 by the rules of 2.0: the highest scores that any threshold for `no_answer` gives, found on
    these very questions. Their intervals are at that threshold.

    Shapes: [N] each; predicted: what is said if there is an answer; no_answer: how sure it is that there is none.
    Errors: as `span_rows` and `best_threshold`.
    """
    scores = span_rows(gold, predicted, "2.0")
    answerable = np.array([bool(texts) for texts in gold], dtype=bool)
    found = {}
    for column, name in enumerate(NAMES):
        best = best_threshold(scores[:, column], answerable, no_answer)
        values = with_threshold(scores[:, column], answerable, no_answer, best.threshold)
        note = f"at the best threshold for these questions, {best.threshold:g}"
        found[f"best_{name}"] = mean_metric(f"best_{name}", values, EMPTY, note)
    return found


@dataclass(frozen=True)
class Best:
    """The highest mean score, and the threshold that gives it."""

    score: float
    threshold: float


def with_threshold(
    scores: np.ndarray, answerable: np.ndarray, no_answer: Sequence[float] | np.ndarray, threshold: float
) -> np.ndarray:
    """Scores where every question with `no_answer` > threshold gets no answer, right if it has none. Shapes: [N]."""
    silent = np.asarray(no_answer, dtype=np.float64) > threshold
    return np.where(silent, (~np.asarray(answerable, dtype=bool)).astype(np.float64), scores)


def best_threshold(scores: np.ndarray, answerable: np.ndarray, no_answer: Sequence[float] | np.ndarray) -> Best:
    """The threshold for `no_answer` at which the mean score is highest, the lowest one among equals.

    Shapes: [N] each; scores of the answers as they were given, from 0 to 1; no_answer: any finite numbers. The
    candidates are those of the official search: 0 (everything unanswered) and every value of `no_answer`. Questions
    with equal values go together, where the official search also tries to part them, which no threshold can.
    Errors: ValueError without questions.
    """
    sureness = np.asarray(no_answer, dtype=np.float64)
    if not len(sureness) or len(sureness) != len(scores) or not np.isfinite(sureness).all():
        raise ValueError("expected one finite no-answer value for each of at least one question")
    order = np.argsort(sureness, kind="stable")
    silent = (~np.asarray(answerable, dtype=bool)).astype(np.float64)
    totals = silent.sum() + np.cumsum(scores[order] - silent[order])
    values = sureness[order]
    last = np.append(values[1:] != values[:-1], True)  # of each run of equal values
    below = 0.0 if values[0] > 0 else values[0] - 1.0
    candidates = [(silent.sum(), below), *zip(totals[last], values[last], strict=True)]
    total, threshold = max(candidates, key=lambda pair: pair[0])
    return Best(float(total / len(values)), float(threshold))


def _means(scores: np.ndarray, chosen: np.ndarray, prefix: str, reason: str) -> dict[str, Metric]:
    note = f"over {int(chosen.sum())} of {len(chosen)} questions" if prefix else ""
    names = [(prefix + name, scores[:, column]) for column, name in enumerate(NAMES)]
    return {name: mean_metric(name, values, reason, note, chosen=chosen) for name, values in names}
