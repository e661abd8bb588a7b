"""What is inside one corpus file: plain text, JSONL or Parquet, also compressed, read as a stream.

A line ends at LF only; a CR before it is dropped. Every other character that some tools take for a line end (CR alone,
FF, U+0085, U+2028, U+2029) is white space inside a line. Nothing here holds more than one document or record.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from bertctl.errors import MOST_PROBLEMS_SHOWN, BertctlError, json_fault, raise_problems
from bertctl.text.config import Boundary, Errors, Format

# Bytes of plain text; a longer document is cut at a line end or blank, so that memory has a bound. War and Peace: 3 MB.
LONGEST_DOCUMENT = 1 << 22
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SIGNATURES = {
    b"\x1f\x8b": "gzip data; a compressed file must end in .gz",
    b"\x28\xb5\x2f\xfd": "Zstandard data; a compressed file must end in .zst",
    b"\xff\xfe": "UTF-16; convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16; convert it: iconv -f UTF-16 -t UTF-8",
    b"PAR1": "Parquet; such a file must end in .parquet, or set `format: parquet`",
}


@dataclass(frozen=True, slots=True)
class Document:
    """A text and where it came from, as `file:line`."""

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Reading:
    """How records and bytes become text; see `CorpusSection`."""

    columns: tuple[str, ...]
    document: Boundary
    errors: Errors


def without_compression(path: Path) -> str:
    """The file's name in lower case without a final .gz or .zst."""
    name = path.name.lower()
    return name.removesuffix(".gz").removesuffix(".zst")


def format_of(path: Path) -> Format:
    """The format that a file's ending stands for; plain text unless it is a known other one."""
    name = without_compression(path)
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) else "parquet" if name.endswith(".parquet") else "text"


