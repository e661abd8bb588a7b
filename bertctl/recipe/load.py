"""A recipe file, and what the command line lays over it, to one checked tree of sections.

All problems are found before anything is said: those of the YAML, of the command line and of the types, in the order
of the file.
"""

import json
import re
from collections.abc import Container, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from bertctl.errors import BertctlError, EnvironmentFault, raise_problems
from bertctl.recipe.overrides import Override, apply_override, dotted, parse_override
from bertctl.recipe.problems import TypeProblem, type_problems
from bertctl.recipe.section import Section
from bertctl.recipe.sections import child, one_section_lists, sections_at
from bertctl.recipe.yaml_tree import Document, Mark, YamlError, parse_yaml

LARGEST_BYTES = 1 << 20
WITH = "; with "

R = TypeVar("R", bound=Section)


def load_recipe(path: Path, root: type[R], overrides: Sequence[str | Override] = ()) -> R:
    """The recipe in `path` with `overrides` (`a.b.0.c=value`) laid over it.

    Errors: BertctlError with every problem as `file:line:column: message`; EnvironmentFault if `path` may not be read.
    """
    return _build(read_document(path), root, overrides, str(path))


def build_recipe(
    tree: dict[str, Any], root: type[R], overrides: Sequence[str | Override] = (), origin: str = "command line"
) -> R:
    """As `load_recipe`, for a tree that no file holds; problems begin with `origin`."""
    return _build(Document(tree, {}, {}, []), root, overrides, origin)


def read_document(path: Path) -> Document:
    """The YAML of `path`: at most 1 MiB of UTF-8, with or without a byte order mark, with keys at the top."""
    raw = _read(path)
    try:
        document = parse_yaml(_decode(raw, path))
    except YamlError as error:
        raise BertctlError(f"{path}:{error.mark.line}:{error.mark.column}: {error.message}") from None
    if not isinstance(document.tree, dict):
        kind = "a list" if isinstance(document.tree, list) else "a single value"
        raise BertctlError(f"{path}:1:1: got {kind}, expected keys and values such as `seed: 7`")
    return document


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise BertctlError(f"{path}: no such recipe", hint="bertctl recipes  (lists those that come along)") from None
    except IsADirectoryError:
        raise BertctlError(f"{path}: got a folder, expected a recipe file") from None
    except PermissionError:
        raise EnvironmentFault(f"{path}: no permission to read it") from None
    except (OSError, ValueError) as error:
        raise BertctlError(f"{path}: cannot be read: {error}") from None
    if len(raw) > LARGEST_BYTES:
        raise BertctlError(f"{path}: got over {LARGEST_BYTES:,} bytes, expected a recipe")
    return raw


