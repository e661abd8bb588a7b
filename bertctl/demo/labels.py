"""Labels that docstrings carry with them: which package a text documents, whether a summary belongs to a body, and what
a name stands for.

All examples of a module go to one split, and no text (case and white space folded) occurs twice, so that nothing leaks.
Modules are taken in an order that only (seed, module name) decides, and only as many are read as are needed.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from bertctl import signals
from bertctl.demo.python_docs import reflow
from bertctl.demo.sources import PACKAGES, Module, module_files, read_module

SHARES = {"train": 0.4, "dev": 0.2, "test": 0.4}  # of the modules
MOST_A_MODULE = 8
LONGEST_TEXT = 400  # characters, cut at a word
# A text that names its package would make the task trivial.
NAMES = r"(?:py)?torch|numpy|np|sympy|networkx|nx|datasets?|hugging\s?face(?:_hub)?|hub|hf|rich|c?python"
PACKAGE_NAME = re.compile(rf"https?://\S+|(?<![\w.])(?:{NAMES})(?:\.\w+)*(?!\w)", re.IGNORECASE)
MASK = "PACKAGE"
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # of get_item, getItem and HTTPServer

T = TypeVar("T", bound=tuple[Any, ...])


class Sizes(NamedTuple):
    """Examples wanted a split: few to train on, so that what pretraining is worth can be seen."""

    train: int = 400
    dev: int = 200
    test: int = 800


class Labelled(NamedTuple):
    """A text, or a pair, with its true label and the place it comes from."""

    text: str
    pair: str | None
    label: str
    where: str


class Drawn(NamedTuple, Generic[T]):
    """Something found in a module of a package."""

    package: str
    module: str
    item: T


@cache
def package_examples(sizes: Sizes, seed: int) -> dict[str, list[Labelled]]:
    """Which of the packages does this text document? Its own name and its neighbours' are masked as PACKAGE."""
    drawn = draw(sizes, seed, _descriptions)
    return {split: [Labelled(d.item[1], None, d.package, d.item[0]) for d in found] for split, found in drawn.items()}


def _descriptions(module: Module) -> Iterator[tuple[str, str]]:
    """(where, text) of docstrings that say something, with package names masked."""
    for definition in module.definitions:
        text = shortened(reflow(definition.docstring).replace("\n", " "))
        masked = PACKAGE_NAME.sub(MASK, text)
        if len(masked.split()) >= 8:
            yield f"{module.name}.{definition.name}".rstrip("."), masked


@cache
def pair_examples(sizes: Sizes, seed: int) -> dict[str, list[Labelled]]:
    """Does this summary belong to this body? In every second example the body is that of another one.

    The other one is of the same package and split but of another module; bodies only change places, so that neither
    summaries nor bodies alone tell the label.
    """
    drawn = draw(sizes, seed, _summaries)
    return {
        split: [pair for group in by_package(found) for pair in _half_swapped(group)] for split, found in drawn.items()
    }


def _summaries(module: Module) -> Iterator[tuple[str, str, str]]:
    """(where, summary, body) of docstrings that have both."""
    for definition in module.definitions:
        summary, _, body = reflow(definition.docstring).partition("\n")
        body = shortened(body.replace("\n", " "))
        if len(summary.split()) >= 4 and len(body.split()) >= 8:
            yield f"{module.name}.{definition.name}".rstrip("."), shortened(summary), body


def _half_swapped(group: list[Drawn[tuple[str, str, str]]]) -> Iterator[Labelled]:
    """The examples of one package: those at odd places hand their bodies on, over the border of their module."""
    odd = sorted(group[1::2], key=lambda drawn: drawn.module)
    apart = max((sum(d.module == other.module for d in odd) for other in odd), default=0)
    partner = {d.item[0]: odd[(place + apart) % len(odd)] for place, d in enumerate(odd)}
    for drawn in group:
        where, summary, body = drawn.item
        other = partner.get(where)
        if other is None:
            yield Labelled(summary, body, "belongs", where)
        elif other.module != drawn.module:
            yield Labelled(summary, other.item[2], "other", where)


