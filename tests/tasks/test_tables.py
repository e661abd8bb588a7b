"""Tables are read as they are: nothing is converted, merged or dropped, and what is wrong is named with its line."""

import csv
import io
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks.tables import Table, format_of, lines_of, read_table

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CELLS = st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=6)


def read(path: Path, content: str | bytes, *, header: bool = True) -> tuple[Table, list[str]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    problems: list[str] = []
    return read_table(path, format_of(path, "auto", otherwise="tsv"), header=header, problems=problems), problems


def values(table: Table) -> list[list[object]]:
    return [list(row.values()) for _, row in table.rows]


def test_a_quote_in_tsv_is_a_character(tmp_path: Path) -> None:
    table, problems = read(tmp_path / "t.tsv", 'label\ttext\n1\t"great film\n0\tdull "plot"\n1\tfine\n')
    assert problems == []
    assert values(table) == [["1", '"great film'], ["0", 'dull "plot"'], ["1", "fine"]]


def test_csv_quoting_and_the_line_where_a_record_begins(tmp_path: Path) -> None:
    table, problems = read(tmp_path / "t.csv", 'text,label\r\n"a ""b""\r\nc, d",x\r\n"e",y\r\n')
    assert problems == []
    assert table.rows == [
        (2, {"text": 'a "b"\r\nc, d', "label": "x"}),
        (4, {"text": "e", "label": "y"}),
    ]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_words_for_missing_values_are_text(tmp_path: Path, ending: str) -> None:
    words = ["None", "NA", "null", "nan", "n/a", "1", "1.0", "true"]
    table, problems = read(tmp_path / f"t.{ending}", "text\n" + "\n".join(words) + "\n")
    assert problems == []
    assert values(table) == [[word] for word in words]


@pytest.mark.parametrize("content", ["a\tb\n1\t2\n", "a\tb\r\n1\t2", "\ufeffa\tb\n1\t2\n\n"])
def test_line_ends_marks_and_blank_lines_make_no_difference(tmp_path: Path, content: str) -> None:
    table, problems = read(tmp_path / "t.tsv", content)
    assert problems == []
    assert table.rows == [(2, {"a": "1", "b": "2"})]


def test_no_character_but_lf_ends_a_line() -> None:
    odd = "a\u2028b\u2029c\u0085d\fe\rf"
    assert lines_of(f"{odd}\n{odd}\r\n") == [odd, odd]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.csv", "text,label\na,b\nc\n", "t.csv:3: got 1 columns, expected 2"),
        ("t.tsv", "text\tlabel\na\tb\nc\td\te\n", "t.tsv:3: got 3 columns, expected 2"),
        ("t.csv", "text,text\na,b\n", "t.csv:1: got the column 'text' more than once"),
        ("t.csv", 'text,label\na,b\n"c,d\n', "t.csv:3: got broken quoting"),
        ("t.csv", 'text,label\n"c"d,e\n', "t.csv:2: got broken quoting"),
        ("t.csv", "", "t.csv:1: got an empty file"),
        ("t.tsv", " \n\n", "t.tsv:1: got an empty file"),
        ("t.csv", "text,label\n", "t.csv:1: got a header and no rows"),
        ("t.jsonl", '{"a": 1}\n{"a": \n', "t.jsonl:2: got bad JSON"),
        ("t.jsonl", '[{"a": 1}]\n', "t.jsonl:1: got a JSON array"),
        ("t.jsonl", '{"a": NaN}\n', "t.jsonl:1: got bad JSON (NaN"),
        ("t.jsonl", '{"a": 1, "a": 2}\n', "t.jsonl:1: got bad JSON (the key 'a' twice)"),
        ("t.jsonl", '{"b": 1}\n{"a": 1 1}\n', "t.jsonl:2: got bad JSON (Expecting ',' delimiter, column 9)"),
        ("t.jsonl", '{"a": 1}\n"b"\n', "t.jsonl:2: got text, expected an object"),
        ("t.jsonl", '{"a": 1}\n' + "[" * 9999 + "\n", "t.jsonl:2: got bad JSON"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, name: str, content: str, problem: str) -> None:
    _, problems = read(tmp_path / name, content)
    assert len(problems) == 1
    assert problem in problems[0]


def test_all_problems_are_found_and_the_sound_rows_read(tmp_path: Path) -> None:
    table, problems = read(tmp_path / "t.tsv", "a\tb\n1\n2\t3\n4\n")
    assert [problem.split(": ")[0].rpartition(":")[2] for problem in problems] == ["2", "4"]
    assert values(table) == [["2", "3"]]


@pytest.mark.parametrize(
    ("content", "place", "hint"),
    [
        (b"a\tb\n1\tcaf\xe9\n", ":2: got byte 0xe9 (byte 9 of the file)", "-f LATIN1"),
        ("a\tb\n".encode("utf-16"), ":1: got byte 0xff", "-f UTF-16"),
    ],
)
def test_bytes_that_are_not_utf8_are_refused_with_their_place(
    tmp_path: Path, content: bytes, place: str, hint: str
) -> None:
    with pytest.raises(BertctlError) as caught:
        read(tmp_path / "t.tsv", content)
    assert place in caught.value.problems[0]
    assert hint in (caught.value.hint or "")


def test_columns_by_name_position_and_usual_name(tmp_path: Path) -> None:
    table, _ = read(tmp_path / "t.csv", "ID,Sentence,y\n1,a,b\n")
    assert table.column("y") == "y"
    assert table.column(2) == "Sentence"
    assert table.column(None, ["text", "sentence"]) == "Sentence"
    assert (table.column(4), table.column("z"), table.column(None, ["text"])) == (None, None, None)
    bare, _ = read(tmp_path / "u.tsv", "first\tx\nsecond\ty\n", header=False)
    assert bare.column(1) == "1"
    assert values(bare) == [["first", "x"], ["second", "y"]]


def test_parquet_keeps_class_names_of_datasets(tmp_path: Path) -> None:
    features = {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}, "text": {"dtype": "string", "_type": "Value"}}
    tags = {"feature": {"names": ["O", "B-X"], "_type": "ClassLabel"}, "_type": "List"}
    metadata = {"huggingface": json.dumps({"info": {"features": features | {"tags": tags}}})}
    data = pyarrow.table({"text": ["a", None], "label": [0, 1], "tags": [[0], [1]]}).replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(data, tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", "parquet", header=True, problems=[])
    assert table.class_names == {"label": ["no", "yes"], "tags": ["O", "B-X"]}
    assert table.rows[1] == (2, {"text": None, "label": 1, "tags": [1]})


@pytest.mark.parametrize("said", ["{", "[]", '{"info": null}', '{"info": {"features": [1]}}', "[" * 100_000])
def test_parquet_with_notes_that_are_not_those_of_datasets_is_read(tmp_path: Path, said: str) -> None:
    data = pyarrow.table({"text": ["a"], "label": [0]}).replace_schema_metadata({"huggingface": said})
    pyarrow.parquet.write_table(data, tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", "parquet", header=True, problems=[])
    assert (table.class_names, table.rows) == ({}, [(1, {"text": "a", "label": 0})])


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertctlError, match=r"t.parquet: cannot be read as Parquet"):
        read(tmp_path / "t.parquet", "text,label\n")


@FUZZ
@given(CELLS)
def test_every_text_survives_csv(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    rows = [tuple(cell.encode("utf-8", "replace").decode() for cell in row) for row in rows]
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    table, problems = read(tmp_path / "t.csv", buffer.getvalue())
    assert problems == []
    assert values(table) == [list(row) for row in rows]


@FUZZ
@given(CELLS)
def test_every_text_survives_jsonl(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    text = "".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in rows)
    table, problems = read(tmp_path / "t.jsonl", text)
    assert problems == []
    assert values(table) == [list(row) for row in rows]


@FUZZ
@given(st.lists(st.text(st.characters(exclude_characters="\t\n\r", codec="utf-8")), min_size=1, max_size=6))
def test_every_text_without_tab_survives_tsv(tmp_path: Path, cells: list[str]) -> None:
    table, problems = read(tmp_path / "t.tsv", "a\tb\n" + "".join(f"{cell}\tx\n" for cell in cells))
    assert problems == []
    assert values(table) == [[cell, "x"] for cell in cells]


@FUZZ
@given(
    st.sampled_from(["csv", "tsv", "jsonl", "parquet"]),
    st.binary(max_size=60) | st.text('ab,"\t\n\r{}[]:1é').map(str.encode),
)
def test_any_bytes_give_rows_or_problems(tmp_path: Path, ending: str, raw: bytes) -> None:
    try:
        table, problems = read(tmp_path / f"t.{ending}", raw)
    except BertctlError as error:
        table, problems = Table("", [], []), list(error.problems)
    assert table.rows or problems
    assert all(problem.startswith(str(tmp_path)) for problem in problems)


@pytest.mark.parametrize("name", ["t.conll", "t.conllu", "t.bio"])
def test_words_with_tags_are_no_table(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a\tO\n")
    problems: list[str] = []
    kind = format_of(tmp_path / name, "auto", otherwise="tsv")
    assert read_table(tmp_path / name, kind, header=True, problems=problems).rows == []
    assert problems == [
        f"{tmp_path / name}: got {kind}, which holds words with tags; expected csv, tsv, jsonl, parquet"
    ]
