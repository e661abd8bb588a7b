"""Lines for `predict`: plain text, or JSON objects, one a line, in any mixture of lengths, as a stream."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from bertctl.errors import BertctlError, json_fault
from bertctl.tasks.tables import json_kind
from bertctl.tasks.values import clean_text

InputFormat = Literal["auto", "text", "jsonl"]


@dataclass(frozen=True, slots=True)
class Record:
    """One input: a line of text, or the object on it."""

    value: str | dict[str, Any]
    where: str

    def texts(self) -> tuple[str, ...]:
        """The text, or both texts of a pair. Errors: BertctlError if an object has none."""
        if isinstance(self.value, str):
            return (self.value,)
        if "text" not in self.value and isinstance(self.value.get("tokens"), list):
            return (clean_text(" ".join(map(str, self.value["tokens"]))),)
        if "text" not in self.value:
            have = ", ".join(map(repr, self.value)) or "nothing"
            raise BertctlError(f"{self.where}: got an object with {have}, expected text, and maybe text_pair")
        pair = self.value.get("text_pair")
        found = [self.value["text"], *([] if pair is None else [pair])]
        wrong = [json_kind(text) for text in found if not isinstance(text, str)]
        if wrong:
            raise BertctlError(
                f"{self.where}: got {wrong[0]}, expected text in `text` and, if there is one, `text_pair`"
            )
        return tuple(map(clean_text, found))


def read_records(lines: Iterable[str], *, where: str, format: InputFormat = "auto") -> Iterator[Record]:  # noqa: A002
    """A record a line; a line ends at LF, and a CR before it is dropped. With `auto` the first line that is not blank
    decides: if it is a JSON object, all are. Blank lines are texts in plain text, and nothing among JSON objects.

    Errors: BertctlError naming the line that is no JSON object.
    """
    for number, line in enumerate(lines, 1):
        text = line.removesuffix("\n").removesuffix("\r")
        text = text.removeprefix("\ufeff") if number == 1 else text
        if format == "auto" and text.strip():
            format = "jsonl" if is_object(text) else "text"  # noqa: A001
        if format == "jsonl":
            if text.strip():
                yield Record(parse(text, f"{where}:{number}"), f"{where}:{number}")
        else:
            yield Record(clean_text(text), f"{where}:{number}")


def is_object(text: str) -> bool:
    """Whether a line looks like a JSON object: it is one, or it begins like one with a key."""
    return text.lstrip().startswith(('{"', "{ ", "{}"))


def parse(text: str, where: str) -> dict[str, Any]:
    """The object on a line. Errors: BertctlError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BertctlError(
            f"{where}: got bad JSON ({json_fault(error)}), expected one object a line",
            hint="`--format text` takes such lines as plain text",
        ) from None
    if not isinstance(value, dict):
        raise BertctlError(f"{where}: got a JSON {type(value).__name__}, expected an object")
    return value