@cache
def name_examples(sizes: Sizes, seed: int) -> dict[str, list[tuple[str, str, str]]]:
    """(where, words of a name, what it documents): the name of a function or class as somebody would search for it."""
    drawn = draw(sizes, seed, _named)
    return {split: [d.item for d in found] for split, found in drawn.items()}


def _named(module: Module) -> Iterator[tuple[str, str, str]]:
    """(where, words, text) of names of several words that are not private."""
    for definition in module.definitions:
        name = definition.name.rpartition(".")[2]
        words = WORDS.findall(name)
        text = shortened(reflow(definition.docstring).replace("\n", " "))
        if not name.startswith("_") and len(words) >= 2 and len(text.split()) >= 8:
            yield f"{module.name}.{definition.name}", " ".join(words).lower(), text


def by_package(found: Iterable[Drawn[T]]) -> list[list[Drawn[T]]]:
    """Grouped by package, in the order of PACKAGES."""
    groups: dict[str, list[Drawn[T]]] = {package: [] for package in PACKAGES}
    for drawn in found:
        groups[drawn.package].append(drawn)
    return [group for group in groups.values() if group]


def draw(
    sizes: Sizes, seed: int, find: Callable[[Module], Iterable[T]], *, most_a_module: int = MOST_A_MODULE
) -> dict[str, list[Drawn[T]]]:
    """So many items a split, the packages in turn; fewer if the packages that are installed hold no more.

    `find` gives tuples that begin with the place; whatever else is in them may occur only once in all splits.
    """
    seen: set[str] = set()
    fresh = _fresh(find, seen)
    streams = [_items(package, sizes, seed, fresh, most_a_module) for package in PACKAGES]
    wanted = sizes._asdict()
    return {split: list(_in_turn([stream[split] for stream in streams]))[:size] for split, size in wanted.items()}


def _items(
    package: str, sizes: Sizes, seed: int, fresh: Callable[[Module, int], list[T]], most_a_module: int
) -> dict[str, list[Drawn[T]]]:
    """What one package gives: at most its equal part of every split, from at least four modules."""
    wanted = {split: -(-size // len(PACKAGES)) for split, size in sizes._asdict().items()}
    found: dict[str, list[Drawn[T]]] = {split: [] for split in wanted}
    for name, path in _shuffled(module_files(package), seed):
        signals.check("reading the labels of python_docs")
        split = split_of(name, seed)
        if len(found[split]) < wanted[split]:
            module = read_module(package, name, path)
            most = min(most_a_module, max(1, wanted[split] // 4), wanted[split] - len(found[split]))
            items = fresh(module, most) if module is not None else []
            found[split] += [Drawn(package, name, item) for item in items]
        elif all(len(found[split]) >= size for split, size in wanted.items()):
            break
    return found


def _fresh(find: Callable[[Module], Iterable[T]], seen: set[str]) -> Callable[[Module, int], list[T]]:
    """`find` as (module, most) -> at most so many items, none of which has a text that was seen before."""

    def fresh(module: Module, most: int) -> list[T]:
        items: list[T] = []
        for item in find(module):
            texts = {" ".join(str(part).casefold().split()) for part in item[1:]}
            if not texts & seen and len(items) < most:
                items.append(item)
                seen.update(texts)
        return items

    return fresh


def _in_turn(lists: list[list[Drawn[T]]]) -> Iterator[Drawn[T]]:
    return (drawn for row in zip_longest(*lists) for drawn in row if drawn is not None)


def _shuffled(files: list[tuple[str, Path]], seed: int) -> list[tuple[str, Path]]:
    return sorted(files, key=lambda file: _share("order", file[0], seed))


def split_of(module: str, seed: int) -> str:
    """The split that all examples of a module go to."""
    place, border = _share("split", module, seed), 0.0
    for split, share in SHARES.items():
        border += share
        if place < border:
            return split
    return "test"


def _share(purpose: str, name: str, seed: int) -> float:
    """A number in [0, 1) that looks random and is a function of its arguments, on every machine."""
    digest = hashlib.sha256(f"{purpose}\0{seed}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def shortened(text: str) -> str:
    """At most LONGEST_TEXT characters, cut at a blank."""
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT].rsplit(" ", 1)[0]
