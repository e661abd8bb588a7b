"""A label for every word of a sentence: named entities, parts of speech. The loss is on the first piece of each word.

A sentence longer than the model is read in windows that overlap, each of which answers for some of its words, so that
every gold tag is predicted and scored exactly once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertctl.errors import BertctlError
from bertctl.metrics.classification import per_class
from bertctl.metrics.rows import Metric
from bertctl.metrics.tagging import entities, per_type, tagging_metrics, token_metrics
from bertctl.metrics.temperature import fit_temperature, softmax
from bertctl.tasks import schemes
from bertctl.tasks.classification import TEMPERATURE
from bertctl.tasks.config import DataSection
from bertctl.tasks.task import IGNORED, Features, Limits, Prediction, TokenExample
from bertctl.tasks.values import most_frequent, sorted_labels
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.windows import check_overlap, fit_word, word_windows

DEFAULT_OVERLAP = 32  # word pieces


def settle_schemes(
    splits: Mapping[str, list[TokenExample]], data: DataSection, problems: list[str]
) -> dict[str, list[TokenExample]]:
    """Entities: every example knows the scheme of the whole data set."""
    scheme = schemes.settle([example for split in splits.values() for example in split], data, problems)
    return {name: [replace(example, scheme=scheme) for example in split] for name, split in splits.items()}


def plain_tags(
    splits: Mapping[str, list[TokenExample]], data: DataSection, problems: list[str]
) -> dict[str, list[TokenExample]]:
    """Parts of speech: a tag is a name and nothing else."""
    return dict(splits)


def entity_labels(examples: Sequence[TokenExample]) -> list[str]:
    """O, and all tags that the scheme can write for the types in the training examples."""
    scheme = examples[0].scheme if examples else "none"
    return schemes.complete_labels({tag for example in examples for tag in example.tags or ()}, scheme)


def tag_labels(examples: Sequence[TokenExample]) -> list[str]:
    """The tags in the training examples."""
    return sorted_labels({tag for example in examples for tag in example.tags or ()})


def gold(example: TokenExample) -> list[tuple[str, str]]:
    """(tag, place) of every word, if there are tags."""
    return [(tag, example.place(word)) for word, tag in enumerate(example.tags or ())]


def truth(example: TokenExample) -> list[str]:
    """The tag of every word."""
    return list(example.tags or ())


def key(example: TokenExample) -> tuple[str, ...]:
    """The words as one text."""
    return (" ".join(example.words),)


def encode(
    examples: Sequence[TokenExample],
    tokenizer: Tokenizer,
    label_names: Sequence[str],
    limits: Limits,
) -> list[Features]:
    """[CLS] pieces [SEP], or as the tokenizer has it, of every window; those of a sentence stand next to each other.

    Errors: BertctlError if nothing fits, or no new word would.
    """
    number = {name: place for place, name in enumerate(label_names)}
    room = limits.max_length - tokenizer.special_count(1)
    shared = min(DEFAULT_OVERLAP, room // 2) if limits.overlap is None else limits.overlap
    check_overlap(room=room, overlap=shared)
    features = []
    for place, ids in enumerate(tokenizer.encode_words([example.words for example in examples])):
        tags = examples[place].tags
        labels = None if tags is None else [number[tag] for tag in tags]
        for window in word_windows([len(pieces) for pieces in ids], room=room, overlap=shared):
            words = list(range(window.own_start, window.own_stop))
            features.append(_window(ids[window.start : window.stop], window.start, words, labels, room, tokenizer))
            features[-1].example = place
    return features


def _window(
    ids: list[list[int]], start: int, words: list[int], labels: list[int] | None, room: int, tokenizer: Tokenizer
) -> Features:
    """The feature that shows the words `ids` (the first is word `start`) and answers for `words`."""
    shown: list[int] = []
    first = []
    for pieces in ids:
        first.append(len(shown))
        shown += fit_word(pieces, room)
    joined = tokenizer.join(shown)
    positions = [joined.starts[0] + first[word - start] for word in words]
    targets = None
    if labels is not None:
        targets = [IGNORED] * len(joined.ids)
        for word, position in zip(words, positions, strict=True):
            targets[position] = labels[word]
    owned = [len(ids[word - start]) for word in words]
    cut = sum(max(0, length - room) for length in owned)
    return Features(joined.ids, joined.token_type_ids, targets, 0, sum(owned), cut, words, positions)


def tune(
    examples: Sequence[TokenExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
) -> dict[str, Any]:
    """{"temperature"}: the one that makes the log loss over the words of dev least; {} if none does. What is predicted
    stays the same."""
    if not features or any(feature.labels is None for feature in features):
        return {}
    values = np.concatenate([row[feature.positions] for feature, row in zip(features, logits, strict=True)])
    gold = np.concatenate([np.array(feature.labels)[feature.positions] for feature in features])
    found = fit_temperature(values, gold) if len(gold) else None
    return {} if found is None else {TEMPERATURE: found}


def predictions(
    examples: Sequence[TokenExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """{"tokens", "tags", "probabilities"} with one entry a word, and "entities" if the labels mark any. Probabilities
    are of logits over the `temperature`.

    Shapes: logits [T, C], T positions of the feature. Entities are read by the rules of conlleval; `stop` is the word
    after the last.
    """
    rows: list[Prediction] = [
        {"tokens": list(e.words), "tags": [""] * len(e.words), "probabilities": [0.0] * len(e.words)} for e in examples
    ]
    for feature, values in zip(features, logits, strict=True):
        shares = softmax(values[feature.positions] / settings.get(TEMPERATURE, 1.0))
        for word, best, share in zip(feature.words, shares.argmax(axis=-1), shares.max(axis=-1), strict=True):
            rows[feature.example]["tags"][word] = label_names[best]
            rows[feature.example]["probabilities"][word] = float(share)
    scheme = schemes.scheme_of_labels(label_names)
    if scheme != "none":
        for row in rows:
            row["entities"] = _entities(row, scheme)
    return rows


def _entities(row: Prediction, scheme: str) -> list[dict[str, Any]]:
    found = entities(row["tags"], scheme=scheme, mode="conlleval")
    return [
        {"type": kind, "start": start, "stop": stop, "text": " ".join(row["tokens"][start:stop])}
        for kind, start, stop in found
    ]


def majority(
    train: Sequence[TokenExample], examples: Sequence[TokenExample], label_names: Sequence[str]
) -> tuple[str, list[Prediction]]:
    """The most frequent tag of train for every word."""
    tag = most_frequent(tag for example in train for tag in example.tags or ())
    return tag, [{"tags": [tag] * len(example.words)} for example in examples]


def said(prediction: Prediction) -> list[str]:
    """The tag of every word."""
    return list(prediction["tags"])


def score_entities(
    examples: Sequence[TokenExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """f1, precision, recall (strict), the same by conlleval, and token_accuracy."""
    return tagging_metrics(*_tag_lists(examples, predicted), scheme=_scheme(examples))


def score_tags(
    examples: Sequence[TokenExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """token_accuracy."""
    return token_metrics(*_tag_lists(examples, predicted))


def entity_details(
    examples: Sequence[TokenExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """The scheme of the gold tags, and a row an entity type in both modes."""
    scheme = _scheme(examples)
    gold_tags, tags = _tag_lists(examples, predicted)
    tables = {mode: per_type(gold_tags, tags, scheme=scheme, mode=mode) for mode in ("strict", "conlleval")}
    return {"scheme": scheme, "per_type": tables}


def tag_details(
    examples: Sequence[TokenExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """A row a tag, over words."""
    number = {name: place for place, name in enumerate(label_names)}
    truth, guess = (
        np.array([number[tag] for tags in lists for tag in tags]) for lists in _tag_lists(examples, predicted)
    )
    return {"per_class": per_class(truth, guess, label_names)}


def _scheme(examples: Sequence[TokenExample]) -> str:
    return examples[0].scheme if examples else "none"


def _tag_lists(
    examples: Sequence[TokenExample], predicted: Sequence[Prediction]
) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    missing = next((example for example in examples if example.tags is None), None)
    if missing is not None:
        raise BertctlError(f"{missing.place()}: got no tags, expected gold tags to score against")
    return [example.tags or () for example in examples], [row["tags"] for row in predicted]
