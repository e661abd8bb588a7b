"""Records with named columns: CSV (RFC 4180), TSV (no quoting: a quote is a character), JSONL, Parquet.

Nothing is converted: "None", "NA", "null" and "nan" in CSV and TSV are text, and so are numbers. A line ends at LF or
CR LF only. What is wrong is appended to `problems` as `file:line: got ..., expected ...`, never repaired.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertctl import signals
from bertctl.errors import BertctlError, json_fault
from bertctl.tasks.config import Column

TABLE_FORMATS = ("csv", "tsv", "jsonl", "parquet")
ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".conllu": "conllu",
    ".conllx": "conllu",
}


@dataclass
class Table:
    """Rows of one source: (line number, cells by column name). `class_names` name integer labels, by column; not
    `numbered`: one record alone, which stands at `where`."""

    where: str
    columns: list[str]
    rows: list[tuple[int, dict[str, Any]]]
    class_names: dict[str, list[str]] = field(default_factory=dict)
    numbered: bool = True

    @classmethod
    def of_record(cls, where: str, record: Mapping[str, Any]) -> "Table":
        """A table of one record that did not come in a file of labelled data."""
        return cls(where, list(record), [(1, dict(record))], numbered=False)

    def place(self, line: int) -> str:
        """`file:line`."""
        return f"{self.where}:{line}" if self.numbered else self.where

    def column(self, wanted: Column | None, usual: Sequence[str] = ()) -> str | None:
        """The name of a column given by name or position, or else the first of the usual names that is there."""
        if isinstance(wanted, int):
            return self.columns[wanted - 1] if wanted <= len(self.columns) else None
        if wanted is not None:
            return wanted if wanted in self.columns else None
        folded = {name.casefold(): name for name in reversed(self.columns)}
        return next((folded[name.casefold()] for name in usual if name.casefold() in folded), None)


def read_table(path: Path, kind: str, *, header: bool, problems: list[str]) -> Table:
    """All records of a file. Errors: BertctlError if it cannot be opened or decoded; the rest goes to `problems`."""
    if kind not in TABLE_FORMATS:
        problems.append(f"{path}: got {kind}, which holds words with tags; expected {', '.join(TABLE_FORMATS)}")
        return Table(str(path), [], [])
    if kind == "parquet":
        return _read_parquet(path, problems)
    text = read_text(path)
    if not text.strip():
        problems.append(f"{path}:1: got an empty file, expected records")
        return Table(str(path), [], [])
    if kind == "jsonl":
        return _table_of_objects(path, _json_objects(path, text, problems))
    rows = _csv_rows(path, text, problems) if kind == "csv" else _tsv_rows(text)
    return _table_of_cells(path, rows, header, problems)


def read_text(path: Path) -> str:
    """A file as text, without a byte order mark. Errors: BertctlError naming the line of the first byte not UTF-8."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BertctlError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        guess = "UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
        found = f"byte 0x{raw[error.start]:02x} (byte {error.start} of the file)"
        raise BertctlError(
            f"{path}:{line}: got {found}, expected UTF-8", hint=f"iconv -f {guess} -t UTF-8 {path} > utf8{path.suffix}"
        ) from None


def lines_of(text: str) -> list[str]:
    """Lines without their ends; a missing final line end makes no difference. No character but LF ends a line."""
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def _tsv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines_of(text), 1):
        yield number, line.split("\t")


def _csv_rows(path: Path, text: str, problems: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line on which each begins; a row that breaks the quoting ends the reading."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    lines = text.removesuffix("\n").split("\n")
    reader = csv.reader((line + "\n" for line in lines), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            yield start, next(reader) or [""]
        except StopIteration:
            return
        except csv.Error as error:
            problems.append(f"{path}:{start}: got broken quoting ({error}), expected CSV as in RFC 4180")
            return


def _table_of_cells(path: Path, rows: Iterator[tuple[int, list[str]]], header: bool, problems: list[str]) -> Table:
    first = next(rows, None)
    if first is None:  # the first row has broken quoting
        return Table(str(path), [], [])
    names = first[1] if header else [str(position) for position in range(1, len(first[1]) + 1)]
    problems.extend(_header_problems(path, names))
    table = Table(str(path), names, [] if header else [(first[0], dict(zip(names, first[1], strict=True)))])
    for line, cells in rows:
        signals.check("reading labelled data")
        if len(cells) == len(names):
            table.rows.append((line, dict(zip(names, cells, strict=True))))
        elif cells != [""]:  # a blank line holds no row
            problems.append(f"{path}:{line}: got {len(cells)} columns, expected {len(names)} as in line {first[0]}")
    if header and not table.rows and not problems:
        problems.append(f"{path}:1: got a header and no rows, expected records")
    return table


def _header_problems(path: Path, names: list[str]) -> list[str]:
    repeated = sorted({name for name in names if names.count(name) > 1})
    return [f"{path}:1: got the column {name!r} more than once, expected distinct names" for name in repeated]


def _json_objects(path: Path, text: str, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines_of(text), 1):
        signals.check("reading labelled data")
        if not line.strip():
            continue
        if number == 1 and line.lstrip().startswith("["):
            problems.append(
                f"{path}:1: got a JSON array, expected one object a line (jq -c '.[]' makes one of the other)"
            )
            return
        try:
            value = parse_json(line)
        except (ValueError, RecursionError) as error:
            problems.append(f"{path}:{number}: got bad JSON ({json_fault(error)}), expected one object a line")
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            problems.append(f"{path}:{number}: got {json_kind(value)}, expected an object")


def parse_json(text: str) -> Any:
    """A JSON value. Errors: ValueError, also for a key that comes twice, and NaN and Infinity, which are no JSON."""
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, which is no JSON value")


def json_kind(value: Any) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)


def _table_of_objects(path: Path, objects: Iterator[tuple[int, dict[str, Any]]]) -> Table:
    rows = list(objects)
    return Table(str(path), list(dict.fromkeys(key for _, row in rows for key in row)), rows)


def _read_parquet(path: Path, problems: list[str]) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        data = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise BertctlError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    if not data.num_rows:
        problems.append(f"{path}: got a table without rows, expected records")
    names = _class_names(data.schema.metadata or {})
    return Table(str(path), data.column_names, list(enumerate(data.to_pylist(), 1)), names)


def _class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """Label names that `datasets` keeps in a Parquet file; none if it is not `datasets` that wrote there."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        inner = {name: item.get("feature", item) for name, item in features.items() if isinstance(item, dict)}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return {name: item["names"] for name, item in inner.items() if isinstance(item, dict) and "names" in item}


def format_of(path: Path, wanted: str, *, otherwise: str) -> str:
    """The format that the recipe names, or that the ending stands for, or that the task takes for other endings."""
    return wanted if wanted != "auto" else ENDINGS.get(path.suffix.lower(), otherwise)
