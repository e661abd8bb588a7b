"""Entities in tag sequences, and their F1: strict, or by the rules of the CoNLL script.

Schemes: BIO (IOB2: every entity starts with B-), IOB1 (B- only between two entities of one type that touch), BIOES
(also written BILOU), IO, and none (tags without prefix: each token with a tag other than O counts by itself).
Modes: `conlleval` starts an entity wherever the tags allow one (an I- after O does); `strict` drops entities that the
scheme does not allow.
Source: Tjong Kim Sang and Buchholz, CoNLL-2000 shared task, and its script conlleval.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bertctl.metrics.classification import class_table
from bertctl.metrics.rows import Metric

SCHEMES = ("BIO", "IOB1", "BIOES", "IO", "none")
MODES = ("strict", "conlleval")
PREFIXED = re.compile(r"([BIESLUM])-(.+)", re.DOTALL)
ONE_SPELLING = {"L": "E", "U": "S", "M": "I"}  # BILOU and BMES, said as BIOES

Entity = tuple[str, int, int]
"""Type, first token, token after the last."""
Tags = Sequence[Sequence[str]]
"""The tags of each sentence."""


def split_tag(tag: str, scheme: str) -> tuple[str, str]:
    """`B-creative-work` -> (B, creative-work); O -> (O, ""). Types keep their hyphens; a bare tag counts as I-."""
    if tag == "O":
        return "O", ""
    match = PREFIXED.fullmatch(tag) if scheme != "none" else None
    if match is None:
        return "S" if scheme == "none" else "I", tag
    return ONE_SPELLING.get(match[1], match[1]), match[2]


def entities(tags: Sequence[str], *, scheme: str, mode: str) -> list[Entity]:
    """The entities of one sentence, in order. Errors: ValueError on an unknown scheme or mode."""
    if scheme not in SCHEMES or mode not in MODES:
        raise ValueError(f"got scheme {scheme} and mode {mode}, expected one of {SCHEMES} and one of {MODES}")
    parts = [split_tag(tag, scheme) for tag in tags]
    chunks = _chunks(parts)
    if mode == "strict":
        chunks = [(start, stop) for start, stop in chunks if _well_formed(parts, start, stop, scheme)]
    return [(parts[start][1], start, stop) for start, stop in chunks]


def _chunks(parts: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """(start, stop) of every chunk by the rules of conlleval."""
    found: list[tuple[int, int]] = []
    start, before = None, ("O", "")
    for place, part in enumerate([*parts, ("O", "")]):
        (prefix, kind), goes_on = part, before[0] in ("B", "I") and part[0] in ("I", "E") and part[1] == before[1]
        if start is not None and not goes_on:
            found.append((start, place))
            start = None
        if prefix != "O" and start is None:
            start = place
        before = (prefix, kind)
    return found


def _well_formed(parts: Sequence[tuple[str, str]], start: int, stop: int, scheme: str) -> bool:
    """Whether the scheme writes a chunk this way; _chunks has already made its inside I or E of one type."""
    first, last = parts[start][0], parts[stop - 1][0]
    if scheme == "BIOES":
        return first == "S" if stop - start == 1 else first == "B" and last == "E"
    if scheme == "BIO":
        return first == "B"
    if scheme == "IOB1" and first == "B":  # only to part two entities of one type that touch
        return start > 0 and parts[start - 1][1] == parts[start][1]
    return True


def ill_formed(tags: Sequence[str], scheme: str) -> list[int]:
    """The first tokens of the entities that the scheme would not write this way."""
    parts = [split_tag(tag, scheme) for tag in tags]
    return [start for start, stop in _chunks(parts) if not _well_formed(parts, start, stop, scheme)]


def entity_rows(
    gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]], types: Sequence[str]
) -> np.ndarray:
    """Rows [N, 3 C], one a sentence: entities right, predicted and gold of each type."""
    number = {name: place for place, name in enumerate(types)}
    rows = np.zeros((len(gold), 3, len(types)), dtype=np.int32)
    for row, truth, guess in zip(rows, gold, predicted, strict=True):
        for part, found in enumerate([set(truth) & set(guess), guess, truth]):
            for kind, _, _ in found:
                row[part, number[kind]] += 1
    return rows.reshape(len(gold), 3 * len(types))


def tagging_metrics(gold: Tags, predicted: Tags, *, scheme: str) -> dict[str, Metric]:
    """f1, precision and recall of entities (strict), the same by conlleval, and token accuracy.

    `gold` and `predicted` hold the tags of each sentence, equally many. Errors: ValueError if they do not.
    """
    found: dict[str, Metric] = {}
    for mode, suffix in (("strict", ""), ("conlleval", "_conlleval")):
        types, typed = _typed_rows(gold, predicted, scheme, mode)
        rows = typed.reshape(len(typed), 3, len(types)).sum(axis=2)  # types pooled: any two systems have these columns
        for name, value, reason in ENTITY_VALUES:
            found[name + suffix] = Metric(name + suffix, rows, value, reason, f"entities, {scheme} tags, {mode}")
    return found | token_metrics(gold, predicted)


def token_metrics(gold: Tags, predicted: Tags) -> dict[str, Metric]:
    """token_accuracy, over all tokens; rows are sentences, since tokens of one sentence are not independent."""
    counts = [(_hits(g, p), len(g)) for g, p in zip(gold, predicted, strict=True)]
    rows = np.array(counts, dtype=np.int64).reshape(-1, 2)
    return {"token_accuracy": Metric("token_accuracy", rows, _token_accuracy, "there are no tokens")}


def per_type(gold: Tags, predicted: Tags, *, scheme: str, mode: str) -> list[dict[str, Any]]:
    """A row an entity type for the report, sorted by name: precision, recall, f1, support, predicted."""
    types, rows = _typed_rows(gold, predicted, scheme, mode)
    return class_table(types, *np.split(rows.sum(axis=0), 3))


def _typed_rows(gold: Tags, predicted: Tags, scheme: str, mode: str) -> tuple[list[str], np.ndarray]:
    truth = [entities(tags, scheme=scheme, mode=mode) for tags in gold]
    guess = [entities(tags, scheme=scheme, mode=mode) for tags in predicted]
    types = sorted({kind for sentence in [*truth, *guess] for kind, _, _ in sentence})
    return types, entity_rows(truth, guess, types)


def _hits(gold: Sequence[str], predicted: Sequence[str]) -> int:
    return sum(g == p for g, p in zip(gold, predicted, strict=True))


def _token_accuracy(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def _f1(sums: np.ndarray) -> np.ndarray:
    return 2 * sums[..., 0] / (sums[..., 1] + sums[..., 2])


def _precision(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def _recall(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 2]


ENTITY_VALUES = (
    ("f1", _f1, "there are no entities, neither gold nor predicted"),
    ("precision", _precision, "no entity is predicted"),
    ("recall", _recall, "there are no gold entities"),
)
