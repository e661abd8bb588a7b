"""Questions that docstrings answer: what does this function return?

Many docstrings begin with "Return ..."; the rest of that sentence is the answer. The context holds two or three such
functions of one module, each behind its name, so that the right one has to be found before the answer can be.
"""

import re
import zlib
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from bertctl.demo.labels import Sizes, draw, shortened
from bertctl.demo.python_docs import reflow
from bertctl.demo.sources import Module

RETURNS = re.compile(r"(?<!\w)Returns? (?P<what>[^.;:]+)(?=[.;:](?:\s|$)|$)")
FEWEST_WORDS, MOST_WORDS = 2, 20  # of an answer
TOGETHER = 3  # functions in a context
SIZES = Sizes(train=320, dev=120, test=320)  # of which two thirds are found: few docstrings begin so


class Asked(NamedTuple):
    """A question, its context, and the answer with the place (code points) where it begins."""

    where: str
    question: str
    context: str
    answer: tuple[str, int, str]
    """(where, start, text): with the place of its function, since an answer may occur more than once."""


@cache
def asked_questions(sizes: Sizes, seed: int) -> dict[str, list[Asked]]:
    """What does this function return? By split; see `labels.draw`."""
    drawn = draw(sizes, seed, _questions)
    return {split: [found.item for found in items] for split, items in drawn.items()}


def _questions(module: Module) -> Iterator[Asked]:
    """One question for every two or three functions of a module that say what they return, in file order."""
    found = [entry for entry in map(entry_of, _functions(module)) if entry is not None]
    first = zlib.crc32(module.name.encode())  # looks random, and is the same on every machine
    for number, begin in enumerate(range(0, len(found), TOGETHER)):
        group = list({entry[0]: entry for entry in found[begin : begin + TOGETHER]}.values())
        if len(group) > 1:
            yield question_about(group, (first + number) % len(group), module.name)


def _functions(module: Module) -> list[tuple[str, str]]:
    """(name, docstring) of functions and methods."""
    return [(d.name, d.docstring) for d in module.definitions if d.kind == "function"]


def entry_of(function: tuple[str, str]) -> tuple[str, str, str] | None:
    """(name, text, answer) of a (name, docstring); None if its first paragraph does not begin with what is returned."""
    name, docstring = function
    text = shortened(reflow(docstring).replace("\n", " "))
    match = RETURNS.match(text)
    if match is None or not FEWEST_WORDS <= len(match["what"].split()) <= MOST_WORDS:
        return None
    return name.rpartition(".")[2], text, match["what"]


def question_about(group: list[tuple[str, str, str]], chosen: int, module: str) -> Asked:
    """The question about one of some (name, text, answer), which are its context."""
    context = "\n".join(f"{name}: {text}" for name, text, _ in group)
    name, text, answer = group[chosen]
    before = "\n".join(f"{name}: {text}" for name, text, _ in group[:chosen]) + "\n" * (chosen > 0)
    start = len(before) + len(f"{name}: ") + text.index(answer)
    where = f"{module}.{name}"
    return Asked(where, f"What does {name} return?", context, (where, start, answer))
