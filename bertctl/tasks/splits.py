"""Labelled data as a whole: which file is which split, what may not be between them, and what is held out or drawn."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertctl import console
from bertctl.errors import MOST_PROBLEMS_SHOWN, BertctlError
from bertctl.tasks import named
from bertctl.tasks.audit import folded
from bertctl.tasks.config import PYTHON_DOCS, DataSection
from bertctl.tasks.kinds import raise_by_kind
from bertctl.tasks.label_checks import labels_in, one_class, sound, unknown_labels
from bertctl.tasks.strata import stratified_order
from bertctl.tasks.tables import ENDINGS
from bertctl.tasks.task import WHOLE, Splits, Task
from bertctl.tasks.texts import other_than

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "devel", "development", "valid", "validation", "val", "trial", "testa"),
    "test": ("test", "testing", "testb"),
}
PART = re.compile(r"-\d+-of-\d+")  # train-00000-of-00002.parquet


def training_data(task: Task, data: DataSection, *, seed: int, holds_out: bool = True) -> Splits:
    """Data to train on: train and dev have examples, every label of dev and test is known from train. Without
    `holds_out` dev may be empty.

    Errors: BertctlError with all problems of all files, before anything else is done with them.
    """
    splits, notes, problems = _read(task, data, lone="train")
    if not splits["train"]:
        raise_by_kind(problems)
        raise BertctlError(f"{source(data)}: got no training data, expected a file named train", hint=_name_it("train"))
    problems += [problem for name in ("dev", "test") for problem in other_than(splits["train"], splits[name])]
    raise_by_kind(problems + label_problems(task, splits, problems, source(data)))
    misfits = {split: name_misfits(task, split, examples, notes) for split, examples in splits.items()}
    splits["train"] = without_misfits(task, splits["train"])
    names = task.labels(splits["train"])
    if holds_out and not splits["dev"]:
        splits["train"], splits["dev"] = hold_out(task, splits["train"], data.dev_share, seed)
        held = len(splits["dev"])
        notes.append(f"no dev data: held out {held} of {held + len(splits['train'])} training examples (seed {seed})")
    for split in splits:
        splits[split] = at_most(task, splits[split], getattr(data, f"{split}_examples"), seed)
    lost = sorted(set(names) - set(task.labels(splits["train"])))
    if lost:
        raise BertctlError(f"train_examples: {data.train_examples} leaves out the label {lost[0]!r}; expected more")
    for note in notes:
        console.note(note)
    return Splits(**splits, notes=tuple(notes), misfits={split: count for split, count in misfits.items() if count})


def label_problems(task: Task, splits: Mapping[str, Sequence[Any]], problems: Sequence[str], source: str) -> list[str]:
    """Labels of dev and test that train does not have; and if nothing else is wrong, that train has only one."""
    if not task.classes:
        return []
    known = labels_in(task, splits["train"])
    if not problems:
        problems = one_class(task, splits["train"], source)
        return problems + unknown_labels(task, [*splits["dev"], *splits["test"]], known, "train")
    return unknown_labels(task, [*splits["dev"], *splits["test"]], known, "train") if known else []


def test_data(task: Task, data: DataSection, *, labels: Sequence[str] | None, seed: int) -> tuple[str, list[Any]]:
    """(split, examples) to evaluate on: one file, or the test split, or dev if there is no test.

    `labels`: those the model knows, none for a task without classes; None if there is no model. Errors: BertctlError,
    also for a label that is not among them.
    """
    splits, notes, problems = _read(task, data, lone="test")
    split = next((name for name in ("test", "dev", *(["train"] if _is_file(data) else [])) if splits[name]), None)
    if split is None:
        raise_by_kind(problems)
        raise BertctlError(f"{source(data)}: got no test data, expected a file named test", hint=_name_it("test"))
    if task.classes and labels is not None:
        problems += unknown_labels(task, splits[split], labels, "the model")
    raise_by_kind(problems)
    if split == "dev" and not _is_file(data):
        notes.append(f"{source(data)}: no test data, so dev is scored")
    name_misfits(task, split, splits[split], notes)
    for note in notes:
        console.note(note)
    return split, at_most(task, splits[split], getattr(data, f"{split}_examples"), seed)


def name_misfits(task: Task, split: str, examples: Sequence[Any], notes: list[str]) -> int:
    """Name the examples whose gold answer is not where the data say, note how many they are, and return that."""
    found = [f"{example.place()}: {why}" for example in examples if (why := task.misfit(example)) is not None]
    for line in found[:MOST_PROBLEMS_SHOWN]:
        console.warn(line)
    if found:
        done = "left out" if split == "train" else "scored as they are"
        notes.append(f"{split}: {len(found)} of {len(examples)} examples have a gold answer that does not fit; {done}")
    return len(found)


def without_misfits(task: Task, train: list[Any]) -> list[Any]:
    """The training examples that can be learnt. Errors: BertctlError if none can."""
    found = [example for example in train if task.misfit(example) is None]
    if not found:
        why = task.misfit(train[0])
        raise BertctlError(
            f"{train[0].place()}: {why}; so do all {len(train)} training examples, expected some that fit"
        )
    return found


def source(data: DataSection) -> str:
    """What a message calls the data."""
    return str(data.path or data.name or data.train or data.dev or data.test or "data")


def _name_it(split: str) -> str:
    return f"name the file with `data.{split}`"


def _read(task: Task, data: DataSection, *, lone: str) -> tuple[dict[str, list[Any]], list[str], list[str]]:
    """All splits of the data, what was noted, and what is wrong; a single file is the split `lone`."""
    problems: list[str] = []
    notes: list[str] = []
    if not data.is_given():
        raise BertctlError("data: got nothing, expected `path`, `name` or files", hint="--data FILE, or a FOLDER")
    if data.name == PYTHON_DOCS:
        return _with_names(task.demo(data)), notes, problems
    if data.name is not None:
        splits = named.read(task, data, problems, notes)
    else:
        splits = _read_path(task, data, lone, problems)
    finished = task.finish(sound(splits, problems), data, problems)
    return (splits if problems else finished), notes, problems


def _read_path(task: Task, data: DataSection, lone: str, problems: list[str]) -> dict[str, list[Any]]:
    """The splits of a folder in a layout of the task's own, else of the files named for them."""
    own = task.read_folder(data.path, data, problems) if data.path is not None and data.path.is_dir() else None
    if own is not None:
        own = {lone: own[WHOLE]} if WHOLE in own else own
        return {split: own.get(split, []) for split in SPLIT_WORDS}
    if lone == "test" and _is_file(data):  # a file may say that it is something else
        lone = split_of(Path(str(data.path))) or lone
    files = find_files(data, lone, problems)
    return {split: _read_files(task, files.get(split, []), data, problems) for split in SPLIT_WORDS}


