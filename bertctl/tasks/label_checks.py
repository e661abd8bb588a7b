"""Labels of one split that another split, or a model, does not know; also beside other problems of the same data."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bertctl.tasks.kinds import lines_of
from bertctl.tasks.task import Task

PLACE = re.compile(r"(.*?:\d+): ", re.DOTALL)


def sound(splits: Mapping[str, Sequence[Any]], problems: Sequence[str]) -> dict[str, list[Any]]:
    """The examples of each split of whose record nothing is among the problems."""
    places = {match[1] for problem in problems if (match := PLACE.match(problem))}
    return {name: [one for one in split if not places or one.place() not in places] for name, split in splits.items()}


def labels_in(task: Task, examples: Sequence[Any]) -> list[str]:
    """The labels of training examples in the order of their numbers, then those that only unsound ones have."""
    names = task.labels(examples) if task.classes else []
    given = (label for example in examples for label, _ in task.gold(example))
    return [name for name in dict.fromkeys([*names, *given]) if name]


def one_class(task: Task, train: Sequence[Any], source: str) -> list[str]:
    """A problem if there are not two labels to tell apart."""
    counts = Counter(label for example in train for label, _ in task.gold(example))
    if len(counts) > 1:
        return []
    what = ", ".join(f"{label!r}, {count} times" for label, count in counts.items()) or "no label at all"
    return [f"{source}: got only one class ({what}), expected at least two"]


def unknown_labels(task: Task, examples: Sequence[Any], known: Sequence[str], who: str) -> list[str]:
    """A problem for every label that is not among `known`, with the first place where it stands, how often, and the
    lines. A cell that could not be read is a problem already, and no label."""
    names = set(known)
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    places: dict[str, list[str]] = {}
    for example in examples:
        for label, place in task.gold(example):
            if label and label not in names:
                places.setdefault(label, []).append(place)
    return [
        f"{where[0]}: got the label {label!r}{lines_of(where)}, which {who} does not have; expected one of {listed}"
        for label, where in places.items()
    ]
