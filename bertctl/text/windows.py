"""Cuts a sequence that is longer than the model into windows that share an overlap, so that no word is left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bertctl.errors import BertctlError


@dataclass(frozen=True, slots=True)
class Window:
    """Words `start` to `stop` (exclusive) of a sequence; this window answers for words `own_start` to `own_stop`.

    Every word is owned by exactly one window: the one that shows it with more context on its poorer side.
    """

    start: int
    stop: int
    own_start: int
    own_stop: int


def word_windows(lengths: Sequence[int], *, room: int, overlap: int) -> list[Window]:
    """Windows over words of `lengths` pieces each, as many words as fit into `room` pieces, never splitting a word.

    A window begins with the words that fill the last `overlap` pieces of the one before, and ends with a new one.
    A word longer than `room` stands alone in its window; cut it there (`fit_word`). No words give no windows.
    Errors: BertctlError if `room` is below 1 or `overlap` not in 0 to room - 1, checked before anything is cut.
    """
    check_overlap(room=room, overlap=overlap)
    spans: list[tuple[int, int]] = []
    start = 0
    while start < len(lengths):
        stop = _last_that_fits(lengths, start, room)
        spans.append((start, stop))
        if stop == len(lengths):
            break
        start = max(start + 1, _back(lengths, stop, min(overlap, room - lengths[stop])))
    return _with_owners(spans)


def check_overlap(*, room: int, overlap: int) -> None:
    """Refuse an overlap that would leave a window nothing new. Errors: BertctlError."""
    if room < 1:
        raise BertctlError(f"windows: got room for {room} pieces, expected at least 1; use a longer sequence length")
    if not 0 <= overlap < room:
        raise BertctlError(f"overlap: got {overlap}, but it must be < {room}, the room of a window, and not negative")


def fit_word(pieces: Sequence[int], room: int) -> list[int]:
    """A word's pieces, cut to `room`; the first piece, which carries the label, always stays."""
    return list(pieces[:room])


def _last_that_fits(lengths: Sequence[int], start: int, room: int) -> int:
    stop, used = start + 1, lengths[start]
    while stop < len(lengths) and used + lengths[stop] <= room:
        used += lengths[stop]
        stop += 1
    return stop


def _back(lengths: Sequence[int], stop: int, overlap: int) -> int:
    start, shared = stop, 0
    while start > 0 and shared + lengths[start - 1] <= overlap:
        start -= 1
        shared += lengths[start]
    return start


def _with_owners(spans: list[tuple[int, int]]) -> list[Window]:
    borders = [(left[1] + right[0]) // 2 for left, right in pairwise(spans)]
    starts = [0, *borders]
    stops = [*borders, spans[-1][1] if spans else 0]
    return [Window(*span, own, until) for span, own, until in zip(spans, starts, stops, strict=False)]
