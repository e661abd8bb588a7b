"""Index records: where the segments of each training example lie in the token shards. No token is copied.

One file `examples-<phase>-<split>.safetensors` a (phase, split), with one array a column, all of the same length.
`start` and `stop` are token positions inside the shard; segment B is empty (`b_start == b_stop`) where there is
none. `label`: -1 none; next sentence 0 = B follows A, 1 = B is random (as Hugging Face counts); sentence order 0 =
in order, 1 = swapped.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertctl.artifacts.manifest import verify
from bertctl.artifacts.tensors import map_arrays, save_tensors
from bertctl.errors import BertctlError

KIND = "pairs"
ROWS_AT_ONCE = 1 << 18
COLUMNS: dict[str, str] = {
    "a_shard": "int32",
    "a_start": "int64",
    "a_stop": "int64",
    "b_shard": "int32",
    "b_start": "int64",
    "b_stop": "int64",
    "label": "int8",
}


def write_examples(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write the columns of one file; each is cast to its type in COLUMNS, which must lose nothing.

    Errors: ValueError for a missing or unknown column, lengths that differ, or values that do not fit;
    EnvironmentFault.
    """
    if columns.keys() != COLUMNS.keys():
        raise ValueError(f"got columns {sorted(columns)}, expected {sorted(COLUMNS)}")
    arrays = {name: np.asarray(columns[name]).astype(kind) for name, kind in COLUMNS.items()}
    changed = [name for name in COLUMNS if not np.array_equal(arrays[name], columns[name])]
    if changed:
        raise ValueError(f"values of {changed} do not fit their types")
    if problem := _problem(arrays):
        raise ValueError(problem)
    save_tensors(path, arrays, {"kind": KIND})


class Examples:
    """The examples of one file, memory-mapped, from a verified folder. `columns`: name -> array of `len(examples)`.

    Errors: BertctlError if the file's folder does not verify or the columns are not as written by `write_examples`.
    """

    def __init__(self, path: Path) -> None:
        if path.name not in verify(path.parent, kind=KIND).files:
            raise BertctlError(f"{path}: no such examples, expected one of {_names(path.parent)}")
        self.path = path
        self.columns = map_arrays(path)
        kinds = {name: str(array.dtype) for name, array in self.columns.items()}
        problem = f"got columns {kinds}, expected {COLUMNS}" if kinds != COLUMNS else _problem(self.columns)
        if problem:
            raise BertctlError(f"{path}: {problem}")

    def __len__(self) -> int:
        return len(self.columns["label"])

    def longest(self, *, special: Callable[[int], int]) -> int:
        """The largest of all `lengths`; 0 if there is no example."""
        return max((int(self.lengths(part, special=special).max()) for part in parts(len(self))), default=0)

    def lengths(
        self, ids: NDArray[np.int64] | slice = slice(None), *, special: Callable[[int], int]
    ) -> NDArray[np.int64]:
        """Tokens of the examples `ids` as the encoder sees them; `special`: segments -> special tokens around them."""
        a, b = (self.columns[f"{side}_stop"][ids] - self.columns[f"{side}_start"][ids] for side in ("a", "b"))
        return np.asarray(a + b + np.where(b > 0, special(2), special(1)))


def phases(folder: Path) -> list[str]:
    """The phases of a verified folder in the order in which they were asked for."""
    return [str(name) for name in verify(folder, kind=KIND).facts["phases"]]


def _names(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.glob("examples-*.safetensors"))) or "(none in this folder)"


def parts(count: int) -> Iterator[slice]:
    """The rows 0 .. count - 1 in parts: what is computed from whole columns would take several times their memory."""
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, count, ROWS_AT_ONCE))


def _problem(columns: Mapping[str, NDArray[Any]]) -> str | None:
    """What is wrong with the values, if anything: one check for the writer and the reader."""
    if any(array.ndim != 1 for array in columns.values()) or len({len(array) for array in columns.values()}) != 1:
        return f"got shapes {[array.shape for array in columns.values()]}, expected flat columns of one length"
    found = (
        _wrong_value({name: array[part] for name, array in columns.items()}, part.start)
        for part in parts(len(columns["label"]))
    )
    return next(filter(None, found), None)


def _wrong_value(columns: Mapping[str, NDArray[Any]], first: int) -> str | None:
    """The first wrong value of columns whose first row is number `first`."""
    for side in ("a", "b"):
        shard, start, stop = columns[f"{side}_shard"], columns[f"{side}_start"], columns[f"{side}_stop"]
        wrong = (shard < 0) | (start < 0) | ((stop <= start) if side == "a" else (stop < start))
        if wrong.any():
            row = int(np.argmax(wrong))
            return f"row {first + row}: segment {side} runs from {start[row]} to {stop[row]} in shard {shard[row]}"
    wrong = (columns["label"] < -1) | (columns["label"] > 1)
    row = int(np.argmax(wrong))
    return f"row {first + row}: got label {columns['label'][row]}, expected -1, 0 or 1" if wrong.any() else None
