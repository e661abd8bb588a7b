"""The short forms of commands: what an option or a bare argument means as keys of a recipe. They fill it, no more."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, get_args

from bertctl.artifacts.checkpoint import read_config, resolve_model
from bertctl.cli.recipe import Recipe
from bertctl.cli.shipped import find_recipe, is_recipe, shipped
from bertctl.console import note
from bertctl.errors import BertctlError
from bertctl.finetune.search_config import SearchSection
from bertctl.recipe.load import load_recipe, read_document
from bertctl.recipe.overrides import dotted
from bertctl.tasks.config import TaskName
from bertctl.variants.config import read_encoder_config

SOURCES = ("name", "subset", "train", "dev", "test")


class Fill(NamedTuple):
    """`value` for the dotted `key` of the command's section; `option` is how messages call it."""

    option: str
    key: str
    value: Any


def fills(*given: tuple[str, str, Any]) -> list[Fill]:
    """Those of (option, key, value) that were given on the command line."""
    return [Fill(*one) for one in given if one[2] is not None]


def data_fills(data: str | None, *, named_recipe: bool) -> list[Fill]:
    """`--data PATH`: the labelled data are there and nowhere else.

    In a recipe that the user named, columns, formats and limits stay as it says; only its sources give way.
    """
    if data is None:
        return []
    if not named_recipe:
        return [Fill("--data", "data", {"path": data})]
    return [Fill("--data", "data.path", data), *(Fill("--data", f"data.{key}", None) for key in SOURCES)]


def search_fills(file: Path | None) -> list[Fill]:
    """`--search FILE`: the file holds the section `search`. Errors: BertctlError with every problem and its place."""
    if file is None:
        return []
    if not file.is_file():
        got = "a folder" if file.is_dir() else "no such file"
        hint = "its keys: bertctl recipes explain finetune.search"
        raise BertctlError(f"--search {file}: got {got}, expected a YAML file that says what to search", hint=hint)
    document, section = read_document(file), load_recipe(file, SearchSection)
    found = [Fill(f"--search {file}", "search", section.model_dump(mode="json"))]
    for path, mark in document.values.items():  # every value once more, so that messages say where it stands
        value = reduce(lambda place, part: place[part], path, document.tree)
        if not isinstance(value, (dict, list)):
            found.append(Fill(f"{file}:{mark.line}:{mark.column}", f"search.{dotted(path)}", value))
    return found


def recipe_or(word: str | None) -> tuple[str | None, str | None]:
    """A bare argument that may be a recipe, or a model or folder: (recipe, other)."""
    return (word, None) if word is None or is_recipe(word) else (None, word)


def noted_task(model: str | None) -> str | None:
    """The task that a checkpoint here was fine-tuned for; None if it does not say so, or cannot be read: the stage then
    finds out, or says what is wrong."""
    if model is None or not Path(model).is_dir():
        return None
    try:
        noted = read_config(resolve_model(model)).get("bertctl")
    except BertctlError:
        return None
    task = noted.get("task") if isinstance(noted, dict) else None
    return task if task in get_args(TaskName) else None


def length_fills(recipe: str, model: str | None, overrides: Sequence[str] | None) -> list[Fill]:
    """The length of a shipped recipe, which nobody asked for, as far as a checkpoint here reads: said in one line."""
    if (
        model is None
        or not Path(model).is_dir()
        or any("max_length" in one.partition("=")[0] for one in overrides or ())
    ):
        return []
    asked = next(section.max_length for section in load_recipe(find_recipe(recipe), Recipe).finetune or ())
    try:
        source = resolve_model(model)
        longest = read_encoder_config(source, read_config(source))[1].max_position_embeddings
    except BertctlError:
        return []  # the stage says what is wrong
    if asked is None or asked <= longest:
        return []
    note(f"max_length: {longest} word pieces, which is all that {model} reads ({recipe} has {asked})")
    return [Fill("--model", "max_length", longest), Fill("--model", "data.overlap_tokens", None)]


def task_recipe(stage: str, task: str | None) -> str | None:
    """The shipped recipe of a task for when no recipe was named: `finetune --task ner` alone uses `finetune/ner`."""
    name = f"{stage}/{task}"
    return name if name in shipped() else None
