"""What can stand in a recipe: a JSON Schema for editors, and text for people. Both read the docstrings under fields."""

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from bertctl.errors import BertctlError
from bertctl.recipe.dump import scalar
from bertctl.recipe.problems import did_you_mean
from bertctl.recipe.section import Section
from bertctl.recipe.sections import every_key, holds_list, sections_in

WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "null"}


def json_schema(root: type[Section]) -> dict[str, Any]:
    """The schema of a whole recipe; for a list of sections it takes one section too, as the loader does."""
    schema = root.model_json_schema()
    for name, field in root.model_fields.items():
        if holds_list(field.annotation):
            _allow_one(schema["properties"][name])
    return schema


def _allow_one(schema: dict[str, Any]) -> None:
    choices = schema.get("anyOf", [schema])
    items = [choice["items"] for choice in choices if choice.get("type") == "array"]
    if "anyOf" in schema:
        schema["anyOf"] = [*items, *choices]
    else:
        kind = {key: schema.pop(key) for key in ("type", "items") if key in schema}
        schema["anyOf"] = [*items, kind]


def explain(root: type[Section], key: str | None = None) -> str:
    """Text about the key `a.b.c` and all keys below it; about the whole recipe if there is no key.

    Errors: BertctlError for an unknown key, with the nearest known one.
    """
    known = list(dict.fromkeys(path for path, _ in every_key(root)))
    wanted = tuple(part for part in (key or "").split(".") if part and not part.isdigit())
    if wanted and wanted not in known:
        names = [".".join(path) for path in known]
        near = did_you_mean(".".join(wanted), names)
        raise BertctlError(f"`{key}` is no key of a recipe{near}", hint="bertctl recipes explain  (lists all keys)")
    return "\n".join(_entries(root, wanted))


def _entries(root: type[Section], wanted: tuple[str, ...]) -> Iterator[str]:
    seen: set[tuple[tuple[str, ...], str]] = set()
    for path, field in every_key(root):
        entry = f"{'.'.join(path)}: {kind(field.annotation)}{_default(field)}"
        if path[: len(wanted)] == wanted and (path, entry) not in seen:
            seen.add((path, entry))
            yield entry
            yield from (f"    {line}".rstrip() for line in (field.description or "").splitlines())


def kind(annotation: Any) -> str:
    """The type of a field in words, as `whole number or null`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind(arguments[0])
    if origin is Literal:
        return " | ".join(scalar(value) for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(kind(part) for part in arguments))
    if origin in (list, tuple):
        return f"list of ({kind(arguments[0])})" if " " in kind(arguments[0]) else f"list of {kind(arguments[0])}"
    if origin is dict:
        return f"keys with {kind(arguments[1])}"
    if sections_in(annotation):
        return "section"
    return WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)).lower())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ", must be given"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined or isinstance(value, Section):
        return ""
    shown = to_jsonable_python(value)
    return f", default {json.dumps(shown) if isinstance(shown, (dict, list)) else scalar(shown)}"
