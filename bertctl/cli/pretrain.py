"""`bertctl pretrain`."""

from bertctl.cli.execute import run_stage
from bertctl.cli.options import DryRun, Json, Out, Recipe, Resume, Set, Verbose, shared


def pretrain(
    recipe: Recipe = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Train an encoder on masked tokens, from scratch or from a checkpoint."""
    run_stage("pretrain", recipe, [], shared(out, set_, dry_run, resume, json))
