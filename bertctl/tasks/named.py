"""Data sets by name: of the Hugging Face hub, or a folder that `datasets` wrote or can read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertctl.errors import BertctlError
from bertctl.tasks.config import DataSection
from bertctl.tasks.tables import Table
from bertctl.tasks.task import Task

USUAL_SPLITS = {"train": ("train",), "dev": ("validation", "dev", "valid"), "test": ("test",)}
HIDDEN = -1  # how `datasets` writes a label that is not given away, as in the test splits of GLUE


def read(task: Task, data: DataSection, problems: list[str], notes: list[str]) -> dict[str, list[Any]]:
    """The examples of every split. Errors: BertctlError if there is no such data set or split."""
    loaded = _load(data)
    found: dict[str, list[Any]] = {}
    for split, usual in USUAL_SPLITS.items():
        name = _split_name(getattr(data, split), usual, list(loaded), data)
        table = as_table(f"{data.name}:{name}", loaded[name]) if name is not None else None
        if table is not None and _is_hidden(table):
            notes.append(f"{table.where}: every label is hidden (-1), so this split is left out")
            table = None
        found[split] = [] if table is None else task.read_table(table, data, True, problems)
    return found


def as_table(where: str, rows: Any) -> Table:
    """A split of `datasets` as a table; integer classes keep their names."""
    rows = undecoded(rows)
    names = {column: _names(feature) for column, feature in rows.features.items()}
    known = {column: found for column, found in names.items() if found}
    return Table(where, list(rows.column_names), list(enumerate(rows, 1)), known)


def undecoded(rows: Any) -> Any:
    """The same with images as the bytes or files that they are stored as."""
    import datasets

    for column, feature in rows.features.items():
        if isinstance(feature, datasets.Image):
            rows = rows.cast_column(column, datasets.Image(decode=False))
    return rows


def _names(feature: Any) -> list[str]:
    return list(getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None) or [])


def _is_hidden(table: Table) -> bool:
    """Whether the column `label`, or one of named classes, holds nothing but the mark for hidden labels."""
    columns = {"label", *table.class_names}
    return any(all(row.get(column) == HIDDEN for _, row in table.rows) for column in columns if table.rows)


def _split_name(wanted: str | None, usual: Sequence[str], have: list[str], data: DataSection) -> str | None:
    if wanted is None:
        return next((name for name in usual if name in have), None)
    if wanted not in have:
        raise BertctlError(f"{data.name}: got no split {wanted!r}, expected one of {', '.join(have)}")
    return wanted


def _load(data: DataSection) -> Any:
    import datasets

    name = str(data.name)
    try:
        if Path(name, "dataset_dict.json").is_file():
            return datasets.load_from_disk(name)
        if Path(name, "state.json").is_file():
            return {"train": datasets.load_from_disk(name)}
        return datasets.load_dataset(name, data.subset)
    except Exception as error:  # the library raises many kinds for a name or network that is not there
        what = str(error).splitlines()[0] if str(error) else "no reason given"
        raise BertctlError(
            f"data set {name}: cannot be opened: {type(error).__name__}: {what}",
            hint="give local files with `data.path`, or check `name` and `subset`; a hub name needs a network",
        ) from error