def open_decompressed(path: Path) -> BinaryIO:
    """The bytes of a file, decompressed by its ending."""
    try:
        if path.suffix.lower() == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.suffix.lower() == ".zst":
            import pyarrow

            return cast(BinaryIO, io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd")))
        return path.open("rb")
    except OSError as error:
        raise BertctlError(f"{path}: cannot be read: {error.strerror or error}") from error


def read(file: BinaryIO, where: str, kind: Format, reading: Reading) -> Iterator[Document]:
    """The documents of an open file. Errors: BertctlError for what cannot be decompressed, decoded or parsed."""
    readers = {"auto": _read_text, "text": _read_text, "jsonl": _read_jsonl, "parquet": _read_parquet}
    try:
        yield from readers[kind](file, where, reading)
    except (OSError, EOFError, zlib.error) as error:  # damaged or cut compressed data among others
        raise BertctlError(f"{where}: cannot be read: {error}") from error


def _read_text(file: BinaryIO, where: str, reading: Reading) -> Iterator[Document]:
    lines: list[str] = []
    size, first = 0, 1
    for number, line in _lines(file, where, reading.errors, LONGEST_DOCUMENT):
        ends = reading.document == "line" or (reading.document == "blank_line" and not line.strip())
        if line.strip():
            first = first if lines else number
            lines.append(line)
            size += len(line)
        if lines and (ends or size >= LONGEST_DOCUMENT):
            yield Document("\n".join(lines), f"{where}:{first}")
            lines, size = [], 0
    if lines:
        yield Document("\n".join(lines), f"{where}:{first}")


def _read_jsonl(file: BinaryIO, where: str, reading: Reading) -> Iterator[Document]:
    problems: list[str] = []
    for number, line in _lines(file, where, reading.errors, None):
        if not line.strip():
            continue
        record = _parse(line, f"{where}:{number}", problems)
        text = record_text(record, f"{where}:{number}", reading, problems) if record is not None else ""
        if not problems:
            yield Document(text, f"{where}:{number}")
        elif len(problems) >= MOST_PROBLEMS_SHOWN:
            break
    raise_problems(problems)


def _parse(line: str, where: str, problems: list[str]) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        problems.append(f"{where}: got a line that is not JSON ({json_fault(error)}), expected an object")
        return None
    if not isinstance(value, dict):
        problems.append(f"{where}: got a JSON {type(value).__name__}, expected an object")
        return None
    return value


def record_text(record: Mapping[str, Any], where: str, reading: Reading, problems: list[str]) -> str:
    """The text of a record; what is wrong with it is appended to `problems`."""
    parts = []
    for column in reading.columns:
        value = record.get(column)
        if column not in record:
            problems.append(
                f"{where}: got no '{column}', expected it among {', '.join(map(str, record)) or 'no fields'}"
            )
        elif not isinstance(value, str):
            problems.append(f"{where}: '{column}' is {type(value).__name__}, expected text")
        else:
            parts.append(whole_characters(value, where, reading.errors, problems))
    return "\n".join(parts)


def whole_characters(text: str, where: str, errors: Errors, problems: list[str]) -> str:
    """JSON can hold half a UTF-16 pair, which is no character and has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if errors == "replace":
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        problems.append(f"{where}: got half a surrogate pair at character {error.start}, expected Unicode text")
    return text


def _read_parquet(file: BinaryIO, where: str, reading: Reading) -> Iterator[Document]:
    import pyarrow
    import pyarrow.parquet

    source = file if file.seekable() else io.BytesIO(file.read())  # the index of a Parquet file stands at its end
    try:
        table = pyarrow.parquet.ParquetFile(source)
        missing = [column for column in reading.columns if column not in table.schema_arrow.names]
        names = ", ".join(table.schema_arrow.names)
        raise_problems([f"{where}: got no column '{column}', expected it among {names}" for column in missing])
        yield from _parquet_rows(table, where, reading)
    except pyarrow.ArrowException as error:
        raise BertctlError(f"{where}: cannot be read as Parquet: {error}") from error


def _parquet_rows(table: Any, where: str, reading: Reading) -> Iterator[Document]:
    problems: list[str] = []
    number = 0
    for batch in table.iter_batches(batch_size=1024, columns=list(reading.columns)):
        for record in batch.to_pylist():
            text = record_text(record, f"{where}:row {number}", reading, problems)
            if not problems:
                yield Document(text, f"{where}:row {number}")
            number += 1
        if len(problems) >= MOST_PROBLEMS_SHOWN:
            break
    raise_problems(problems)


def _lines(file: BinaryIO, where: str, errors: Errors, longest: int | None) -> Iterator[tuple[int, str]]:
    """(number, line without its end); a line over `longest` bytes comes in parts with the same number."""
    number, offset, rest = 1, 0, b""
    while chunk := rest + file.readline(-1 if longest is None else longest):
        whole = chunk.endswith(b"\n") or (longest is not None and len(chunk) - len(rest) < longest)
        cut = len(chunk) if whole or longest is None else _cut(chunk)
        line, rest = chunk[:cut], chunk[cut:]
        yield number, _decode(line, where, number, offset, errors)
        offset += cut
        number += whole


def _cut(chunk: bytes) -> int:
    """Where to cut a line that is too long: after its last blank, else between two characters."""
    blank = chunk.rfind(b" ") + 1
    if blank:
        return blank
    cut = len(chunk)
    while cut > 1 and (chunk[cut - 1] & 0xC0) == 0x80:  # inside a character of several bytes
        cut -= 1
    return max(1, cut - 1)


def _decode(line: bytes, where: str, number: int, offset: int, errors: Errors) -> str:
    data = line.removesuffix(b"\n").removesuffix(b"\r")
    if offset == 0 and data.startswith(BYTE_ORDER_MARK):
        data, offset = data[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        kind = next((said for start, said in SIGNATURES.items() if offset == 0 and line.startswith(start)), None)
        problem = (
            f"{where}:{number}: got byte 0x{data[error.start]:02x} at offset {offset + error.start}, expected UTF-8"
        )
        hint = f"this looks like {kind}" if kind else "convert the file, or set `errors: replace` in the corpus section"
        raise BertctlError(problem, hint=hint) from None
