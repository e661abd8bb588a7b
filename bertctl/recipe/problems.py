"""pydantic's errors in bertctl's words: what was got, what was expected, and what was perhaps meant."""

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from bertctl.recipe.overrides import dotted
from bertctl.recipe.redact import redact
from bertctl.recipe.section import Section
from bertctl.recipe.sections import every_key, sections_at

Path = tuple[str | int, ...]

LONGEST_SHOWN = 60

# pydantic error type -> what was expected; {…} come from the error's own context.
EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
    "none_required": "nothing",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "union_tag_invalid": "{expected_tags}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "too_short": "at least {min_length} items, got {actual_length}",
    "too_long": "at most {max_length} items",
}


class TypeProblem(NamedTuple):
    """A sentence about the key at `path`; `at_key`: the key itself is wrong, not its value."""

    path: Path
    text: str
    at_key: bool = False


def type_problems(errors: Iterable[Any], tree: Any, root: type[Section]) -> list[TypeProblem]:
    """One problem for each key that is wrong, however many members of a union had something to say about it."""
    grouped: dict[Path, list[Any]] = {}
    for error in errors:
        path = known_path(error["loc"], tree, named=error["type"] in ("missing", "extra_forbidden"))
        grouped.setdefault(path, []).append(error)
    return [_problem(path, group, tree, root) for path, group in grouped.items() if not _beside(path, group, grouped)]


def _beside(path: Path, group: list[Any], grouped: dict[Path, list[Any]]) -> bool:
    """Whether what is wrong further down says it all: members of a union want no section where one was given, and
    lists without the items that are wrong are too short."""
    deeper = any(len(other) > len(path) and other[: len(path)] == path for other in grouped)
    return deeper and all(str(error["type"]).endswith("_type") or error["type"] == "too_short" for error in group)


def known_path(location: Iterable[str | int], tree: Any, *, named: bool) -> Path:
    """The path in the file for a pydantic location, which also names union members and tags that no file has.

    `named`: the last part is the name of a key, though the tree may not have it (a missing key).
    """
    parts = list(location)
    path: list[str | int] = []
    for number, part in enumerate(parts):
        if part in tree if isinstance(tree, dict) else isinstance(tree, list) and part in range(len(tree)):
            tree = tree[part]
        elif not (named and number == len(parts) - 1):
            continue
        path.append(part)
    return tuple(path)


def _problem(path: Path, group: list[Any], tree: Any, root: type[Section]) -> TypeProblem:
    first = group[0]
    name = dotted(path) or "the recipe"
    if first["type"] == "missing":
        return TypeProblem(path, f"{name}: missing{_describe(path, tree, root)}")
    if first["type"] == "extra_forbidden":
        return TypeProblem(path, f"{name}: unknown key{_perhaps_key(path, tree, root)}", at_key=True)
    if first["type"] == "union_tag_not_found":
        tag = str(first["ctx"]["discriminator"]).strip("'")
        return TypeProblem(path, f"{name}.{tag}: missing; expected the name of a kind", at_key=True)
    if first["type"] in ("value_error", "assertion_error"):
        return TypeProblem(path, f"{name}: {redact(str(first['ctx']['error']))}")
    got = first["input"]
    if first["type"] == "union_tag_invalid":
        got = first["ctx"]["tag"]
    wanted = list(dict.fromkeys(_expected(error) for error in group))
    return TypeProblem(path, f"{name}: got {show(got)}, expected {' or '.join(wanted)}{_perhaps(got, group)}")


def _expected(error: Any) -> str:
    template = EXPECTED.get(error["type"])
    if template is None:
        return str(error["msg"])
    text = template.format(**{key: _short(value) for key, value in error.get("ctx", {}).items()})
    got = error["input"]
    if text == "a whole number" and isinstance(got, float) and got == int(got):
        return f"{text} (write {int(got)})"
    if text in ("a whole number", "a number", "true or false") and isinstance(got, str):
        return f"{text}{_unquoted(got, text)}"
    return text.replace("'", "`")


def _short(bound: Any) -> Any:
    """A limit as people write it: pydantic has 1.0 where the section says 1."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() and abs(bound) < 1e9 else bound


def _unquoted(got: str, wanted: str) -> str:
    """A number in quotes is text: say so; of anything else the reader sees that it is none."""
    fits = got in ("true", "false") if wanted == "true or false" else re.fullmatch(r"[-+]?[0-9._]+([eE][-+]?\d+)?", got)
    return " without quotes" if fits else ""


def show(value: Any) -> str:
    """A value of a recipe as a message shows it: short, on one line, without secrets."""
    if isinstance(value, str):
        text = f"`{redact(value)}`"
    elif isinstance(value, dict):
        return "keys and values"
    elif isinstance(value, list):
        return f"a list of {len(value)}"
    else:
        return "nothing" if value is None else json.dumps(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 4] + " ...`"


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """`; did you mean `x`?`, or nothing if no known word is near."""
    near = difflib.get_close_matches(got, list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def _perhaps(got: Any, group: list[Any]) -> str:
    choices = [str(error.get("ctx", {}).get(key, "")) for error in group for key in ("expected", "expected_tags")]
    known = [word for text in choices for word in re.findall(r"'([^']*)'", text)]
    return did_you_mean(got, known) if isinstance(got, str) else ""


def _perhaps_key(path: Path, tree: Any, root: type[Section]) -> str:
    """A near name among the keys of this section; else the place where a key of this name belongs; else the keys.

    At the top of a recipe the place comes first, so that nobody who writes `training` is asked about `pretrain`.
    """
    key = str(path[-1])
    fields = [name for section in sections_at(root, path[:-1], tree) for name in section.model_fields]
    near = did_you_mean(key, fields)
    inside = tuple(part for part in path[:-1] if isinstance(part, str))
    elsewhere = [place for place, _ in every_key(root) if place[-1] == key]
    elsewhere.sort(key=lambda place: (place[: len(inside)] != inside, not tree.get(place[0]), len(place)))
    if near and (inside or not elsewhere):
        return near
    if elsewhere:
        return f"; `{key}` is a key of `{dotted(elsewhere[0][:-1]) or 'the recipe itself'}`"
    return f"; expected one of {', '.join(dict.fromkeys(fields))}" if fields else ""


def _describe(path: Path, tree: Any, root: type[Section]) -> str:
    for section in sections_at(root, path[:-1], tree):
        field = section.model_fields.get(str(path[-1]))
        if field is not None and field.description:
            return f" ({field.description.splitlines()[0].rstrip('.')})"
    return ""
