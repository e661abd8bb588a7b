"""Words of docstrings tagged by what they name: parameter, class, exception, function or module (BIO).

The truth comes from the signature and from the names that the module defines, so only words that are surely names, or
surely not, may occur: a sentence with a word that could be either (a parameter called `name` in running text) is left
out. Marks around names (backticks, stars) are taken away; the words have to speak for themselves.
"""

import builtins
import re
import sys
from collections.abc import Iterator
from functools import cache

from bertctl.demo.labels import Sizes, draw
from bertctl.demo.python_docs import reflow
from bertctl.demo.sources import PACKAGES, Definition, Module, module_files

FEWEST_WORDS, MOST_WORDS = 5, 40
PLAIN_SHARE = 4  # one sentence in so many may be without any name
MOST_A_MODULE = 16
WORD = re.compile(
    r"""(?P<mark>(?<!\w)[`'"]|\*{1,2}(?=\w))?(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?P<call>\(\))?(?P<end>(?(mark)[`'"*]?))
    | \d+(?:\.\d+)? | [^\w\s]""",
    re.VERBOSE,
)
FIELD = re.compile(r"\s*(?:\([^)]*\)\s*)?:\s")  # what follows a parameter at the start of a line: `: ` or ` (type): `
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
CAMEL = re.compile(r"[A-Z][a-z0-9]+[A-Z]|[A-Z]{2,}[a-z]")
CONSTANTS = frozenset({"True", "False", "None"})
BUILTIN_CLASSES = frozenset({"bool", "bytearray", "dict", "float", "frozenset", "int", "str", "tuple"})
EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)

Tagged = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Where, words, tags."""


@cache
def tagged_sentences(sizes: Sizes, seed: int) -> dict[str, list[Tagged]]:
    """Sentences of docstrings with the tags of their words, by split; see `labels.draw`."""
    drawn = draw(sizes, seed, _sentences, most_a_module=MOST_A_MODULE)
    return {split: [found.item for found in items] for split, items in drawn.items()}


def _sentences(module: Module) -> Iterator[Tagged]:
    plain = 0
    for definition in module.definitions:
        for words, tags in _tagged(module, definition):
            named = any(tag != "O" for tag in tags)
            plain += not named
            if named or plain % PLAIN_SHARE == 1:
                yield f"{module.name}.{definition.name}".rstrip("."), words, tags


def _tagged(module: Module, definition: Definition) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(words, tags) of the sentences of a docstring that can be tagged."""
    for line in reflow(definition.docstring).split("\n"):
        for number, sentence in enumerate(SENTENCE_END.split(line)):
            found = tag_words(sentence, module, definition, starts_line=number == 0)
            if found is not None and FEWEST_WORDS <= len(found[0]) <= MOST_WORDS:
                yield found


def tag_words(
    sentence: str, module: Module, definition: Definition, *, starts_line: bool
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """(words, tags) of a sentence; None if a word of it may or may not be a name.

    A dotted name is several words, with the dots as words of their own, and one entity.
    """
    words: list[str] = []
    tags: list[str] = []
    for match in WORD.finditer(sentence):
        name = match["name"]
        if name is None:
            if match[0] != "`":
                words.append(match[0])
                tags.append("O")
            continue
        field = starts_line and not words and FIELD.match(sentence, match.end()) is not None
        kind = _kind(name, bool(match["mark"] and match["end"]) or bool(match["call"]) or field, module, definition)
        if kind is None:
            return None
        parts = re.findall(r"\w+|\.", name)
        words += parts
        tags += ["O"] * len(parts) if kind == "O" else [f"B-{kind}", *[f"I-{kind}"] * (len(parts) - 1)]
    return tuple(words), tuple(tags)


def _kind(name: str, marked: bool, module: Module, definition: Definition) -> str | None:
    """What a word names, O if nothing, None if that cannot be said for sure."""
    if name in CONSTANTS:
        return "O"
    last = name.rpartition(".")[2]
    technical = marked or "_" in name or "." in name or name in BUILTIN_CLASSES or CAMEL.search(last) is not None
    meaning = _meaning(name, last, module, definition)
    if meaning is None:
        return None if technical else "O"  # a name that we know nothing of, or a plain word
    return meaning if technical else None  # a plain word that is also a name here


def _meaning(name: str, last: str, module: Module, definition: Definition) -> str | None:
    """What a name stands for, the nearest meaning first: a parameter hides a function of the same name."""
    if name in definition.parameters:
        return "PARAMETER"
    if name in module_names(module.package):
        return "MODULE"
    if last in EXCEPTIONS or (last in module.classes and last.endswith(("Error", "Exception", "Warning"))):
        return "EXCEPTION"
    if last in module.classes or name in BUILTIN_CLASSES:
        return "CLASS"
    return "FUNCTION" if last in module.functions else None


@cache
def module_names(package: str) -> frozenset[str]:
    """The modules of a package, the standard library and the other packages."""
    return frozenset(name for name, _ in module_files(package)) | sys.stdlib_module_names | set(PACKAGES)
