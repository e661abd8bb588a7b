"""`--set pretrain.training.steps=10`: one value laid over the tree of a recipe, before it is checked."""

import re
from string import punctuation
from typing import Any, NamedTuple

from bertctl.recipe.sections import child
from bertctl.recipe.yaml_tree import YamlError, parse_yaml

Path = tuple[str | int, ...]

# To YAML `|` alone is an empty text, `-` a list of nothing and `,` an error: nobody means that on a command line.
# `~` is YAML's null and stays it.
_MARKS = frozenset(punctuation) - {"~"}


class Override(NamedTuple):
    """`value` for the key at `path`; `label` is how messages call it, as `--set seed=x` or `--model`."""

    path: Path
    value: Any
    label: str


def parse_override(text: str) -> Override:
    """`a.b.0.c=value` or `a.b[0].c=value`; the value is read as YAML, by the same rules as a recipe.

    `*` in place of an index stands for every item, and for a single section that is not written as a list. A value
    of one mark of punctuation, as in `label_separator=|`, is that mark.

    Errors: ValueError with a sentence.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError("got no `=`, expected `key.key=value`")
    path = key_path(re.sub(r"\[(\d+)\]", r".\1", name.strip()))
    if "" in path:
        raise ValueError(f"got the key `{name}`, expected names with one `.` between them")
    return Override(path, _value(value), f"--set {name}={value}")


def key_path(key: str) -> Path:
    """`finetune.0.task` -> `("finetune", 0, "task")`."""
    return tuple(int(part) if part.isdigit() else part for part in key.split("."))


def _value(text: str) -> Any:
    if not text.strip():
        return None
    if text in _MARKS:
        return text
    try:
        document = parse_yaml(text)
    except YamlError as error:
        raise ValueError(f"{error.message} (put text with special characters in double quotes)") from None
    if document.problems:
        raise ValueError(document.problems[0].message)
    return document.tree


def apply_override(tree: dict[str, Any], override: Override) -> list[Path]:
    """Set the value in place; the paths that came to be (the key's own, and sections made on the way to it).

    Errors: ValueError where the path leads through a value or past the end of a list.
    """
    paths = [_into_only_item(tree, path) for path in _expand(tree, override.path)]
    return [made for path in paths for made in _set(tree, path, override.value)]


def _expand(tree: Any, path: Path) -> list[Path]:
    """`path` once for every item that its `*` stands for."""
    if "*" not in path:
        return [path]
    star = path.index("*")
    place = tree
    for part in path[:star]:
        place = place.get(part) if isinstance(place, dict) else None
    if not isinstance(place, list):
        return _expand(tree, (*path[:star], *path[star + 1 :]))
    return [whole for index in range(len(place)) for whole in _expand(tree, (*path[:star], index, *path[star + 1 :]))]


def _into_only_item(tree: Any, path: Path) -> Path:
    """`path` with a 0 before a key that is asked of a list of one section: which one is meant leaves no doubt."""
    whole: list[str | int] = []
    place = tree
    for part in path:
        if isinstance(part, str) and isinstance(place, list) and len(place) == 1 and isinstance(place[0], dict):
            whole.append(0)
            place = place[0]
        whole.append(part)
        place = child(place, part)
    return tuple(whole)


def _set(tree: dict[str, Any], path: Path, value: Any) -> list[Path]:
    made: list[Path] = []
    place: Any = tree
    for depth, part in enumerate(path):
        _check_step(place, part, path[:depth])
        if depth == len(path) - 1:
            place[part] = value
        elif isinstance(place, dict) and place.get(part) is None:
            place[part] = {}
            made.append(path[: depth + 1])
        place = place[part]
    return [*made, path]


def _check_step(place: Any, part: str | int, here: Path) -> None:
    name = dotted(here) or "the recipe"
    if isinstance(place, list):
        if not isinstance(part, int) or part >= len(place):
            raise ValueError(
                f"{name} is a list of {len(place)}, expected an index from 0 to {len(place) - 1}, got `{part}`"
            )
    elif not isinstance(place, dict):
        raise ValueError(f"{name} is one value and has no key `{part}`")
    elif isinstance(part, int):
        raise ValueError(f"{name} is no list, expected the name of a key, got `{part}`")


def dotted(path: Path) -> str:
    """`("finetune", 0, "task")` -> `finetune.0.task`."""
    return ".".join(str(part) for part in path)
