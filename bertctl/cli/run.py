"""`bertctl run`."""

from bertctl.cli.options import DryRun, Json, Out, Recipe, Resume, Set, Verbose, shared
from bertctl.cli.run_all import run_all
from bertctl.errors import BertctlError


def run(
    recipe: Recipe = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run all stages of a recipe, in order; skip what has not changed since it was done.

    --out takes the place of the recipe's workdir.
    """
    if recipe is None:
        raise BertctlError("run: got no recipe", hint="bertctl run demo  (bertctl recipes lists others)")
    run_all(recipe, shared(out, set_, dry_run, resume, json))
