"""Whole texts as model inputs with their labels: cut to the model's length, or read in windows that overlap.

A text in windows is several inputs, each trained with the label of the text; at prediction their logits are averaged,
so that a text has one answer. Shapes: N examples, C outputs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertctl.tasks.task import Features, Limits, TextExample
from bertctl.tasks.texts import encode_texts, fit, framed, segments
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.windows import word_windows

DEFAULT_OVERLAP = 32  # word pieces


def encode_labelled(
    examples: Sequence[TextExample], tokenizer: Tokenizer, limits: Limits, number: Callable[[Any], Any]
) -> list[Features]:
    """One feature an example, or with `limits.windows` one a window, labelled with `number(label)`."""
    if limits.windows:
        features = encode_windows(examples, tokenizer, limits)
    else:
        features = encode_texts(examples, tokenizer, limits.max_length)
    for feature in features:
        label = examples[feature.example].label
        feature.labels = None if label is None else number(label)
    return features


def encode_windows(examples: Sequence[TextExample], tokenizer: Tokenizer, limits: Limits) -> list[Features]:
    """[CLS] window [SEP], those of one example next to each other, together showing every word piece.

    Of a pair the longer text is read in windows and the other one stands in each of them whole; if that would take
    more than half of the room, it is cut to it, and counted. Errors: BertctlError if nothing new fits a window.
    """
    ids = iter(tokenizer.encode_ids([text for example in examples for text in segments(example)]))
    features = []
    for place, example in enumerate(examples):
        parts = [next(ids).tolist() for _ in segments(example)]
        room = limits.max_length - tokenizer.special_count(len(parts))
        if sum(map(len, parts)) <= room or room < len(parts):
            features.append(Features(*framed(fit(parts, room), tokenizer), None, place, sum(map(len, parts))))
        else:
            features += _windows(parts, room, limits.overlap, place, tokenizer)
    return features


def _windows(
    parts: list[list[int]], room: int, overlap: int | None, place: int, tokenizer: Tokenizer
) -> list[Features]:
    """The features of one example that is longer than `room`; its pieces are counted once, with the first of them."""
    longer = max(range(len(parts)), key=lambda part: len(parts[part]))
    others = [part[: room // 2] if number != longer else [] for number, part in enumerate(parts)]
    room -= sum(map(len, others))
    shared = min(DEFAULT_OVERLAP, room // 2) if overlap is None else overlap
    features = []
    for window in word_windows([1] * len(parts[longer]), room=room, overlap=shared):
        shown = [parts[longer][window.start : window.stop] if n == longer else part for n, part in enumerate(others)]
        features.append(Features(*framed(shown, tokenizer), None, place, 0))
    features[0].pieces = sum(map(len, parts))
    features[0].cut = features[0].pieces - len(parts[longer]) - sum(map(len, others))
    return features


def mean_over_windows(count: int, features: Sequence[Features], logits: Sequence[np.ndarray]) -> np.ndarray:
    """The mean logits of each of `count` examples. Shapes: logits [C] each; returns [N, C] float64."""
    if not count:
        return np.zeros((0, 0))
    values = np.stack(logits).astype(np.float64)
    example = np.array([feature.example for feature in features])
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, example, values)
    return sums / np.bincount(example, minlength=count)[:, None]
