"""`bertctl probe`."""

from typing import Annotated

import typer

from bertctl.cli.execute import run_stage
from bertctl.cli.options import DryRun, Json, Out, Resume, Set, Verbose, shared
from bertctl.cli.shortcuts import data_fills, fills, recipe_or


def probe(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|MODEL]", help="A recipe, or a checkpoint or hub name.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="ner, pos, classification or image_classification.")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="PATH", help="A file, or a folder of splits.")] = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """See what each layer of a checkpoint knows, and how it attends."""
    name, model = recipe_or(recipe)
    shortcuts = [*fills(("MODEL", "model", model)), *data_fills(data, named_recipe=name is not None)]
    if name is None:
        shortcuts += fills(("--task", "task", task))
    run_stage("probe", name, shortcuts, shared(out, set_, dry_run, resume, json), task if name else None)
