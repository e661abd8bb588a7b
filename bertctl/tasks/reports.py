"""What a report shows of predictions besides scores: calibration, confusions, and the errors that cost most.

Everything is ready for JSON. A part that predictions do not allow, such as calibration without probabilities, is left
out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertctl.metrics.calibration import (
    bin_rows,
    calibration_metrics,
    confidence_of,
    costliest,
    ece_metric,
    losses_of,
    reliability,
)
from bertctl.metrics.confusion import confusion
from bertctl.tasks.task import Prediction, TextExample, TokenExample

MOST_CHARACTERS = 300
NEIGHBOURS = 5  # words shown on each side of a wrong one


def text_shown(example: TextExample) -> dict[str, Any]:
    """What a report shows of a text or a pair besides its place."""
    pair = {} if example.pair is None else {"text_pair": shown(example.pair)}
    return {"text": shown(example.text), **pair}


def text_report(
    examples: Sequence[Any],
    predicted: Sequence[Prediction],
    labels: Sequence[str],
    samples: int,
    shown_of: Callable[[Any], dict[str, Any]] = text_shown,
) -> dict[str, Any]:
    """confusion, calibration (ece, nll, brier, reliability) and costliest_errors of one label a text."""
    gold, said = [example.label for example in examples], [row["label"] for row in predicted]
    found: dict[str, Any] = {"confusion": confusion(gold, said, labels)}
    if not predicted or not all("probabilities" in row for row in predicted):
        return found
    names = dict.fromkeys([*labels, *(name for row in predicted for name in row["probabilities"])])
    shares = np.array([[row["probabilities"].get(name, 0.0) for name in names] for row in predicted])
    place_of = {name: place for place, name in enumerate(names)}
    number, answers = (np.array([place_of[name] for name in side], dtype=np.int64) for side in (gold, said))
    metrics = calibration_metrics(shares, number, answers)
    losses = losses_of(shares[np.arange(len(number)), number])
    wrong = [a != b for a, b in zip(gold, said, strict=True)]
    return found | {
        "calibration": {
            **{name: metric.summary(samples=samples) for name, metric in metrics.items()},
            "reliability": reliability(*confidence_of(shares, number, answers)),
        },
        "costliest_errors": [
            {
                "where": examples[place].place(),
                **shown_of(examples[place]),
                "gold": gold[place],
                "predicted": said[place],
                "probability": float(shares[place, answers[place]]),
                "loss": float(losses[place]) if np.isfinite(losses[place]) else None,
            }
            for place in costliest(losses, wrong)
        ],
    }


def word_report(
    examples: Sequence[TokenExample], predicted: Sequence[Prediction], labels: Sequence[str], samples: int
) -> dict[str, Any]:
    """confusion over words, and from the probability of each predicted tag calibration (ece, reliability) and
    costliest_errors: the wrong tags that were surest."""
    words = [(e, place) for e in examples for place in range(len(e.words))]
    gold, said = [tag for e in examples for tag in e.tags or ()], [tag for row in predicted for tag in row["tags"]]
    found: dict[str, Any] = {"confusion": confusion(gold, said, labels)}
    if not words or not all("probabilities" in row for row in predicted):
        return found
    shares = np.array([share for row in predicted for share in row["probabilities"]])
    right = np.array([a == b for a, b in zip(gold, said, strict=True)])
    starts = np.cumsum([0, *(len(e.words) for e in examples)])[:-1]
    rows = np.add.reduceat(bin_rows(shares, right), starts[[bool(e.words) for e in examples]], axis=0)
    return found | {
        "calibration": {
            "ece": ece_metric(rows).summary(samples=samples),  # by sentence, whose words depend on each other
            "reliability": reliability(shares, right),
        },
        "costliest_errors": [
            {
                "where": words[place][0].place(words[place][1]),
                "word": words[place][0].words[words[place][1]],
                "context": context(*words[place]),
                "gold": gold[place],
                "predicted": said[place],
                "probability": float(shares[place]),
            }
            for place in costliest(shares, ~right)
        ],
    }


def context(example: TokenExample, place: int) -> str:
    """A word and its neighbours."""
    return shown(" ".join(example.words[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]))


def shown(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."
