"""All stages of a recipe, in order; a job whose hash is that of its last time is not done again."""

import os
import time
from collections.abc import Sequence
from typing import Any

from bertctl import signals
from bertctl.artifacts.folder import environment_faults, remove_folder, write_whole
from bertctl.cli import summary
from bertctl.cli.execute import is_first_rank, perform, read_result, show_plan
from bertctl.cli.identity import is_done, job_hash, made_by
from bertctl.cli.options import Shared
from bertctl.cli.plan import Job, check_places, plan
from bertctl.cli.recipe import Recipe
from bertctl.cli.shipped import find_recipe
from bertctl.cli.stages import STAGES
from bertctl.console import duration, note, print_json
from bertctl.errors import BertctlError
from bertctl.recipe.load import load_recipe
from bertctl.recipe.overrides import Override


def run_all(name: str, options: Shared) -> None:
    """Load, plan, do or skip each job, and write `workdir/summary.json`. `--out` takes the place of `workdir`."""
    overrides: list[str | Override] = [*options.overrides]
    if options.out is not None:
        overrides.append(Override(("workdir",), str(options.out), "--out"))
    recipe = load_recipe(find_recipe(name), Recipe, overrides)
    jobs = plan(recipe, list(STAGES))
    if not jobs:
        raise BertctlError(f"{name}: no stages in it", hint=f"expected at least one of {', '.join(STAGES)}")
    check_places(recipe, jobs)
    if options.dry_run:
        show_plan(recipe, jobs, _states(recipe, jobs), as_json=options.as_json)
        return
    signals.install()
    began = time.monotonic()
    results = [
        (job, _do_or_skip(job, recipe, f"[{n}/{len(jobs)}] {job.label}", options)) for n, job in enumerate(jobs, 1)
    ]
    if is_first_rank():
        _conclude(recipe, results, time.monotonic() - began, options)


def _conclude(recipe: Recipe, results: summary.Results, seconds: float, options: Shared) -> None:
    whole = summary.summarise(results, seconds)
    write_whole(recipe.workdir / "summary.json", summary.as_text(whole))
    summary.show_table(results)
    note(f"{recipe.workdir / 'summary.json'} holds the numbers; this took {duration(seconds)}")
    if options.as_json:
        print_json(whole)


def _states(recipe: Recipe, jobs: Sequence[Job]) -> list[str]:
    """What a dry run says of each job. A job behind one that would run is judged when that one has run."""
    states: list[str] = []
    for job in jobs:
        done = "run" not in states and is_done(job, job_hash(job, recipe.seed))
        states.append("unchanged, skipped" if done else "run")
    return states


def _do_or_skip(job: Job, recipe: Recipe, place: str, options: Shared) -> dict[str, Any]:
    signals.check(f"starting {job.label}")
    if is_done(job, job_hash(job, recipe.seed)):
        note(f"{place}: unchanged, taken from {job.out}")
        return read_result(job)
    before = made_by(job)
    if before is not None and is_first_rank():
        note(f"{place}: its recipe, inputs or code changed; the old result is kept as {_set_aside(job)}")
    note(f"{place} -> {job.out}")
    return perform(job, recipe, resume=options.resume and before is None and job.out.is_dir())


def _set_aside(job: Job) -> str:
    """Rename the folder of a finished job, in place of what was set aside before: days of training may be in it."""
    old = job.out.with_name(job.out.name + ".previous")
    if old.exists():
        remove_folder(old)
    with environment_faults(job.out):
        os.rename(job.out, old)
    return str(old)