def _decode(raw: bytes, path: Path) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BertctlError(f"{path}:1:1: got UTF-16, expected UTF-8", hint=f"iconv -f UTF-16 -t UTF-8 {path}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        place = f"{path}:{before.count(10) + 1}:{column}"
        raise BertctlError(f"{place}: got the byte 0x{raw[error.start]:02x}, expected UTF-8") from None


class _Found(NamedTuple):
    """A problem; those of the file sort by line and column, then come those of the command line in their order."""

    order: tuple[int, int, int]
    text: str


class _Places:
    """Where each key came from: a line and column of the file, or an option on the command line."""

    def __init__(self, document: Document, origin: str) -> None:
        self.document, self.origin = document, origin
        self.options: dict[tuple[str | int, ...], tuple[int, str]] = {}

    def override(self, number: int, override: Override, made: list[tuple[str | int, ...]]) -> None:
        """Forget the places at and below the key, and note the option for it and for sections made on the way."""
        for known in (self.document.keys, self.document.values, self.options):
            for key in [key for key in known if any(key[: len(path)] == path for path in made)]:
                del known[key]
        self.options.update(dict.fromkeys(made, (number, override.label)))

    def found(self, problem: TypeProblem) -> _Found:
        """The sentence behind the place of the longest part of its path that has one."""
        for length in range(len(problem.path), -1, -1):
            part = problem.path[:length]
            if part in self.options:
                number, label = self.options[part]
                return _Found((1, number, 0), f"{label}: {problem.text}")
            mark = self._mark(part, at_key=problem.at_key or length < len(problem.path))
            if mark is not None:
                return self.at(mark, problem.text + self._with_options(problem.path))
        return _Found((0, 0, 0), f"{self.origin}: {problem.text}")

    def _with_options(self, path: tuple[str | int, ...]) -> str:
        """What the command line set inside the section at `path`, whose values do not go together."""
        inside = [(*given, key) for key, given in self.options.items() if key[: len(path)] == path != key]
        labels = [label for _, label, _ in sorted(inside, key=lambda one: one[0]) if label.startswith("--set")]
        return f"{WITH}{', '.join(dict.fromkeys(labels))}" if labels else ""

    def mentioned(self, problem: TypeProblem) -> list[str]:
        """Keys that the file has directly in the section at the problem's path, and that its text speaks of."""
        inside = [key[-1] for key in self.document.keys if key[:-1] == problem.path]
        return [str(key) for key in inside if key in re.findall(r"\w+", problem.text)]

    def at(self, mark: Mark, text: str) -> _Found:
        return _Found((0, mark.line, mark.column), f"{self.origin}:{mark.line}:{mark.column}: {text}")

    def _mark(self, part: tuple[str | int, ...], *, at_key: bool) -> Mark | None:
        """The place of the value; of the key where that is wrong itself, or where something inside it is missing."""
        keys, values = self.document.keys, self.document.values
        return (keys.get(part) or values.get(part)) if at_key else values.get(part)


def _build(document: Document, root: type[R], overrides: Sequence[str | Override], origin: str) -> R:
    places = _Places(document, origin)
    found = [places.at(problem.mark, _named(problem.path, problem.message)) for problem in document.problems]
    for number, given in enumerate(overrides):
        try:
            override = parse_override(given) if isinstance(given, str) else given
            made = apply_override(document.tree, override)
            places.override(number, override, made)
            for path in made if override.value is not None else ():
                _take_away_partners(document.tree, root, path, kept=places.options)
        except ValueError as error:
            label = f"--set {given}" if isinstance(given, str) else given.label
            found.append(_Found((1, number, 0), f"{label}: {error}"))
    recipe, problems = _validate(document.tree, root)
    broken = {problem.path for problem in document.problems}
    found += [places.found(problem) for problem in problems if problem.at_key or problem.path not in broken]
    hints = [hint for problem in problems if (hint := _hint(problem, places))]
    raise_problems([problem.text for problem in sorted(set(found))], hint=hints[0] if hints else None)
    assert recipe is not None  # the same errors that would leave it None were raised in the line above
    return recipe


def _take_away_partners(
    tree: dict[str, Any], root: type[Section], path: tuple[str | int, ...], *, kept: Container[tuple[str | int, ...]]
) -> None:
    """What the recipe says in place of the key at `path` goes, since one of them at most may be given; what the command
    line itself said (`kept`) stays, and is refused with it."""
    *above, key = path
    for section in sections_at(root, tuple(above), tree):
        for group in section.exclusive:
            place = reduce(child, above, tree)
            for partner in group if key in group else ():
                if partner != key and (*above, partner) not in kept:
                    place.pop(partner, None)


def _hint(problem: TypeProblem, places: _Places) -> str | None:
    """The command that mends a value of the recipe with which what was set does not go together, or a key that was set
    without the section that it is a key of."""
    label = places.options.get(problem.path, (0, ""))[1]
    section = re.search(r"is a key of `([\w.]+)`", problem.text)
    if problem.at_key and section and len(problem.path) == 1 and label.startswith("--set "):
        return f"--set {section[1]}.{label.removeprefix('--set ')}"
    if WITH in places.found(problem).text and (keys := places.mentioned(problem)):
        return f"--set {dotted((*problem.path, keys[0]))}=  (takes the recipe's value away; or give one that fits)"
    return None


def _named(path: tuple[str | int, ...], message: str) -> str:
    return f"{dotted(path)}: {message}" if path else message


def _validate(tree: dict[str, Any], root: type[R]) -> tuple[R | None, list[TypeProblem]]:
    """Through JSON, where strict mode still takes text for a path and a list for a tuple, and nothing else."""
    refused = list(_refused_texts(tree, ()))
    try:
        text = json.dumps(one_section_lists(tree, root), allow_nan=False)
        return root.model_validate_json(text, strict=True), refused
    except ValidationError as error:
        errors = [item for item in error.errors(include_url=False) if item["type"] != "json_invalid" or not refused]
        return None, [*type_problems(errors, tree, root), *refused]


def _refused_texts(tree: Any, path: tuple[str | int, ...]) -> Iterator[TypeProblem]:
    """`${HOME}` would name a folder called just so, as nothing is filled in here; half a surrogate pair is no text."""
    if isinstance(tree, str) and "${" in tree:
        yield TypeProblem(path, f"{dotted(path)}: got `${{...}}`, expected the value itself (no variables in recipes)")
    if isinstance(tree, str) and any("\ud800" <= character <= "\udfff" for character in tree):
        yield TypeProblem(path, f"{dotted(path)}: got half a surrogate pair, expected text")
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inner in children:
        yield from _refused_texts(inner, (*path, key))
