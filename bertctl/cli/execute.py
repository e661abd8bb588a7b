"""Does the jobs of a plan: saves the resolved recipe first, then calls each stage's `run`, which nothing else does."""

import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bertctl import signals
from bertctl.artifacts.folder import environment_faults, lock, write_whole
from bertctl.cli.identity import is_done, job_hash, record
from bertctl.cli.options import Shared
from bertctl.cli.plan import Job, check_places, only_task, plan, resolved
from bertctl.cli.recipe import Recipe
from bertctl.cli.shipped import find_recipe
from bertctl.cli.shortcuts import Fill
from bertctl.cli.stages import REPLACED, STAGES, UNDIVIDED
from bertctl.console import note, print_json
from bertctl.errors import BertctlError
from bertctl.recipe.dump import dump_recipe
from bertctl.recipe.load import build_recipe, load_recipe
from bertctl.recipe.overrides import Override, key_path
from bertctl.recipe.yaml_tree import parse_yaml

BEFORE_WORK = (".lock", "recipe.yaml")  # what a folder may hold and still count as empty


def run_stage(
    stage: str, recipe: str | None, shortcuts: Sequence[Fill], shared: Shared, task: str | None = None
) -> None:
    """One command: the recipe (or an empty one), with the command's shortcuts and `--set` laid over it; then its jobs.

    `task` picks those sections of a recipe that are for it; without a recipe it belongs to the shortcuts.
    """
    tree = load_tree(stage, recipe, shortcuts, shared)
    if task is not None:
        tree = only_task(tree, stage, task)
    jobs = plan(tree, [stage], shared.out)
    if not jobs:
        present = ", ".join(name for name in STAGES if getattr(tree, name) is not None) or "none"
        of_others = [name.replace("_", "-") for name in STAGES if getattr(tree, name) is not None]
        hint = f"bertctl {of_others[0]} {recipe}" if of_others else f"bertctl recipes explain {stage}"
        raise BertctlError(f"{recipe}: no section `{stage}` (sections present: {present})", hint=hint)
    if shared.dry_run:
        show_plan(tree, jobs, as_json=shared.as_json)
        return
    check_places(tree, jobs)
    signals.install()
    results = {job.label: perform(job, tree, resume=shared.resume) for job in jobs}
    if shared.as_json and is_first_rank():
        print_json(next(iter(results.values())) if len(results) == 1 else results)


def load_tree(stage: str, recipe: str | None, shortcuts: Sequence[Fill], shared: Shared) -> Recipe:
    """The checked recipe. Errors: BertctlError, also if there is neither a recipe nor a shortcut to make one of."""
    overrides: list[str | Override] = [
        Override((stage, "*", *key_path(fill.key)), fill.value, fill.option) for fill in shortcuts
    ]
    overrides += shared.overrides
    if recipe is not None:
        return load_recipe(find_recipe(recipe), Recipe, overrides)
    if not overrides:
        name = stage.replace("_", "-")
        raise BertctlError(f"{name}: got no recipe", hint=f"bertctl {name} --help  (shows the short forms, too)")
    return build_recipe({stage: {}}, Recipe, overrides)


def show_plan(recipe: Recipe, jobs: Sequence[Job], states: Sequence[str] = (), *, as_json: bool = False) -> None:
    """`--dry-run`: the resolved recipe on stdout, what would run on stderr."""
    text = dump_recipe(resolved(recipe, jobs))
    if as_json:
        print_json(parse_yaml(text).tree)
    else:
        print(text, end="")  # noqa: T201 - this is the result
    for number, job in enumerate(jobs):
        note(f"would run {job.label} -> {job.out}{f' ({states[number]})' if states else ''}")


def perform(job: Job, recipe: Recipe, *, resume: bool) -> dict[str, Any]:
    """Do one job and return its result. If it ends before it wrote anything, the folder is as if it had not begun."""
    identity = job_hash(job, recipe.seed) if is_first_rank() else ""
    if resume and job.stage in UNDIVIDED and is_done(job, identity):
        note(f"{job.out}: is finished, and nothing has changed since; nothing to do")
        return read_result(job)
    made = save_recipe(job, recipe) if is_first_rank() else []
    try:
        module = import_module(STAGES[job.stage].module)
        result: dict[str, Any] = module.run(job.section, out=job.out, seed=recipe.seed, resume=resume)
    except BaseException:
        remove_unused(made)
        raise
    if is_first_rank():
        record(job, identity)
    return result


def save_recipe(job: Job, recipe: Recipe) -> list[Path]:
    """Write `recipe.yaml` into the output folder unless the folder already holds work; the paths that came to be.

    The folder of a run keeps the recipe it was begun with: on `--resume` the stage compares, and is the one to judge.
    """
    target = job.out / "recipe.yaml"
    holds_work = job.out.is_dir() and any(name not in BEFORE_WORK for name in os.listdir(job.out))
    if holds_work and job.stage not in REPLACED:
        return []
    with environment_faults(job.out):
        missing = [path for path in (job.out, *job.out.parents) if not path.exists()]
    with lock(job.out):  # so that the recipe of a run which is just starting there is not replaced
        head = f"# Every value, defaults included. Repeat with: bertctl {job.stage.replace('_', '-')} recipe.yaml\n"
        write_whole(target, head + dump_recipe(resolved(recipe, [job])))
    return [target, job.out / ".lock", *missing]


def remove_unused(made: Sequence[Path]) -> None:
    """Take back what `save_recipe` made (files, then folders from the inside), if the stage put nothing beside it."""
    if not made or any(path.name not in BEFORE_WORK for path in made[0].parent.iterdir()):
        return
    for path in made:
        if path.is_dir():
            if any(path.iterdir()):
                return
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


def is_first_rank() -> bool:
    """Whether this process may write: the only one, or the first of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def read_result(job: Job) -> dict[str, Any]:
    """The result that a finished job left. Errors: BertctlError if it cannot be read."""
    path = job.out / "result.json"
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BertctlError(f"{path}: cannot be read: {error}") from None
    return result
