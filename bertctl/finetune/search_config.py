"""What a search tries: keys of the recipe's section, and values for them. No torch."""

import json
import math
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from bertctl.errors import BertctlError
from bertctl.recipe.load import build_recipe
from bertctl.recipe.overrides import Override, Path, dotted
from bertctl.recipe.section import Section

Value = bool | int | float | str | None
Spot = tuple[Path, Value]
"""A value that may be tried, and where in the search it stands."""

FIXED = ("name", "task", "data", "seeds", "from_scratch", "baselines", "folds", "train_fraction", "search")
SEARCHABLE_DATA = ("data.long_text", "data.overlap_tokens")


class KeySection(Section):
    """A key and what is tried for it: listed values, or numbers from a range."""

    key: str
    """A key of the section, with dots, such as training.optimizer.lr."""
    values: tuple[Value, ...] = ()
    """The values to choose from."""
    low: float | None = None
    """The smallest number of a range (random search)."""
    high: float | None = None
    """The largest."""
    scale: Literal["linear", "log"] = "linear"
    """Whether numbers are drawn evenly, or evenly over their logarithms, as befits rates."""

    @model_validator(mode="after")
    def _values_or_range(self) -> Self:
        if bool(self.values) == (self.low is not None and self.high is not None):
            raise ValueError(f"{self.key}: give `values`, or `low` and `high`")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"{self.key}: got low {self.low:g} and high {self.high:g}, expected low below high")
        if self.scale == "log" and (self.low is None or self.low <= 0):
            raise ValueError(f"{self.key}: `scale: log` is for a range of numbers above 0")
        return self


class SearchSection(Section):
    """A search over keys of the section: dev picks, and the test set is scored once, for the winner."""

    method: Literal["random", "grid"] = "random"
    """Points drawn by seed (Bergstra and Bengio, JMLR 13, 2012), or every combination of the listed values."""
    runs: int = Field(default=10, ge=1, le=1000)
    """The budget: most fine-tunings to do, the winner's last one not counted. A grid must fit into it."""
    over: tuple[KeySection, ...] = Field(min_length=1)
    """The keys, each with its values or range."""

    @model_validator(mode="after")
    def _keys_differ(self) -> Self:
        keys = [one.key for one in self.over]
        if len(set(keys)) < len(keys):
            raise ValueError("over: each key may stand there once")
        if self.method == "grid" and any(not one.values for one in self.over):
            raise ValueError("a grid is made of listed `values`; `low` and `high` are for `method: random`")
        size = math.prod(len(one.values) for one in self.over)
        if self.method == "grid" and size > self.runs:
            raise ValueError(f"runs: got {self.runs}, but the grid has {size} points; expected at least {size}")
        return self


def faults(search: SearchSection, section: Section) -> list[tuple[Path, str]]:
    """(path below the search, sentence) of every key and value that the section cannot have: each value is tried beside
    the first value of the other keys, of a range both ends."""
    found = [
        (("over", number, "key"), f"{one.key} cannot be searched over; expected another key of the section")
        for number, one in enumerate(search.over)
        if is_fixed(one.key)
    ]
    tree = json.loads(section.model_copy(update={"search": None}).model_dump_json())
    keys = {number: one.key for number, one in enumerate(search.over) if not is_fixed(one.key)}
    spots = {number: _spots(number, search.over[number]) for number in keys}
    said: dict[tuple[int, str], Path] = {}
    for number, own in spots.items():
        for spot in own:
            point = [(keys[other], spot if other == number else spots[other][0]) for other in keys]
            for path, text in _refused(json.loads(json.dumps(tree)), type(section), point, spot[0]):
                said.setdefault((int(path[1]), text), path)
    return found + [(path, text) for (_, text), path in said.items()]


def is_fixed(key: str) -> bool:
    """Whether no search may change it."""
    return key.split(".")[0] in FIXED and key not in SEARCHABLE_DATA


def _spots(number: int, one: KeySection) -> list[Spot]:
    """The values that are listed, or the ends of the range."""
    listed: list[Spot] = [(("over", number, "values", place), value) for place, value in enumerate(one.values)]
    return listed or [(("over", number, "low"), one.low), (("over", number, "high"), one.high)]


def _refused(
    tree: dict[str, Any], root: type[Section], point: Sequence[tuple[str, Spot]], varied: Path
) -> list[tuple[Path, str]]:
    """Where and why a point does not make a section; what is about no value alone stands at the one that `varied`."""
    places = {dotted(path): path for _, (path, _) in point}
    overrides = [Override(tuple(key.split(".")), value, dotted(path)) for key, (path, value) in point]
    try:
        build_recipe(tree, root, overrides, dotted(varied))
    except BertctlError as error:
        parted = (problem.partition(": ") for problem in error.problems)
        return [_at(places[label], text) for label, _, text in parted]
    return []


def _at(path: Path, text: str) -> tuple[Path, str]:
    """The problem where people look for it: a key that there is not, at the key; and what a range cannot give."""
    if "unknown key" in text:
        return (*path[:2], "key"), text
    if path[-1] in ("low", "high") and "a whole number" in text:
        return path, f"{text.partition(':')[0]}: a range gives fractions; expected whole numbers, listed in `values`"
    return path, text
