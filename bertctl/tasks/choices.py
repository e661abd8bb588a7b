"""Questions with several choices, one of which is right: what an example is, and how a record becomes one.

Records have a context, a question or both, and a list of `choices`, as many as there are; or they have the columns of
SWAG (arXiv:1808.05326): sent1, sent2, ending0, ending1, ..., label.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl.errors import raise_problems
from bertctl.tasks.config import DataSection
from bertctl.tasks.tables import Table, format_of, json_kind, read_table
from bertctl.tasks.texts import find_column, has_header
from bertctl.tasks.values import IDS, id_in, text_of

CONTEXTS = ("context", "sent1", "passage", "article", "startphrase", "ctx")
QUESTIONS = ("question", "sent2", "query")
CHOICES = ("choices", "endings", "options", "answers")
LABELS = ("label", "answer", "labels", "gold_label")
NUMBERED = re.compile(r"(?:ending|choice|option|answer)_?\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context and a question, either of which may be empty, choices, and the number of the right one from 0; None
    where it is not known."""

    context: str
    question: str
    choices: tuple[str, ...]
    label: int | None
    where: str
    """`file:line` of the record."""
    id: str | None = None
    """What the data call it."""

    def place(self) -> str:
        """`file:line` of the record."""
        return self.where


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[ChoiceExample]:
    """The examples of a CSV, TSV, JSONL or Parquet file."""
    kind = format_of(path, data.format, otherwise="csv")
    return read_rows(read_table(path, kind, header=has_header(data), problems=problems), data, labelled, problems)


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[ChoiceExample]:
    """The examples of a table; problems if a column is missing, or a record has no two choices, or no label of one."""
    if not table.rows:
        return []
    asked = _asked_columns(table, data, problems)
    columns = _choice_columns(table, data, problems)
    label = find_column(table, "label", data.columns.label, LABELS, problems) if labelled else None
    if not any(asked) or not columns or (labelled and label is None):
        return []
    examples, name = [], table.column(None, IDS)
    for line, row in table.rows:
        place = table.place(line)
        texts = ["" if name is None else text_of(row.get(name), place, name, problems) for name in asked]
        choices = _choices(row, columns, place, problems)
        right = None if label is None else _label(row.get(label), choices, f"{place}: got", label, problems)
        examples.append(ChoiceExample(texts[0], texts[1], choices, right, place, id_in(row, name)))
    return examples


def _asked_columns(table: Table, data: DataSection, problems: list[str]) -> list[str | None]:
    """The columns of the context and of the question; one of them may be absent."""
    found = []
    wanted = data.columns
    for what, column, usual in (("text", wanted.text, CONTEXTS), ("text_pair", wanted.text_pair, QUESTIONS)):
        found.append(table.column(None, usual) if column is None else find_column(table, what, column, (), problems))
    if not any(found) and not problems:
        find_column(table, "text", None, (*CONTEXTS, *QUESTIONS), problems)
    return found


def _choice_columns(table: Table, data: DataSection, problems: list[str]) -> list[str]:
    """The column with lists of choices, or one column a choice, in the order of their numbers."""
    if data.columns.choices:
        named = [find_column(table, "choices", column, (), problems) for column in data.columns.choices]
        return [name for name in named if name is not None]
    numbered = [name for name in table.columns if NUMBERED.fullmatch(name)]
    if len(numbered) > 1:
        return sorted(numbered, key=lambda name: int(re.sub(r"\D", "", name)))
    found = find_column(table, "choices", None, CHOICES, problems)
    return [] if found is None else [found]


def _choices(row: Mapping[str, Any], columns: Sequence[str], place: str, problems: list[str]) -> tuple[str, ...]:
    """The choices of a record: the texts of a list, or the cells of several columns (absent ones are no choices)."""
    cells = row.get(columns[0]) if len(columns) == 1 else [row[name] for name in columns if row.get(name) is not None]
    if not isinstance(cells, list) or len(cells) < 2:
        got = f"{len(cells)} choices" if isinstance(cells, list) else f"{json_kind(cells)} in the column {columns[0]!r}"
        problems.append(f"{place}: got {got}, expected at least 2 texts to choose from")
        return ()
    return tuple(text_of(cell, place, columns[0], problems) for cell in cells)


def _label(value: Any, choices: Sequence[str], got: str, column: str, problems: list[str]) -> int | None:
    """The number of the right choice: written as one from 0, or as the text of the choice."""
    number = value
    if isinstance(value, str):
        said = value.strip()
        number = int(said) if said.isascii() and said.isdecimal() else None
        number = choices.index(value) if number is None and choices.count(value) == 1 else number
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(choices):
        return number
    if choices:  # else they are the problem
        shown = repr(value) if isinstance(value, (str, int, float)) else json_kind(value)
        expected = f"a number from 0 to {len(choices) - 1}, or the text of one choice"
        problems.append(f"{got} {shown} in the column {column!r}, expected {expected}")
    return None


def finish(
    splits: Mapping[str, list[ChoiceExample]], data: DataSection, problems: list[str]
) -> dict[str, list[ChoiceExample]]:
    """Nothing is left to find out."""
    return dict(splits)


def input_example(record: str | Mapping[str, Any], data: DataSection, where: str) -> ChoiceExample:
    """An object with a context or question and choices as an example without label. Errors: BertctlError otherwise."""
    problems: list[str] = []
    if isinstance(record, str):
        problems.append(f'{where}: got text, expected objects like {{"context", "choices": [...]}}')
        found = []
    else:
        found = read_rows(Table.of_record(where, record), data, False, problems)
    raise_problems(problems)
    return found[0]


def gold(example: ChoiceExample) -> list[tuple[str, str]]:
    """(number of the right choice, place), if it is known."""
    return [] if example.label is None else [(str(example.label), example.where)]


def truth(example: ChoiceExample) -> int | None:
    """The number of the right choice."""
    return example.label


def key(example: ChoiceExample) -> tuple[str, ...]:
    """All its texts."""
    return tuple(text for text in (example.context, example.question, *example.choices) if text) or ("",)
