"""Answers as spans: contexts in overlapping windows, the span to learn in each, and the best spans over all of them.

[CLS] question [SEP] a window of the context [SEP], as BERT reads SQuAD (arXiv:1810.04805, section 4.2); [CLS] stands
for "no answer here" (section 4.3). Shapes: T positions of a feature, N pieces of the context, L pieces of an answer.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bertctl.errors import BertctlError
from bertctl.tasks.offsets import misfit
from bertctl.tasks.questions import QuestionExample
from bertctl.tasks.task import IGNORED, Features, Limits
from bertctl.text.tokenizer import Pieces, Tokenizer
from bertctl.text.windows import Window, word_windows

DEFAULT_OVERLAP = 128  # word pieces: the overlap that the question answering script of transformers calls a stride
MOST_ANSWER_PIECES = 30  # max_answer_length of BERT's own script
JOINERS = "\u200c\u200d"
CLS = 0  # the position of [CLS]


@dataclass(frozen=True)
class Context:
    """The pieces of a context, which all its questions share: ids, code points of each, and these as arrays [N]."""

    ids: list[int]
    spans: list[tuple[int, int]]
    starts: np.ndarray
    ends: np.ndarray

    def pieces_of(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last piece that stand for some of the code points `start` to `end`; None if there are none."""
        touched = np.flatnonzero((self.ends > start) & (self.starts < end))
        return (int(touched[0]), int(touched[-1])) if len(touched) else None


def context_of(text: str, pieces: Pieces) -> Context:
    """The pieces of a text. The marks that follow a letter belong to its piece, also those that the normalisation of an
    uncased vocabulary takes away: an answer ends with its last accent or vowel sign."""
    starts, ends = pieces.starts.tolist(), pieces.ends.tolist()
    for place, limit in enumerate([*starts[1:], len(text)][: len(starts)]):
        while ends[place] < limit and is_mark(text[ends[place]]):
            ends[place] += 1
    spans = list(zip(starts, ends, strict=True))
    return Context(pieces.ids.tolist(), spans, np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64))


def is_mark(character: str) -> bool:
    """Whether a character only changes the one before it: a combining mark, or a joiner."""
    return not character.isascii() and (unicodedata.category(character)[0] == "M" or character in JOINERS)


