"""Questions about section types: which sections a field can hold, and what keys there are below a path."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from bertctl.recipe.section import Section

Path = tuple[str | int, ...]


def sections_in(annotation: Any) -> list[type[Section]]:
    """The sections that a field with this annotation can hold, in the order they are written."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_in(part)]


def holds_list(annotation: Any) -> bool:
    """Whether the annotation is a list of sections, or that and None."""
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return any(holds_list(part) for part in get_args(annotation))
    return get_origin(annotation) is list and bool(sections_in(annotation))


def one_section_lists(tree: dict[str, Any], root: type[Section]) -> dict[str, Any]:
    """`tree` with `finetune: {...}` turned into `finetune: [{...}]` where the root wants a list of sections."""
    single = {
        name
        for name, field in root.model_fields.items()
        if holds_list(field.annotation) and isinstance(tree.get(name), dict)
    }
    return {name: [value] if name in single else value for name, value in tree.items()}


def choose(sections: list[type[Section]], tree: Any) -> list[type[Section]]:
    """Those of `sections` whose tag (a field with one literal choice, such as `name: Literal["adamw"]`) fits `tree`."""
    if not isinstance(tree, dict):
        return sections
    fitting = [section for section in sections if _tags_fit(section, tree)]
    return fitting or sections


def _tags_fit(section: type[Section], tree: dict[str, Any]) -> bool:
    for name, field in section.model_fields.items():
        if get_origin(field.annotation) is Literal and name in tree and tree[name] not in get_args(field.annotation):
            return False
    return True


def sections_at(root: type[Section], path: Path, tree: Any) -> list[type[Section]]:
    """The sections that the value at `path` can be, judged by the types and by the tags in `tree`."""
    sections: list[type[Section]] = [root]
    for part in path:
        sections = choose(sections, tree)
        tree = child(tree, part)
        if isinstance(part, str):
            fields = [section.model_fields[part] for section in sections if part in section.model_fields]
            sections = [inner for field in fields for inner in sections_in(field.annotation)]
    return choose(sections, tree)


def child(tree: Any, part: str | int) -> Any:
    """What a mapping or a list has at `part`; None if there is nothing."""
    if isinstance(tree, dict):
        return tree.get(part)
    return tree[part] if isinstance(tree, list) and isinstance(part, int) and part < len(tree) else None


def every_key(section: type[Section], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every key below `section` with its field, depth first in declared order; list indices are left out."""
    for name, field in section.model_fields.items():
        yield (*prefix, name), field
        for inner in sections_in(field.annotation):
            yield from every_key(inner, (*prefix, name))
