"""`bertctl evaluate`."""

from typing import Annotated

import typer

from bertctl.cli.execute import run_stage
from bertctl.cli.options import DryRun, Json, Out, Resume, Set, Verbose, shared
from bertctl.cli.shortcuts import data_fills, fills, noted_task, recipe_or


def evaluate(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|MODEL]", help="A recipe, or a checkpoint or hub name.")
    ] = None,
    against: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="A second checkpoint, to compare with the first.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="classification, qa, ner, ...")] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="PATH", help="A file, or a folder of splits.")] = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option("--predictions", metavar="FILE", help="What another system predicted; twice to compare two."),
    ] = None,
    no_answer: Annotated[
        list[str] | None,
        typer.Option("--no-answer-probabilities", metavar="FILE", help="qa: JSON of id -> number, one for each."),
    ] = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Score a checkpoint on data, or what any other system predicted: metrics with intervals; and compare two."""
    name, model = recipe_or(recipe)
    shortcuts = [*fills(("MODEL", "model", model), ("MODEL", "against", against))]
    shortcuts += data_fills(data, named_recipe=name is not None)
    shortcuts += fills(("--predictions", "predictions", predictions or None))
    shortcuts += fills(("--no-answer-probabilities", "no_answer_probabilities", no_answer or None))
    if name is None:
        shortcuts += fills(("--task", "task", task or noted_task(model)))
    run_stage("evaluate", name, shortcuts, shared(out, set_, dry_run, resume, json), task if name else None)
