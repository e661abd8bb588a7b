"""Gold answers against their offsets: does the answer stand where the data say, and if not, what went wrong?

Offsets count code points. Those of other programs may count UTF-16 units or bytes, or were made before blanks were
stripped from the context or a carriage return from its lines; every such answer is off by some places.
"""

from collections.abc import Callable

from bertctl.tasks.questions import Answer, QuestionExample

LONGEST_SHOWN = 40  # characters of an answer in a message


def fits(answer: Answer, context: str) -> bool:
    """Whether the answer stands in the context exactly where it is said to."""
    return answer.start >= 0 and context.startswith(answer.text, answer.start)


def misfit(example: QuestionExample) -> str | None:
    """What is wrong with the first gold answer that does not stand at its offset; None if all do."""
    for answer in example.answers or ():
        if not fits(answer, example.context):
            shown = answer.text if len(answer.text) <= LONGEST_SHOWN else answer.text[:LONGEST_SHOWN] + "..."
            return f"got the answer {shown!r} at {answer.start}, but {cause(answer, example.context)}"
    return None


def cause(answer: Answer, context: str) -> str:
    """Where the answer stands instead, and why its offset is likely to be what it is."""
    for count, why in COUNTED_OTHERWISE:
        place = count(context, answer.start)
        if place is not None and context.startswith(answer.text, place):
            return f"it stands at {place}: {why}"
    if answer.text in context:
        place = nearest(answer, context)
        early = "; were blanks before it stripped?" if place < answer.start else ""
        return f"it stands at {place}, off by {abs(place - answer.start)}{early}"
    if " ".join(answer.text.split()).casefold() in " ".join(context.split()).casefold():
        return "it stands in the context with other blanks or capitals only"
    return "it does not stand in the context"


def nearest(answer: Answer, context: str) -> int:
    """The place of the answer that is nearest to its offset, the first of equal ones."""
    places = [place for place in range(len(context)) if context.startswith(answer.text, place)]
    return min(places, key=lambda place: abs(place - answer.start))


def _of_utf16(context: str, start: int) -> int | None:
    return _of_units(context, start, lambda text: text.encode("utf-16-le"), 2)


def _of_utf8(context: str, start: int) -> int | None:
    return _of_units(context, start, lambda text: text.encode(), 1)


def _of_units(context: str, start: int, encode: Callable[[str], bytes], size: int) -> int | None:
    """The code point at unit `start` of the encoded context; None if no code point begins there."""
    units = encode(context)[: max(start, 0) * size]
    place = len(units.decode("utf-16-le" if size == 2 else "utf-8", errors="ignore"))
    return place if start > 0 and encode(context[:place]) == units else None


def _of_stripped(context: str, start: int) -> int | None:
    return start + len(context) - len(context.lstrip())


def _of_two_line_ends(context: str, start: int) -> int | None:
    """CR LF counts two places: text whose lines ended so has moved by one place a line."""
    place, counted = 0, 0
    while counted < start and place < len(context):
        counted += 2 if context[place] == "\n" else 1
        place += 1
    return place if counted == start else None


COUNTED_OTHERWISE: tuple[tuple[Callable[[str, int], int | None], str], ...] = (
    (_of_stripped, "the offset counts from the first character that is no blank; was the context stripped?"),
    (_of_utf16, "the offset counts UTF-16 units, not code points"),
    (_of_utf8, "the offset counts UTF-8 bytes, not code points"),
    (_of_two_line_ends, "the offset counts two places for a line end"),
)
