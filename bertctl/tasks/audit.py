"""What is said of labelled data before training: leaks between splits, contradictions, what guessing would score."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from bertctl.errors import raise_problems
from bertctl.tasks.task import Features, Splits, Task

MOST_SHOWN = 5


def folded(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts with case and white space folded: the key under which two of them count as the same."""
    return tuple(" ".join(text.casefold().split()) for text in texts)


def audit(task: Task, splits: Splits) -> dict[str, Any]:
    """Everything below as one JSON-able dict, by split and pair of splits."""
    named = dict(splits.items())
    return {
        "splits": {name: summary(task, examples) for name, examples in named.items()},
        "leakage": {f"{a}-{b}": leakage(task, named[a], named[b]) for a, b in combinations(named, 2)},
        "contradictions": {name: contradictions(task, examples) for name, examples in named.items()},
        "majority_baseline": {
            name: found
            for name, examples in named.items()
            if name != "train" and splits.train and (found := majority_baseline(task, splits.train, examples))
        },
        "notes": list(splits.notes),
        **({"misfits": dict(splits.misfits)} if splits.misfits else {}),
    }


def summary(task: Task, examples: Sequence[Any]) -> dict[str, Any]:
    """Counts of examples, empty texts, repeats (folded) and labels."""
    keys = [folded(task.key(example)) for example in examples]
    counts = Counter(label for example in examples for label, _ in task.gold(example))
    return {
        "examples": len(examples),
        "empty_texts": sum(any(not part for part in key) for key in keys),
        "repeated_texts": len(keys) - len(set(keys)),
        **({"labels": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))} if task.classes else {}),
    }


def leakage(task: Task, first: Sequence[Any], second: Sequence[Any]) -> dict[str, Any]:
    """How many examples of `second` have their text in `first`: exactly, and after folding case and white space."""
    exact = {task.key(example) for example in first}
    loose = {folded(key) for key in exact}
    leaked = [example for example in second if folded(task.key(example)) in loose]
    return {
        "exact": sum(task.key(example) in exact for example in second),
        "folded": len(leaked),
        "places": [example.place() for example in leaked[:MOST_SHOWN]],
    }


def contradictions(task: Task, examples: Sequence[Any]) -> dict[str, Any]:
    """Texts that occur with different labels (folded): how many, and where some of them stand."""
    groups: dict[tuple[str, ...], dict[tuple[str, ...], str]] = defaultdict(dict)
    for example in examples:
        found = tuple(label for label, _ in task.gold(example))
        if found:
            groups[folded(task.key(example))].setdefault(found, example.place())
    several = [list(places.values()) for places in groups.values() if len(places) > 1]
    return {"texts": len(several), "places": several[:MOST_SHOWN]}


def majority_baseline(task: Task, train: Sequence[Any], examples: Sequence[Any]) -> dict[str, Any] | None:
    """The answer that train suggests, and every metric of somebody who always gives it (None: undefined); None if the
    task has no such answer. A small part of train may lack labels that the examples have."""
    labels = task.labels([*train, *examples])
    always = task.majority(train, examples, labels)
    if always is None:
        return None
    metrics = task.score(examples, always[1], labels)
    return {"label": always[0], **{name: metric.point() for name, metric in metrics.items()}}


def truncation(features: Sequence[Features]) -> dict[str, int]:
    """Examples, or the texts of grouped ones, that were cut, and word pieces kept of all: what does not fit the model
    is counted, never silent."""
    return {
        "truncated": sum(feature.cut > 0 for feature in features),
        "examples": len({(feature.example, feature.role) for feature in features}),
        "pieces": sum(feature.pieces for feature in features),
        "pieces_kept": sum(feature.pieces - feature.cut for feature in features),
    }


def windows_read(features: Sequence[Features]) -> dict[str, int]:
    """Texts that take several windows, and windows of all texts."""
    counts = Counter((feature.example, feature.role) for feature in features)
    return {"texts_in_windows": sum(count > 1 for count in counts.values()), "windows": len(features)}


def refuse_truncation(examples: Sequence[Any], features: Sequence[Features], max_length: int) -> None:
    """Raise BertctlError naming every text that is longer than the model (`long_text: refuse`)."""
    cut = [feature for feature in features if feature.cut]
    raise_problems(
        [
            f"{_place(examples[f.example], f.role)}: got {f.pieces} word pieces, expected at most {f.pieces - f.cut} "
            f"(max_length {max_length})"
            for f in cut
        ],
        hint="`long_text: cut` reads the beginning of such texts, `long_text: windows` all of a whole text",
    )


def _place(example: Any, role: int) -> str:
    """Where a text stands: an example knows it of each of its texts, if they are of several files."""
    where: str = example.place(role) if role else example.place()
    return where
