"""The header of a safetensors file, checked before a byte after it is trusted.

Layout (the published format): 8 bytes header length N, little-endian; N bytes of JSON, {name: {dtype, shape,
data_offsets}}, padded with blanks; then the tensors' bytes without gaps. Memory-mapping bypasses the library's own
checks, so everything here that reads such a file goes through `read_header`.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl.errors import BertctlError

# dtype name -> (bytes, numpy name), in the order in which the library lays tensors out: widest first, then as here.
DTYPES: dict[str, tuple[int, str | None]] = {
    "U64": (8, "<u8"),
    "I64": (8, "<i8"),
    "F64": (8, "<f8"),
    "F32": (4, "<f4"),
    "U32": (4, "<u4"),
    "I32": (4, "<i4"),
    "BF16": (2, None),
    "F16": (2, "<f2"),
    "U16": (2, "<u2"),
    "I16": (2, "<i2"),
    "I8": (1, "<i1"),
    "U8": (1, "<u1"),
    "BOOL": (1, "<?"),
}
MOST_DIMENSIONS = 32
MOST_HEADER_BYTES = 16 * 1024 * 1024  # some 150,000 tensors; parsing the 100 MB that the format allows takes over 1 GiB
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


AGAIN = "copy or download the file again, or make it again"


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies: `start` and `stop` are byte offsets in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Header:
    """A checked header: entries in the order of their bytes, and the metadata."""

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]


def read_header(path: Path) -> Header:
    """The header of a safetensors file, after every check that makes mapping its bytes safe.

    Errors: BertctlError for a pickle, a header too large, not JSON or with a key twice, an unknown dtype, a span
    that is not shape x width, offsets with gaps or overlaps, and a file shorter or longer than its header says.
    """
    refuse_pickle(path)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            first = file.read(8)
            if len(first) < 8:
                raise BertctlError(f"{path}: damaged, got {size} bytes, expected a safetensors file", hint=AGAIN)
            length = struct.unpack("<Q", first)[0]
            if not 2 <= length <= min(size - 8, MOST_HEADER_BYTES):
                problem = f"{path}: damaged, got a header length of {length} in a file of {size} bytes"
                raise BertctlError(problem, hint=AGAIN)
            text = file.read(length)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise BertctlError(f"{path}: no such file, expected a safetensors file") from None
    entries, metadata = _parse(text, path)
    _check_spans(entries, size - 8 - length, path)
    base = 8 + length
    ordered = sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop))
    moved = {name: Entry(entry.dtype, entry.shape, entry.start + base, entry.stop + base) for name, entry in ordered}
    return Header(moved, metadata)


def _parse(text: bytes, path: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    try:
        tree = json.loads(text.decode(), object_pairs_hook=_without_twins)
        if not isinstance(tree, dict):
            raise ValueError("it is no object")
        metadata = tree.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("its metadata is not text by text")
        return {name: _entry(name, value) for name, value in tree.items()}, metadata
    except (ValueError, RecursionError) as error:
        problem = f"{path}: damaged header, {str(error)[:200] or 'nested too deeply'}"
        raise BertctlError(problem, hint=AGAIN) from None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a key appears twice")
    return tree


def _entry(name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name!r} has not exactly dtype, shape and data_offsets")
    shape, offsets = value["shape"], value["data_offsets"]
    if not isinstance(value["dtype"], str) or value["dtype"] not in DTYPES:
        raise ValueError(f"tensor {name!r} has the type {value['dtype']!r}, expected one of {', '.join(DTYPES)}")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has a shape or offsets that are not counts")
    if len(shape) > MOST_DIMENSIONS or math.prod(shape) * DTYPES[value["dtype"]][0] != offsets[1] - offsets[0]:
        raise ValueError(f"tensor {name!r} spans {offsets[1] - offsets[0]} bytes, which is not shape x width")
    return Entry(value["dtype"], tuple(shape), offsets[0], offsets[1])


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**63 for value in values)


def _check_spans(entries: Mapping[str, Entry], data_bytes: int, path: Path) -> None:
    expected = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != expected:
            problem = f"{path}: damaged header, tensor {name!r} starts at {entry.start}, expected {expected}"
            raise BertctlError(problem, hint=AGAIN)
        expected = entry.stop
    if expected != data_bytes:
        problem = f"{path}: damaged, got {data_bytes} bytes of tensors, expected {expected}"
        raise BertctlError(problem, hint=AGAIN)


def refuse_pickle(path: Path) -> None:
    """Raise BertctlError, with the way to convert, if `path` is a pickle by its name or its first bytes."""
    suspicious = path.suffix in PICKLE_SUFFIXES
    if not suspicious and path.is_file():
        with path.open("rb") as file:
            first = file.read(8)
        suspicious = first.startswith(PICKLE_STARTS) and any(first[3:])  # a header of 640 bytes starts with 80 02 00
    if suspicious:
        convert = (
            'convert it once, where you trust the file: python -c "import torch, safetensors.torch as s; '
            f"w = torch.load('{path.name}', weights_only=True); "
            "s.save_file({k: v.clone().contiguous() for k, v in w.items()}, 'model.safetensors')\""
        )
        raise BertctlError(
            f"{path}: got a pickle, which can run code when it is read; expected safetensors", hint=convert
        )
