"""The corpus `python_docs`: English prose that every Python installation carries.

The language reference of `pydoc_data` and the docstrings of the packages in `sources.PACKAGES`. A document is one topic
of the reference, the docstring of a module or of a function, or a class with its methods. Nothing is imported or run.
"""

import ast
import re
from collections.abc import Iterator
from itertools import chain, groupby, pairwise
from pathlib import Path

from bertctl.demo.sources import PACKAGES, STANDARD_LIBRARY, Module, package_folder, read_modules

SHORTEST_DOCUMENT = 20  # characters; below this it is a name or "See above."
ROLE = re.compile(r":(?:[a-z]+:)?[a-z]+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")  # Sphinx: :class:`~torch.Tensor`
DOUBLE_BACKTICKS = re.compile(r"``([^`]+)``")
LETTER = re.compile(r"[^\W\d_]")
OWN_LINE = re.compile(  # lines that begin something of their own
    r"""[-*+\u2022]\s            # a bullet
    | \(?\w{1,3}[.)]\s           # 1. or a)
    | >>>|\.\.\.|In\s\[|\$\s     # a session
    | [:@.]                      # a field, a directive
    | \*{0,2}\w+(,\s\*{0,2}\w+)*\s*(\([^)]*\))?\s*:(\s|$)  # name: or name (type):""",
    re.VERBOSE,
)
TYPED_NAME = re.compile(r"[\w*, ]+ : ")  # numpydoc: the description stands on the next line
RULE = re.compile(r"[-=~^*]{3,}")
SESSION = re.compile(r"(>>>|\.\.\.|In \[)")


def documents() -> Iterator[tuple[str, str]]:
    """(where, text) of every document, in a fixed order and without repeats; paragraphs are lines of the text."""
    texts: set[str] = set()
    for where, text in chain(topics(), _package_documents()):
        if len(text) >= SHORTEST_DOCUMENT and text not in texts:
            texts.add(text)
            yield where, text


def _package_documents() -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for package in PACKAGES:
        for module in read_modules(package):
            yield from module_documents(module, seen)


def topics() -> Iterator[tuple[str, str]]:
    """The topics of `help()`: the language reference, one document each."""
    folder = package_folder(STANDARD_LIBRARY)
    path = Path(folder or "", "pydoc_data", "topics.py")
    if not path.is_file():  # some distributions leave it out
        return
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for name, text in sorted(ast.literal_eval(node.value).items()):
                yield f"pydoc:{name}", reflow(text)


def module_documents(module: Module, seen: set[str]) -> Iterator[tuple[str, str]]:
    """(where, text) of the documents of one module; docstrings in `seen` are left out, new ones are added to it."""
    for top, definitions in groupby(module.definitions, key=lambda d: d.name.partition(".")[0]):
        fresh = []
        for definition in definitions:
            if definition.docstring not in seen:
                seen.add(definition.docstring)
                fresh.append(reflow(definition.docstring))
        text = "\n".join(part for part in fresh if part)
        if text:
            yield f"{module.name}.{top}" if top else module.name, text


def reflow(docstring: str) -> str:
    """Paragraphs as single lines, without underlines, interpreter sessions or Sphinx marks; words stay as written."""
    text = DOUBLE_BACKTICKS.sub(r"`\1`", ROLE.sub(r"`\1`", docstring.expandtabs()))
    paragraphs = (line for block in re.split(r"\n\s*\n", text) for line in _paragraphs(block))
    return "\n".join(line for line in paragraphs if LETTER.search(line))


def _paragraphs(block: str) -> Iterator[str]:
    """The paragraphs of a block of lines between blank lines."""
    open_lines: list[str] = []
    for line in _prose_lines(block.split("\n")):
        if open_lines and (OWN_LINE.match(line) or TYPED_NAME.match(open_lines[0])):
            yield " ".join(open_lines)
            open_lines = []
        open_lines.append(" ".join(line.split()))
    if open_lines:
        yield " ".join(open_lines)


def _prose_lines(lines: list[str]) -> Iterator[str]:
    """Stripped lines, without tables, headings and the rules under them; an interpreter session ends the block."""
    for line, following in pairwise([*map(str.strip, lines), ""]):
        if SESSION.match(line):
            return
        if LETTER.search(line) and not line.startswith(("|", "+")) and not RULE.fullmatch(following):
            yield line
