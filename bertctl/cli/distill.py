"""`bertctl distill`."""

from typing import Annotated, Any

import typer

from bertctl.cli.execute import run_stage
from bertctl.cli.options import DryRun, Json, Out, Resume, Set, Verbose, shared
from bertctl.cli.shipped import is_recipe
from bertctl.cli.shortcuts import Fill, data_fills, fills
from bertctl.errors import BertctlError
from bertctl.recipe.overrides import parse_override


def distill(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|TEACHER]", help="A recipe, or the checkpoint to learn from.")
    ] = None,
    student: Annotated[
        str | None,
        typer.Argument(metavar="[STUDENT]", help="A preset as mini, half, a checkpoint, {num_hidden_layers: 2}."),
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="The teacher's task, if it has one.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="PATH", help="Examples of build-pairs, or the task's data.")
    ] = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Train a smaller encoder to do as a larger one, on text or for a task."""
    options = shared(out, set_, dry_run, resume, json)
    set_elsewhere = any(one.startswith("distill.student") for one in options.overrides)
    if recipe is not None and student is None and (is_recipe(recipe) or not set_elsewhere):
        if not is_recipe(recipe):
            raise BertctlError(
                f"distill: got the teacher {recipe} and no student", hint=f"bertctl distill {recipe} mini"
            )
        run_stage("distill", recipe, _data(data, task, named_recipe=True), options, task)
        return
    shortcuts = fills(
        ("TEACHER", "teacher", recipe), ("STUDENT", "student", _student(student)), ("--task", "task", task)
    )
    run_stage("distill", None, [*shortcuts, *_data(data, task, named_recipe=False)], options)


def _student(word: str | None) -> Any:
    """A name or a folder as it is; `{num_hidden_layers: 2}` as a section. Errors: BertctlError if it cannot be read."""
    if word is None or not word.lstrip().startswith("{"):
        return word
    try:
        return parse_override(f"student={word}").value
    except ValueError as error:
        raise BertctlError(f"STUDENT: got {word!r}: {error}", hint="as in {num_hidden_layers: 2}") from None


def _data(data: str | None, task: str | None, *, named_recipe: bool) -> list[Fill]:
    """`--data` is labelled data for a task, and examples of build-pairs without one."""
    return data_fills(data, named_recipe=named_recipe) if task else fills(("--data", "pairs", data))
