"""`bertctl build-pairs`."""

from typing import Annotated

import typer

from bertctl.cli.execute import run_stage
from bertctl.cli.options import DryRun, Json, Out, Resume, Set, Verbose, shared
from bertctl.cli.shortcuts import fills, recipe_or


def build_pairs(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|TOKENS]", help="A recipe, or the folder that tokenize wrote.")
    ] = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Cut token shards into training examples, with sentence pairs or without."""
    name, tokens = recipe_or(recipe)
    run_stage("build_pairs", name, fills(("TOKENS", "tokens", tokens)), shared(out, set_, dry_run, resume, json))
