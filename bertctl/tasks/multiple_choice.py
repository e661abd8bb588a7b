"""Multiple choice: which of several endings or answers fits, from one score for each.

A model reads [CLS] context [SEP] question choice [SEP] for each choice, and the scores of an example compete: softmax
over its choices, as SWAG is done with BERT (arXiv:1810.04805, section 4.4).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertctl.metrics.rows import Metric
from bertctl.metrics.temperature import softmax
from bertctl.tasks.choices import ChoiceExample
from bertctl.tasks.task import Features, Limits, Prediction, TextExample
from bertctl.tasks.texts import encode_texts
from bertctl.tasks.values import most_frequent
from bertctl.text.tokenizer import Tokenizer


def encode(
    examples: Sequence[ChoiceExample], tokenizer: Tokenizer, label_names: Sequence[str], limits: Limits
) -> list[Features]:
    """One feature a choice, those of an example next to each other; labelled 1 if it is the right one, else 0."""
    places = [(place, role) for place, example in enumerate(examples) for role in range(len(example.choices))]
    texts = [TextExample(*_segments(examples[place], role), None, examples[place].where) for place, role in places]
    features = encode_texts(texts, tokenizer, limits.max_length)
    for feature, (place, role) in zip(features, places, strict=True):
        label = examples[place].label
        feature.example, feature.role = place, role
        feature.labels = None if label is None else int(role == label)
    return features


def _segments(example: ChoiceExample, role: int) -> tuple[str, str]:
    """What is read of a choice. The question, such as the beginning of an ending, stands before the choice unless there
    is no context for it to follow."""
    choice = example.choices[role]
    if not example.context:
        return example.question, choice
    return example.context, f"{example.question} {choice}" if example.question else choice


def predictions(
    examples: Sequence[ChoiceExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """{"choice": its number, "text", "probability", "probabilities": one a choice}. Shapes: logits [1] each."""
    scores: list[list[float]] = [[] for _ in examples]
    for feature, values in zip(features, logits, strict=True):
        scores[feature.example].append(float(values[0]))
    rows = []
    for example, found in zip(examples, scores, strict=True):
        shares = softmax(np.array(found))
        best = int(shares.argmax())
        row = {"choice": best, "text": example.choices[best], "probability": float(shares[best])}
        rows.append(row | {"probabilities": shares.tolist()})
    return rows


def majority(
    train: Sequence[ChoiceExample], examples: Sequence[ChoiceExample], label_names: Sequence[str]
) -> tuple[str, list[Prediction]]:
    """The number that is right most often in train, the last choice of examples that have fewer."""
    label = int(most_frequent(str(example.label) for example in train))
    return f"choice {label}", [{"choice": min(label, len(example.choices) - 1)} for example in examples]


def said(prediction: Prediction) -> list[int]:
    """The number of the choice."""
    return [prediction["choice"]]


def score(
    examples: Sequence[ChoiceExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """accuracy."""
    right = [example.label == row["choice"] for example, row in zip(examples, predicted, strict=True)]
    rows = np.stack([np.array(right, dtype=np.float64), np.ones(len(right))], axis=1)
    return {"accuracy": Metric("accuracy", rows, lambda sums: sums[..., 0] / sums[..., 1], "there are no examples")}


def details(
    examples: Sequence[ChoiceExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """chance_accuracy, what guessing scores on average, and how many examples have how many choices."""
    counts = Counter(len(example.choices) for example in examples)
    chance = sum(count / choices for choices, count in counts.items()) / len(examples) if examples else None
    return {"chance_accuracy": chance, "choices": {str(choices): counts[choices] for choices in sorted(counts)}}
