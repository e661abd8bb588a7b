"""A recipe written out in full: every value, defaults included, in declared order, so that `diff -u` compares two."""

import json
import re
from typing import Any

from bertctl.recipe.redact import redact
from bertctl.recipe.section import Section
from bertctl.recipe.sections import sections_in
from bertctl.recipe.yaml_scalars import resolve

PLAIN = re.compile(r"[A-Za-z_/.][A-Za-z0-9_/.+-]*")


def dump_recipe(recipe: Section) -> str:
    """YAML that loads to an equal recipe. Access tokens and passwords in URLs are left out, and only they are lost.

    Stages that the recipe does not have (absent sections at the top) are not listed.
    """
    fields = type(recipe).model_fields
    absent = {name for name, value in recipe if value is None and sections_in(fields[name].annotation)}
    return "\n".join(_lines(json.loads(recipe.model_dump_json(exclude=absent)), "")) + "\n"


def _lines(tree: Any, indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in tree.items():
        name = scalar(key)
        if isinstance(value, dict) and value:
            lines += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        elif isinstance(value, list) and any(isinstance(item, (dict, list)) and item for item in value):
            lines += [f"{indent}{name}:", *(line for item in value for line in _item(item, indent + "  "))]
        else:
            lines.append(f"{indent}{name}: {_inline(value)}")
    return lines


def _item(item: Any, indent: str) -> list[str]:
    """One `- ` entry: a section starts behind the dash, anything else stands there whole."""
    if not (isinstance(item, dict) and item):
        return [f"{indent}- {_inline(item)}"]
    first, *rest = _lines(item, indent + "  ")
    return [f"{indent}- {first.strip()}", *rest]


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key)}: {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return scalar(value)


def scalar(value: Any) -> str:
    """A value as YAML 1.2 that any reader takes the same way: text without quotes only if it can be nothing else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = redact(value)
    return text if _is_plain(text) else _quoted(text)


def _is_plain(text: str) -> bool:
    """Words of YAML 1.1 such as `no` get quotes too, for those who read the file with another program."""
    if not PLAIN.fullmatch(text) or text.lower() in ("y", "n", "yes", "no", "on", "off"):
        return False
    try:
        return bool(resolve(text) == text)
    except ValueError:
        return False


def _quoted(text: str) -> str:
    """JSON's quotes are YAML's too, but YAML wants more characters escaped than JSON does."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False))