def _is_file(data: DataSection) -> bool:
    return data.path is not None and data.path.is_file()


def _with_names(splits: Splits) -> dict[str, list[Any]]:
    return {"train": splits.train, "dev": splits.dev, "test": splits.test}


def _read_files(task: Task, files: list[Path], data: DataSection, problems: list[str]) -> list[Any]:
    return [example for path in files for example in task.read_file(path, data, True, problems)]


def find_files(data: DataSection, lone: str, problems: list[str]) -> dict[str, list[Path]]:
    """The files of each split: those named one by one, and those found in `path`."""
    found: dict[str, list[Path]] = {}
    if data.path is not None and data.path.is_dir():
        found = _in_folder(data.path, [split for split in SPLIT_WORDS if getattr(data, split) is None], problems)
    elif data.path is not None:
        found = {lone: [data.path]}
    for split in SPLIT_WORDS:
        name = getattr(data, split)
        if name is not None:
            found[split] = [Path(name)]
    missing = [path for files in found.values() for path in files if not path.is_file()]
    problems.extend(f"{path}: no such file, expected labelled data" for path in missing)
    return {split: [path for path in files if path.is_file()] for split, files in found.items()}


def _in_folder(folder: Path, wanted: list[str], problems: list[str]) -> dict[str, list[Path]]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = {}
    for split in wanted:
        matches = _best([path for path in files if split_of(path) == split])
        if len(matches) > 1 and not all(PART.search(path.name) for path in matches):
            names = ", ".join(path.name for path in matches)
            problems.append(f"{folder}: got {names} for {split}, expected one file; {_name_it(split)}")
        found[split] = matches
    if wanted and not any(found.values()) and not problems:
        names = ", ".join(path.name for path in files[:5]) or "no files"
        problems.append(f"{folder}: got {names}, expected files named train, dev (valid, validation) and test")
    return found


def split_of(path: Path) -> str | None:
    """The split that a file name speaks of, if it is exactly one."""
    words = re.findall("[a-z]+", path.name.lower())
    named_splits = {split for split, spellings in SPLIT_WORDS.items() for word in spellings if word in words}
    return named_splits.pop() if len(named_splits) == 1 else None


def _best(files: list[Path]) -> list[Path]:
    """Those with the ending of a data format; if there is none, all."""
    known = [path for path in files if path.suffix.lower() in ENDINGS]
    return known or files


def hold_out(task: Task, train: list[Any], share: float, seed: int) -> tuple[list[Any], list[Any]]:
    """(train, dev): `share` of the examples by seed, stratified by label, each part in file order.

    An example whose text (case and white space folded) or label would then stand in one part only stays in train.
    Errors: BertctlError if nothing can be held out.
    """
    chosen = set(stratified_order(task, train, seed)[: max(1, round(len(train) * share))])
    rest = [example for place, example in enumerate(train) if place not in chosen]
    texts = {folded(task.key(example)) for example in rest}
    names = set(task.labels(rest))

    def may_leave(example: Any) -> bool:
        known = not task.classes or {label for label, _ in task.gold(example)} <= names
        return known and folded(task.key(example)) not in texts

    dev = {place for place in chosen if may_leave(train[place])}
    if not dev or not rest:
        raise BertctlError(f"got {len(train)} training examples, too few to hold out dev data; expected a dev file")
    return _parted(train, lambda place: place not in dev), _parted(train, lambda place: place in dev)


def at_most(task: Task, examples: list[Any], count: int | None, seed: int) -> list[Any]:
    """`count` of the examples by seed, stratified by label, in file order; all if there are no more."""
    if count is None or count >= len(examples):
        return examples
    chosen = set(stratified_order(task, examples, seed)[:count])
    return _parted(examples, lambda place: place in chosen)


def _parted(examples: list[Any], belongs: Callable[[int], bool]) -> list[Any]:
    return [example for place, example in enumerate(examples) if belongs(place)]
