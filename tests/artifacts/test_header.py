"""Hostile and broken safetensors headers are refused before anything is mapped."""

import json
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.artifacts.header import MOST_HEADER_BYTES, read_header
from bertctl.errors import BertctlError

F32_2 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def write(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {**F32_2, **changes}}


HOSTILE: dict[str, tuple[Any, bytes]] = {
    "overlap": ({"a": F32_2, "b": {**F32_2, "data_offsets": [4, 12]}}, b"0" * 12),
    "same span twice": ({"a": F32_2, "b": F32_2}, b"0" * 8),
    "hole": ({"a": F32_2, "b": {**F32_2, "data_offsets": [16, 24]}}, b"0" * 24),
    "first byte unused": (entry(data_offsets=[8, 16]), b"0" * 16),
    "negative offset": (entry(data_offsets=[-8, 0]), b"0" * 8),
    "offsets reversed": (entry(data_offsets=[8, 0]), b"0" * 8),
    "three offsets": (entry(data_offsets=[0, 8, 8]), b"0" * 8),
    "offset is a float": (entry(data_offsets=[0, 8.0]), b"0" * 8),
    "offset is true": (entry(shape=[], dtype="U8", data_offsets=[0, True]), b"0"),
    "span is not shape x width": (entry(shape=[3]), b"0" * 8),
    "other dtype": (entry(dtype="F64"), b"0" * 8),
    "unknown dtype": (entry(dtype="F7"), b"0" * 8),
    "dtype is a list": (entry(dtype=[]), b"0" * 8),
    "negative shape": (entry(shape=[-1, -2]), b"0" * 8),
    "shape overflows 64 bits": (entry(shape=[2**62, 8]), b"0" * 8),
    "shape of a million sizes": (entry(shape=[2**62] * 1_000_00), b"0" * 8),
    "past the end": (entry(), b"0" * 7),
    "trailing byte": (entry(), b"0" * 9),
    "extra key": (entry(code="x"), b"0" * 8),
    "missing key": ({"a": {"dtype": "F32", "shape": [2]}}, b"0" * 8),
    "entry is a list": ({"a": []}, b""),
    "metadata is a list": ({"__metadata__": []}, b""),
    "metadata holds a number": ({"__metadata__": {"a": 1}}, b""),
    "not an object": ([], b""),
    "not JSON": (b"{'a': 1}", b""),
    "not UTF-8": (b'{"\xff": 1}', b""),
    "duplicate key": (b'{"a":' + json.dumps(F32_2).encode() + b',"a":' + json.dumps(F32_2).encode() + b"}", b"0" * 8),
    "nested too deeply": (b"[" * 200_000, b""),
    "number of 5000 digits": (b'{"a":' + b"1" * 5000 + b"}", b""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_header(tmp_path: Path, name: str) -> None:
    began = time.monotonic()
    path = write(tmp_path / "x.safetensors", *HOSTILE[name])
    with pytest.raises(BertctlError, match=r"x\.safetensors: damaged") as caught:
        read_header(path)
    assert max(map(len, caught.value.problems)) < 500
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("length", [0, 1, 100, 2**63, 2**64 - 1, MOST_HEADER_BYTES + 1])
def test_hostile_header_length(tmp_path: Path, length: int) -> None:
    with pytest.raises(BertctlError, match="header length"):
        read_header(write(tmp_path / "x.safetensors", {}, length=length))


@pytest.mark.parametrize("count", [0, 7])
def test_a_file_without_a_header_is_told_by_its_size(tmp_path: Path, count: int) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"\0" * count)
    with pytest.raises(BertctlError, match=f"damaged, got {count} bytes, expected a safetensors file") as caught:
        read_header(tmp_path / "x.safetensors")
    assert "copy or download" in str(caught.value.hint)


def test_header_of_100_megabytes_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:  # sparse: no disk space, and no memory if nobody reads it
        file.write(struct.pack("<Q", 100_000_000) + b"{")
        file.truncate(100_000_100)
    with pytest.raises(BertctlError, match="header length of 100000000"):
        read_header(path)


def test_truncation_everywhere(tmp_path: Path) -> None:
    whole = safetensors.numpy.save({"a": np.arange(6, dtype=np.float32), "b": np.arange(3)}, {"x": "y"})
    for cut in range(len(whole)):
        (tmp_path / "x.safetensors").write_bytes(whole[:cut])
        with pytest.raises(BertctlError):
            read_header(tmp_path / "x.safetensors")


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".safetensors"])
def test_pickle_is_refused_and_its_payload_not_run(tmp_path: Path, suffix: str) -> None:
    import pickle

    marker = tmp_path / "marker"

    class Payload:
        def __reduce__(self) -> tuple[Any, tuple[Path]]:
            return Path.touch, (marker,)

    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps({"weight": Payload()}))
    with pytest.raises(BertctlError, match="got a pickle") as caught:
        read_header(path)
    assert "save_file" in str(caught.value.hint)
    assert not marker.exists()


def test_a_zip_file_of_torch_is_refused(tmp_path: Path) -> None:
    import torch

    torch.save({"a": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(BertctlError, match="got a pickle"):
        read_header(tmp_path / "model.safetensors")


def test_a_header_of_640_bytes_is_no_pickle(tmp_path: Path) -> None:
    text = json.dumps({"a": F32_2}).encode().ljust(640)  # its length field starts with 80 02, as pickles do
    path = write(tmp_path / "x.safetensors", text, b"0" * 8)
    assert path.read_bytes()[:2] == b"\x80\x02"
    assert read_header(path).entries["a"].shape == (2,)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_we_never_accept_what_the_library_refuses(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    whole = bytearray(safetensors.numpy.save({"ab": np.arange(4, dtype=np.float32), "c": np.ones(3, np.uint8)}))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        header = read_header(path)
    except BertctlError:
        return
    with safetensors.safe_open(path, framework="numpy") as theirs:
        assert set(theirs.keys()) == set(header.entries)
        for name, ours in header.entries.items():
            assert tuple(theirs.get_slice(name).get_shape()) == ours.shape
