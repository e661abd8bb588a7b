"""Lines, documents and records: what is a border, what is not, and what is refused with its place."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.text import corpus_files
from bertctl.text.corpus_files import Reading, open_decompressed, read


def texts(data, kind="text", document="blank_line", errors="strict", columns=("text",)):
    file = io.BytesIO(data if isinstance(data, bytes) else data.encode())
    return [document.text for document in read(file, "c.txt", kind, Reading(columns, document, errors))]


def problems(*arguments, **options):
    with pytest.raises(BertctlError) as caught:
        texts(*arguments, **options)
    assert caught.value.exit_code == 2
    return list(caught.value.problems)


def test_only_lf_ends_a_line():
    """huggingface/datasets#3729: str.splitlines finds 7 lines here."""
    data = "alpha one\u2029still one\nbeta two\fstill two\ngamma\u0085three\u2028three\n"
    assert texts(data, document="line") == data.split("\n")[:3]
    assert texts("a\rb\vc\x1cd\x1de\x1ef\n", document="line") == ["a\rb\vc\x1cd\x1de\x1ef"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_of_both_kinds_and_a_missing_last_one_read_the_same(end, last):
    data = end.join(["one", "two", "", " \t ", "three"]) + (end if last else "")
    assert texts(data) == ["one\ntwo", "three"]
    assert texts(data, document="line") == ["one", "two", "three"]
    assert texts(data, document="file") == ["one\ntwo\nthree"]


@given(st.lists(st.text("ab \u0085\u2028\r", max_size=5), max_size=12))
def test_documents_are_runs_of_lines_that_are_not_blank(lines):
    expected, run = [], []
    for line in [*lines, ""]:
        line = line.removesuffix("\r")
        if line.strip():
            run.append(line)
        elif run:
            expected.append("\n".join(run))
            run = []
    assert texts("\n".join(lines)) == expected


def test_places_name_the_first_line():
    documents = read(io.BytesIO(b"\n\na\nb\n\nc"), "c.txt", "text", Reading(("text",), "blank_line", "strict"))
    assert [document.where for document in documents] == ["c.txt:3", "c.txt:6"]


def test_a_byte_order_mark_is_no_text():
    assert texts(b"\xef\xbb\xbfone\n") == ["one"]


@pytest.mark.parametrize(
    ("data", "place", "hint"),
    [
        (b"good\nbad \xff here\n", "c.txt:2: got byte 0xff at offset 9", "errors: replace"),
        (b"\xef\xbb\xbfab\xe9", "c.txt:1: got byte 0xe9 at offset 5", "errors: replace"),
        ("wide".encode("utf-16"), "c.txt:1: got byte 0xff at offset 0", "UTF-16"),
        (gzip.compress(b"text", mtime=0), "c.txt:1: got byte 0x8b at offset 1", "must end in .gz"),
    ],
    # Names that are the same in every process: gzip puts the time of day into its header.
    ids=["in the second line", "after a byte order mark", "UTF-16", "gzip"],
)
def test_bytes_that_are_no_utf8_are_refused_with_their_place(data, place, hint):
    with pytest.raises(BertctlError) as caught:
        texts(data)
    assert caught.value.problems[0].startswith(place)
    assert hint in caught.value.hint


def test_bytes_that_are_no_utf8_can_be_replaced():
    assert texts(b"bad \xff here\n", errors="replace") == ["bad \ufffd here"]


def test_long_lines_come_in_parts_and_lose_nothing(monkeypatch):
    monkeypatch.setattr(corpus_files, "LONGEST_DOCUMENT", 64)
    line = " ".join(f"word{i}" for i in range(100))
    parts = texts(line + "\nnext")
    assert all(len(part) <= 2 * 80 for part in parts)
    assert " ".join(parts).split() == [*line.split(), "next"]
    without_blank = "中é" * 100  # cut between characters, never inside one
    assert "".join(texts(without_blank)).replace("\n", "") == without_blank


def test_a_long_document_is_cut_between_lines(monkeypatch):
    monkeypatch.setattr(corpus_files, "LONGEST_DOCUMENT", 50)
    lines = [f"line {i} of a document without an end" for i in range(20)]
    parts = texts("\n".join(lines))
    assert len(parts) == 10
    assert "\n".join(parts).split("\n") == lines


def test_jsonl_records_are_documents():
    """dotnet/machinelearning#7724: 6 records in, 6 out, escapes and all."""
    values = ["one\nline", "note\tbook", "a\rb", "x\u00a0y", "a\u0000b", "a\u0085b"]
    data = "".join(json.dumps({"text": value}, ensure_ascii=value != "x\u00a0y") + "\n" for value in values)
    assert texts(data, "jsonl") == values
    assert texts('{"title": "t", "text": "b"}\n\n', "jsonl", columns=("title", "text")) == ["t\nb"]


def test_all_problems_of_a_jsonl_file_come_at_once():
    lines = [
        '{"text": "good"}',
        "{bad",
        "[1]",
        '{"other": 1}',
        '{"text": null}',
        '{"text": {"a": 1}}',
        '{"text": "\\ud800"}',
    ]
    found = problems("\n".join(lines), "jsonl")
    assert [problem.split(": ")[0] for problem in found] == [f"c.txt:{n}" for n in range(2, 8)]
    assert "expected it among other" in found[2]
    assert len(problems("{\n" * 50, "jsonl")) == 20


def test_half_a_surrogate_pair_can_be_replaced():
    assert texts('{"text": "a\\ud800b \\ud83d\\ude00"}', "jsonl", errors="replace") == ["a\ufffdb \U0001f600"]


def parquet(values, column="text"):
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({column: values}), buffer)
    return buffer.getvalue()


def test_parquet_rows_are_documents():
    values = [f"row {i}" for i in range(3000)]
    assert texts(parquet(values), "parquet") == values


def test_parquet_problems_name_column_and_row():
    assert "no column 'text', expected it among body" in problems(parquet(["a"], "body"), "parquet")[0]
    assert "row 1: 'text' is NoneType" in problems(parquet(["a", None]), "parquet")[0]
    assert "cannot be read as Parquet" in problems(b"PAR1 not really", "parquet")[0]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_compressed_files_read_the_same_and_damage_is_refused(tmp_path, ending):
    data = b"one\ntwo\n\nthree\n" * 500
    packed = gzip.compress(data) if ending == ".gz" else pa.compress(data, "zstd", asbytes=True)
    path = tmp_path / f"c.txt{ending}"

    def documents():
        with open_decompressed(path) as file:
            return [d.text for d in read(file, str(path), "text", Reading(("text",), "blank_line", "strict"))]

    path.write_bytes(packed + packed)  # two frames, as parallel compressors write
    assert documents() == texts(data + data)
    for damaged in (packed[:-9], b"not compressed at all"):
        path.write_bytes(damaged)
        with pytest.raises(BertctlError, match="cannot be read"):
            documents()


def test_endings_name_formats(tmp_path):
    names = {"a.jsonl": "jsonl", "a.NDJSON.gz": "jsonl", "a.parquet": "parquet", "a.txt": "text", "a.raw.zst": "text"}
    assert {name: corpus_files.format_of(tmp_path / name) for name in names} == names
