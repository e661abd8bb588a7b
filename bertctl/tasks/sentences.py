"""Sentences with a tag a word, from whatever holds them: CoNLL columns, CoNLL-U, records with lists."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertctl.errors import raise_problems
from bertctl.tasks.config import DataSection
from bertctl.tasks.conll import looks_like_conllu, read_conll, read_conllu
from bertctl.tasks.tables import TABLE_FORMATS, Table, format_of, json_kind, read_table
from bertctl.tasks.task import TokenExample
from bertctl.tasks.texts import find_column
from bertctl.tasks.values import IDS, LabelReader, clean_text, id_in

TOKENS = ("tokens", "words")


@dataclass(frozen=True)
class Kind:
    """Tags of one task: the usual names of their column, and whether they stand last in a line of several columns."""

    usual: tuple[str, ...]
    last: bool


ENTITIES = Kind(("ner_tags", "tags", "ner", "labels", "entities"), last=True)
PARTS_OF_SPEECH = Kind(("upos", "pos_tags", "pos", "tags", "labels", "xpos"), last=False)


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str], *, tags: Kind) -> list[TokenExample]:
    """The sentences of a CoNLL, CoNLL-U, JSONL or Parquet file."""
    kind = format_of(path, data.format, otherwise="conll")
    if kind in ("csv", "tsv"):  # a table of words and tags is what others call CoNLL
        kind = "conll"
    if kind in TABLE_FORMATS:
        return read_rows(read_table(path, kind, header=True, problems=problems), data, labelled, problems, tags=tags)
    if kind == "conllu" or (data.format == "auto" and looks_like_conllu(path)):
        return read_conllu(path, data, labelled, problems)
    return read_conll(path, data, labelled, problems, last_is_meant=tags.last)


def read_rows(
    table: Table, data: DataSection, labelled: bool, problems: list[str], *, tags: Kind
) -> list[TokenExample]:
    """The sentences of records with a list of words and a list of tags."""
    if not table.rows:
        return []
    if table.numbered and not _holds_lists(table):
        have = ", ".join(map(repr, table.columns))
        problems.append(
            f"{table.place(table.rows[0][0])}: got the columns {have} and no list in any of them, expected a list of "
            "words and a list of tags, one a word"
        )
        return []
    tokens = find_column(table, "tokens", data.columns.tokens, TOKENS, problems)
    column = find_column(table, "tags", data.columns.tags, tags.usual, problems) if labelled else None
    if tokens is None or (labelled and column is None):
        return []
    reader = LabelReader(data.label_names or table.class_names.get(column or "", []), problems)
    examples, name = [], table.column(None, IDS)
    for line, row in table.rows:
        place = table.place(line)
        words = _words(row.get(tokens), place, tokens, problems)
        names = None if column is None else _tags(row.get(column), len(words), place, column, reader)
        examples.append(TokenExample(words, names, table.where, (line,) * len(words), id=id_in(row, name)))
    return examples


def _holds_lists(table: Table) -> bool:
    """Whether some column holds lists, so that to name it can help."""
    return any(isinstance(value, list) for _, row in table.rows for value in row.values())


def _words(value: Any, place: str, column: str, problems: list[str]) -> tuple[str, ...]:
    if not isinstance(value, list):
        problems.append(f"{place}: got {json_kind(value)} in the column {column!r}, expected a list of words")
        return ()
    wrong = [word for word in value if not isinstance(word, str) or not word.strip()]
    if wrong:
        got = "an empty word" if isinstance(wrong[0], str) else json_kind(wrong[0])
        problems.append(f"{place}: got {got} in the column {column!r}, expected a list of words")
        return ()
    return tuple(map(clean_text, value))


def _tags(value: Any, words: int, place: str, column: str, reader: LabelReader) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) != words:
        got = f"{len(value)} tags" if isinstance(value, list) else json_kind(value)
        if words:  # else the words are the problem
            reader.problems.append(f"{place}: got {got} in the column {column!r}, expected {words}, one a word")
        return ("O",) * words
    return tuple(reader.name(tag, place, column) for tag in value)


def input_example(record: str | Mapping[str, Any], data: DataSection, where: str) -> TokenExample:
    """A line of words parted by white space, or an object with `tokens` (or `text`), as an example without tags."""
    if isinstance(record, str):
        return TokenExample(tuple(clean_text(record).split()), None, where, ())
    problems: list[str] = []
    if isinstance(record.get("text"), str) and not any(name in record for name in TOKENS):
        return input_example(record["text"], data, where)
    found = read_rows(Table.of_record(where, record), data, False, problems, tags=ENTITIES)
    raise_problems(problems)
    return replace(found[0], file=where, lines=())