def encode(
    examples: Sequence[QuestionExample], tokenizer: Tokenizer, labels: Sequence[str], limits: Limits
) -> list[Features]:
    """The windows of every example, next to each other, at least one. `labels` of a window: [start, end] positions of
    the first gold answer if it lies wholly within, else those of [CLS]; both -100 if a gold answer does not fit.

    A question may take half of the room; what is longer is cut at its end, and counted. Errors: BertctlError for an
    overlap that is not smaller than the window that a question leaves, or a length that has no room for both.
    """
    texts = list(dict.fromkeys(example.context for example in examples))
    contexts = dict(zip(texts, map(context_of, texts, tokenizer.encode(texts)), strict=True))
    questions = [ids.tolist() for ids in tokenizer.encode_ids([example.question for example in examples])]
    room = limits.max_length - tokenizer.special_count(2)
    most = most_of_question(room, limits)
    rooms = [room - min(len(ids), most) for ids in questions]
    check_overlaps(examples, rooms, limits)
    features = []
    for place, (example, ids, room) in enumerate(zip(examples, questions, rooms, strict=True)):
        context = contexts[example.context]
        overlap = min(DEFAULT_OVERLAP, room // 2) if limits.overlap is None else limits.overlap
        windows = word_windows([1] * len(context.ids), room=room, overlap=overlap) or [Window(0, 0, 0, 0)]
        target = target_of(example, context)
        made = [_window(ids[:most], context, window, target, tokenizer) for window in windows]
        made[0].pieces, made[0].cut = len(ids) + len(context.ids), max(0, len(ids) - most)
        for feature in made:
            feature.example = place
            feature.labels = None if example.answers is None else feature.labels
        features += made
    return features


def most_of_question(room: int, limits: Limits) -> int:
    """Pieces that a question may take of `room`, which is what the special tokens leave: half of it. Errors:
    BertctlError if that is none."""
    if room < 2:
        least = limits.max_length - room + 2
        raise BertctlError(
            f"max_length: got {limits.max_length}, expected at least {least}, to hold a question and its context"
        )
    return room // 2


def check_overlaps(examples: Sequence[QuestionExample], rooms: Sequence[int], limits: Limits) -> None:
    """Refuse an overlap that would leave a window nothing new, before anything is cut. Errors: BertctlError that names
    the question which leaves least, and how many leave too little."""
    overlap, least = limits.overlap, min(rooms, default=0)
    if overlap is not None and rooms and overlap >= least:
        too_long = sum(overlap >= room for room in rooms)
        others = f" ({too_long:,} questions leave too little, this one least)" if too_long > 1 else ""
        raise BertctlError(
            f"{examples[list(rooms).index(least)].place()}: got an overlap of {overlap}, but it must be < {least}, the "
            f"word pieces that the question leaves of max_length {limits.max_length}{others}",
            hint="lower `data.overlap_tokens`, or raise `max_length`",
        )


def target_of(example: QuestionExample, context: Context) -> tuple[int, int] | None:
    """First and last piece of the first gold answer; (-1, -1) if there is none, or none that has a piece; None if an
    answer is not where the data say."""
    if misfit(example) is not None:
        return None
    first = next(iter(example.answers or ()), None)
    found = None if first is None else context.pieces_of(first.start, first.start + len(first.text))
    return found or (-1, -1)


def _window(
    question: list[int], context: Context, window: Window, target: tuple[int, int] | None, tokenizer: Tokenizer
) -> Features:
    """The feature that shows the pieces of a window."""
    shown = context.ids[window.start : window.stop]
    joined = tokenizer.join(question, shown)
    first = joined.starts[1]
    labels = [IGNORED, IGNORED]
    if target is not None:
        inside = window.start <= target[0] and target[1] < window.stop
        labels = [piece - window.start + first for piece in target] if inside else [CLS, CLS]
    positions, spans = list(range(first, first + len(shown))), context.spans[window.start : window.stop]
    return Features(joined.ids, joined.token_type_ids, labels, 0, 0, positions=positions, spans=spans)


class Span(NamedTuple):
    """Code points `start` to `end` of the context, and the sum of the logits of its first and last piece."""

    score: float
    start: int
    end: int


def best_spans(features: Sequence[Features], logits: Sequence[np.ndarray], count: int) -> list[Span]:
    """The `count` best spans over all windows of an example, best first, each once. Shapes: logits [T, 2] each.

    A span begins and ends with a piece of the context, not before it begins, and has at most 30 pieces.
    """
    found: dict[tuple[int, int], float] = {}
    for feature, values in zip(features, logits, strict=True):
        for span in _of_window(feature, np.asarray(values, dtype=np.float64), count):
            place = (span.start, span.end)
            found[place] = max(span.score, found.get(place, span.score))
    spans = [Span(score, *place) for place, score in found.items()]
    return sorted(spans, key=lambda span: (-span.score, span.start, span.end))[:count]


def _of_window(feature: Features, logits: np.ndarray, count: int) -> list[Span]:
    """The best spans of one window: every one of N x L is scored, none is missed."""
    pieces = len(feature.positions)
    if not pieces:
        return []
    starts, ends = logits[feature.positions].T
    longest = min(MOST_ANSWER_PIECES, pieces)
    padded = np.concatenate([ends, np.full(longest - 1, -np.inf)])
    sums = starts[:, None] + np.lib.stride_tricks.sliding_window_view(padded, longest)
    wanted = min(4 * count, sums.size)  # several pieces may stand for one character, so spans come more than once
    chosen = np.argpartition(-sums, wanted - 1, axis=None)[:wanted]
    spans = []
    for first, length in zip(*np.unravel_index(chosen, sums.shape), strict=True):
        if np.isfinite(sums[first, length]):
            start, end = feature.spans[first][0], feature.spans[first + length][1]
            spans.append(Span(float(sums[first, length]), start, end))
    return [span for span in spans if span.start < span.end]


def null_score(logits: Sequence[np.ndarray]) -> float:
    """How much speaks for no answer: the least over all windows, since one that has the answer knows it best."""
    return min(float(values[CLS, 0]) + float(values[CLS, 1]) for values in logits)
