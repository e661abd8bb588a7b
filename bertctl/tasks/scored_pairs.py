"""Pairs with a number, in the forms in which the STS benchmark goes round without names for its columns.

Three columns (sentence, sentence, score) as CSV or TSV; or the original files: genre, file, year, number, score,
sentence, sentence, parted by tabs without quoting though they are called .csv, and sometimes source and licence behind.
Its TSV in GLUE names its columns and is read like any other. Source: Cer et al., SemEval-2017 Task 1, 2017.
"""

import csv
from pathlib import Path

from bertctl.tasks.config import DataSection
from bertctl.tasks.tables import Table, format_of, lines_of, read_table, read_text
from bertctl.tasks.texts import has_header
from bertctl.tasks.values import is_number

COLUMNS = ["sentence1", "sentence2", "score"]
ORIGINAL_SCORE, ORIGINAL_WIDTH = 4, 7


def read_scored_table(path: Path, data: DataSection, problems: list[str]) -> Table:
    """A CSV, TSV, JSONL or Parquet file, or one of the forms of the STS benchmark."""
    kind = format_of(path, data.format, otherwise="tsv")
    table = read_scored_pairs(path, kind, data, problems)
    return read_table(path, kind, header=has_header(data), problems=problems) if table is None else table


def read_scored_pairs(path: Path, kind: str, data: DataSection, problems: list[str]) -> Table | None:
    """The pairs with the columns sentence1, sentence2 and score; None for a file that is none of these forms, or if the
    recipe says itself what the columns are."""
    if kind not in ("csv", "tsv") or data.header is not None or data.columns.all():
        return None
    lines = lines_of(read_text(path))
    tabs = lines[0].split("\t")
    if len(tabs) >= ORIGINAL_WIDTH and is_number(tabs[ORIGINAL_SCORE]):
        return _original(path, lines, problems)
    first = next(csv.reader(lines[:1]), []) if kind == "csv" else tabs
    if len(first) != len(COLUMNS) or not is_number(first[-1]):
        return None
    table = read_table(path, kind, header=False, problems=problems)
    rows = [(line, dict(zip(COLUMNS, cells.values(), strict=True))) for line, cells in table.rows]
    return Table(str(path), COLUMNS, rows)


def _original(path: Path, lines: list[str], problems: list[str]) -> Table:
    table = Table(str(path), COLUMNS, [])
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) >= ORIGINAL_WIDTH:
            score, first, second = cells[ORIGINAL_SCORE:ORIGINAL_WIDTH]
            table.rows.append((number, dict(zip(COLUMNS, (first, second, score), strict=True))))
        elif line:
            problems.append(f"{path}:{number}: got {len(cells)} columns, expected at least {ORIGINAL_WIDTH}")
    return table
