"""`bertctl finetune`."""

from pathlib import Path
from typing import Annotated

import typer

from bertctl.cli.execute import run_stage
from bertctl.cli.options import DryRun, Json, Out, Recipe, Resume, Set, Verbose, shared
from bertctl.cli.shortcuts import data_fills, fills, length_fills, search_fills, task_recipe


def finetune(
    recipe: Recipe = None,
    task: Annotated[str | None, typer.Option("--task", help="classification, regression, ner, qa, ...")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="A checkpoint, or a hub name.")] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="PATH", help="A file, or a folder of splits.")] = None,
    search: Annotated[
        Path | None, typer.Option("--search", metavar="FILE", help="Look for better values of the keys in this file.")
    ] = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Train a checkpoint for a task; with --task alone, as the shipped recipe of the task says."""
    shortcuts = [*fills(("--model", "model", model)), *data_fills(data, named_recipe=recipe is not None)]
    shortcuts += search_fills(search)
    name = recipe or task_recipe("finetune", task)
    if recipe is None:
        lengths = [] if name is None else length_fills(name, model, set_)
        shortcuts = [*fills(("--task", "task", task)), *shortcuts, *lengths]
    run_stage("finetune", name, shortcuts, shared(out, set_, dry_run, resume, json), task if recipe else None)
