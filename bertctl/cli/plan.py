"""From a recipe to the jobs to do: which section, into which folder, with which inputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bertctl.cli.recipe import LISTED, NO_TASK, Recipe, section_name
from bertctl.cli.stages import STAGES, TASK_MODEL
from bertctl.errors import BertctlError, raise_problems
from bertctl.recipe.section import Section


class Job(NamedTuple):
    """One call of a stage. `name` is that of the section in a list, None for stages that a recipe has once."""

    stage: str
    name: str | None
    section: Section
    out: Path

    @property
    def label(self) -> str:
        """`pretrain`, `finetune.ner`."""
        return f"{self.stage}.{self.name}" if self.name else self.stage


def plan(recipe: Recipe, stages: Sequence[str], out: Path | None = None) -> list[Job]:
    """The jobs of these stages in order, with every input that has a default filled in.

    `out` takes the place of `workdir/stage`; several sections of one stage get a folder each below it.
    """
    return [job for stage in stages for job in _jobs(recipe, stage, out)]


def _jobs(recipe: Recipe, stage: str, out: Path | None) -> list[Job]:
    value = getattr(recipe, stage)
    place = out or recipe.workdir / stage
    if value is None:
        return []
    if stage not in LISTED:
        return [Job(stage, None, fill_inputs(recipe, stage, value), place)]
    alone = out is not None and len(value) == 1
    names = [section_name(section) for section in value]
    return [
        Job(stage, name, fill_inputs(recipe, stage, section), place if alone else place / name)
        for name, section in zip(names, value, strict=True)
    ]


def fill_inputs(recipe: Recipe, stage: str, section: Section) -> Section:
    """`section` with its absent inputs set to where the stages before it put, or will put, their results.

    Left absent if the recipe has no such stage and the folder is not there either: the stage then says what it needs.
    """
    fields = type(section).model_fields
    filled: dict[str, Any] = {}
    for field, place in _defaults(recipe, stage, section).items():
        if field in fields and getattr(section, field) is None:
            filled[field] = place if "Path" in str(fields[field].annotation) else str(place)
    return section.model_copy(update=filled) if filled else section


def _defaults(recipe: Recipe, stage: str, section: Section) -> dict[str, Path]:
    if getattr(section, "predictions", ()):
        return {}  # what other systems predicted is scored alone, unless a model is named beside it
    task = getattr(section, "task", None)
    if task not in (None, NO_TASK) and stage in TASK_MODEL:
        makers = [section_name(maker) for maker in recipe.finetune or [] if maker.task == task]
        return {TASK_MODEL[stage]: recipe.workdir / "finetune" / (makers[0] if len(makers) == 1 else task)}
    places = {field: (maker, recipe.workdir / maker) for field, maker in STAGES[stage].inputs.items()}
    pairs, data = getattr(section, "pairs", None), getattr(section, "data", None)
    if pairs not in (None, recipe.workdir / "build_pairs") or (data is not None and data.is_given()):
        places.pop("tokens", None)  # pairs that were named note themselves which tokens they point into
    if data is not None and data.is_given():
        places.pop("pairs", None)
    return {field: place for field, (maker, place) in places.items() if getattr(recipe, maker) or place.exists()}


def resolved(recipe: Recipe, jobs: Sequence[Job]) -> Recipe:
    """The recipe that does just `jobs`: their sections with every input named, and no others."""
    sections: dict[str, Any] = dict.fromkeys(STAGES)
    for job in jobs:
        sections[job.stage] = [*(sections[job.stage] or []), job.section] if job.stage in LISTED else job.section
    return recipe.model_copy(update=sections)


def check_places(recipe: Recipe, jobs: Sequence[Job]) -> None:
    """Inputs that an earlier stage makes must be there, or be made by an earlier job; no output may be an input.

    Errors: BertctlError with all of them, and the command that makes the first one.
    """
    problems: list[str] = []
    hint = None
    made: set[Path] = set()
    for job in jobs:
        for field, place in _defaults(recipe, job.stage, job.section).items():
            value = getattr(job.section, field, None)
            if value is not None and Path(value) == place and not place.exists() and place not in made:
                problems.append(f"{job.label}.{field}: there is no {place}")
                hint = hint or f"bertctl {place.relative_to(recipe.workdir).parts[0].replace('_', '-')} ...  (makes it)"
        inputs = [getattr(job.section, field, None) for field in STAGES[job.stage].inputs]
        if any(value is not None and Path(value).resolve() == job.out.resolve() for value in inputs):
            problems.append(f"{job.label}: got {job.out} as output and as input, expected two folders")
        made.add(job.out)
    raise_problems(problems, hint=hint)


def only_task(recipe: Recipe, stage: str, task: str) -> Recipe:
    """The recipe with just those sections of `stage` that are for `task`. Errors: BertctlError if there are none."""
    sections = getattr(recipe, stage) or []
    kept = [section for section in sections if task in (section.task, section_name(section))]
    if not kept:
        names = ", ".join(section_name(section) for section in sections) or "none"
        raise BertctlError(f"--task {task}: the recipe's {stage} sections are: {names}")
    return recipe.model_copy(update={stage: kept})
