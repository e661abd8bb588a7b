"""A small search over keys of the recipe: dev picks, then the winner is trained as the recipe says, with all its seeds,
and the test set is scored once.

A finished trial leaves a line of numbers and no model, so that a search needs no more room than one run.
"""

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertctl.artifacts.folder import remove_folder, write_whole
from bertctl.console import note, warn
from bertctl.errors import BertctlError, NonFinite, raise_problems
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.result import words
from bertctl.finetune.search_config import KeySection, SearchSection
from bertctl.finetune.several import Project, Trial, best_of, dev_of
from bertctl.recipe.load import build_recipe
from bertctl.recipe.overrides import Override

Point = dict[str, Any]
WINNER = "winner"
MOST_REPEATS = 100  # draws in a row that were there before, after which the points are taken to be used up


def search(project: Project) -> tuple[dict[str, Any], Path]:
    """Try every point on dev, then train the best one with the recipe's own seeds and score it on test.

    Returns the winner's result, with a row for each trial in `search`. Errors: BertctlError for values that do not go
    together, before anything is trained, and if no trial ended with a number.
    """
    assert project.section.search is not None  # the caller asked because there is one
    points = list(draw(project.section.search, project.seed))
    sections = sections_of(project.section, points)
    rows = [
        tried(project, number, point, section)
        for number, (point, section) in enumerate(zip(points, sections, strict=True), 1)
    ]
    best = best_of([row["dev"] for row in rows])
    if rows[best]["dev"] is None:
        raise BertctlError(f"search: none of {len(rows)} trials ended with a dev score", hint="try lower rates")
    show(project, rows, best)
    kept = ("seeds", "from_scratch", "baselines")
    update = {key: getattr(project.section, key) for key in kept}
    winner = Trial(WINNER, sections[best].model_copy(update=update), project.splits)
    result = project.train(winner)
    method = project.section.search.method
    found = {"method": method, "runs": len(rows), "best": best + 1, "values": points[best], "trials": rows}
    return {**result, "search": found}, project.folder(WINNER)


def draw(section: SearchSection, seed: int) -> Iterator[Point]:
    """The points to try. Random ones are a pure function of seed, keys and ranges, and no point comes twice."""
    if section.method == "grid":
        for values in itertools.product(*(one.values for one in section.over)):
            yield {one.key: value for one, value in zip(section.over, values, strict=True)}
        return
    generator, repeats = np.random.default_rng(seed), 0
    seen: set[str] = set()
    while len(seen) < section.runs and repeats < MOST_REPEATS:
        point = {one.key: value_of(one, generator) for one in section.over}
        text = json.dumps(point)
        repeats = repeats + 1 if text in seen else 0
        if text not in seen:
            seen.add(text)
            yield point


def value_of(one: KeySection, generator: np.random.Generator) -> Any:
    """A value for a key: one of those listed, or a number of the range, rounded to 3 digits so that one can tell it."""
    if one.low is None or one.high is None:
        return one.values[int(generator.integers(len(one.values)))]
    if one.scale == "log":
        return float(f"{math.exp(generator.uniform(math.log(one.low), math.log(one.high))):.3g}")
    return float(f"{generator.uniform(one.low, one.high):.3g}")


def sections_of(section: FinetuneSection, points: list[Point]) -> list[FinetuneSection]:
    """The section of each point, trained once and without what stands beside it. Errors: BertctlError with every point
    that no section can be, as of values that do not go together; keys and values were checked with the recipe."""
    problems: list[str] = []
    alone = {"search": None, "seeds": 1, "from_scratch": False, "baselines": False}
    tree = json.loads(section.model_copy(update=alone).model_dump_json())
    sections = []
    for point in points:
        overrides = [Override(tuple(key.split(".")), value, f"search: {key}={value}") for key, value in point.items()]
        try:
            sections.append(build_recipe(json.loads(json.dumps(tree)), FinetuneSection, overrides, "search"))
        except BertctlError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    raise_problems(problems)
    return sections


def tried(project: Project, number: int, point: Point, section: FinetuneSection) -> dict[str, Any]:
    """The row of one trial: done now, or taken from where it was left. One that diverges has no dev score."""
    name = f"trial-{number}"
    path, asked = project.out / "trials" / f"{number}.json", json.loads(section.model_dump_json())
    if path.exists():
        row, by = read_row(path)
        if by != asked:
            raise BertctlError(f"{path}: was made by another recipe", hint="start in a new folder with --out")
        return row
    note(f"{name} of {project.section.search.runs}: {in_words(point)}")  # type: ignore[union-attr]
    row = {"trial": number, "values": point, "dev": None, "steps": None, "seconds": None}
    try:
        result = project.train(Trial(name, section, replace(project.splits, test=[])))
        run = result["pretrained"]["seeds"][0]
        row |= {"dev": dev_of(result), "steps": run["steps"], "seconds": run["seconds"]}
    except NonFinite as error:
        warn(f"{name}: {error.problems[0]}; it is out")
        row["problem"] = error.problems[0]
    if project.writes:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, json.dumps({"row": row, "section": asked}, indent=1) + "\n")
        if project.folder(name).exists():
            remove_folder(project.folder(name))
    return row


def read_row(path: Path) -> tuple[dict[str, Any], Any]:
    """The row of a trial that was done, and the section it was done by. Errors: BertctlError."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return stored["row"], stored["section"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BertctlError(f"{path}: damaged", hint="delete it; --resume does this trial again") from None


def in_words(point: Point) -> str:
    """`dropout 0.1, training.batch_size 16`."""
    return ", ".join(f"{key} {value}" for key, value in point.items())


def show(project: Project, rows: list[dict[str, Any]], best: int) -> None:
    """The trials from the best to the worst, for the person who watches."""
    for row in sorted(rows, key=lambda row: (row["dev"] is None, -(row["dev"] or 0), row["trial"])):
        mark = " <- trained again with all seeds, and scored" if row is rows[best] else ""
        note(f"dev {project.task.metric} {words(row['dev'])}  trial {row['trial']}: {in_words(row['values'])}{mark}")
