"""Named arrays in safetensors files; never a pickle.

We write the format ourselves because the library (0.8) orders the metadata by a random hash, so that equal contents
give different bytes. With one metadata key or none the bytes are the library's own.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertctl.artifacts.files import whole_file
from bertctl.artifacts.header import AGAIN, DTYPES, read_header
from bertctl.errors import BertctlError

if TYPE_CHECKING:
    import torch

TORCH_NAMES = {
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "F32": "float32",
    "U32": "uint32",
    "I32": "int32",
    "BF16": "bfloat16",
    "F16": "float16",
    "U16": "uint16",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def save_tensors(path: Path, tensors: "Mapping[str, NDArray[Any] | torch.Tensor]", metadata: Mapping[str, str]) -> None:
    """Write arrays or tensors (any device) whole and flushed; equal contents give equal bytes.

    Errors: EnvironmentFault; ValueError for a dtype that safetensors lacks.
    """
    named = {name: _array(tensor) for name, tensor in tensors.items()}
    order = sorted(named, key=lambda name: (list(DTYPES).index(named[name][0]), name))
    header: dict[str, dict[str, Any]] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name in order:
        dtype, shape, array = named[name]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = _header_text(header)
    with whole_file(path, len(text) + offset) as temp, temp.open("wb") as file:
        file.write(text)
        for name in order:
            file.write(named[name][2].reshape(-1).view(np.uint8).data)


def save_rows(path: Path, name: str, shape: tuple[int, int], parts: Iterable[NDArray[np.float32]]) -> None:
    """Write one float32 array [N, E] whose rows come in `parts` [n, E], of which one is in memory at a time.

    Errors: EnvironmentFault; ValueError if the parts do not add up to `shape`.
    """
    size = 4 * shape[0] * shape[1]
    text = _header_text({name: {"dtype": "F32", "shape": list(shape), "data_offsets": [0, size]}})
    with whole_file(path, len(text) + size) as temp, temp.open("wb") as file:
        file.write(text)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype="<f4").reshape(-1).view(np.uint8).data)
        if file.tell() != len(text) + size:
            raise ValueError(f"{path}: got {file.tell() - len(text)} bytes, expected {size} of shape {shape}")


def _header_text(header: Mapping[str, Any]) -> bytes:
    """The bytes before the tensors: the length, and JSON filled up with blanks to a multiple of 8."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _array(tensor: "NDArray[Any] | torch.Tensor") -> tuple[str, tuple[int, ...], NDArray[Any]]:
    """The dtype's name, the shape, and the values as a contiguous array of that width."""
    if not isinstance(tensor, np.ndarray):
        name = {value: key for key, value in TORCH_NAMES.items()}.get(str(tensor.dtype).removeprefix("torch."))
        if name is None:
            raise ValueError(f"safetensors files here hold no {tensor.dtype}")
        plain = tensor.detach().cpu().contiguous()
        array = (plain.view(_torch_type("U16")) if name == "BF16" else plain).numpy()
        return name, tuple(tensor.shape), array
    little = np.ascontiguousarray(tensor, dtype=tensor.dtype.newbyteorder("<"))
    kinds = {np.dtype(kind): key for key, (_, kind) in DTYPES.items() if kind is not None}
    found = kinds.get(little.dtype)
    if found is None:
        raise ValueError(f"safetensors files here hold no {tensor.dtype}")
    return found, tensor.shape, little


def _torch_type(name: str) -> "torch.dtype":
    import torch

    kind = getattr(torch, TORCH_NAMES[name])
    assert isinstance(kind, torch.dtype)
    return kind


def map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read-only views into the memory-mapped file; bytes are read when they are looked at.

    Errors: BertctlError (damaged, a pickle, or bfloat16, which numpy lacks).
    """
    header = read_header(path)
    whole = np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)  # slicing a plain array is faster than a memmap
    views: dict[str, NDArray[Any]] = {}
    for name, entry in header.entries.items():
        kind = DTYPES[entry.dtype][1]
        if kind is None:
            raise BertctlError(f"{path}: tensor {name!r} is {entry.dtype}, expected a type that numpy has")
        views[name] = whole[entry.start : entry.stop].view(np.dtype(kind)).reshape(entry.shape)
    return views


def load_tensors(path: Path) -> "dict[str, torch.Tensor]":
    """Every tensor of the file, on the CPU, each with memory of its own. Errors: BertctlError."""
    import torch

    header = read_header(path)
    tensors = {}
    with path.open("rb") as file:
        for name, entry in header.entries.items():
            flat = torch.empty(entry.stop - entry.start, dtype=torch.uint8)
            file.seek(entry.start)
            if file.readinto(flat.numpy().data) != entry.stop - entry.start:
                raise BertctlError(f"{path}: damaged, it ended inside tensor {name!r}", hint=AGAIN)
            tensors[name] = flat.view(_torch_type(entry.dtype)).reshape(entry.shape)
    return tensors


def finite(tensor: "torch.Tensor") -> bool:
    """Whether no element is NaN or infinite. A finite sum says so at once (BERT-base: 0.42 s -> 0.03); only another one
    asks for every element, as sums of finite numbers may overflow."""
    return not tensor.is_floating_point() or bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())
