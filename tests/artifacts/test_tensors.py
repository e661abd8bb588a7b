"""Arrays and tensors through safetensors files, compared with the library."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from bertctl.artifacts.tensors import finite, load_tensors, map_arrays, save_rows, save_tensors
from bertctl.errors import BertctlError

KINDS = ("<f4", "<f8", "<f2", "<i8", "<i4", "<i2", "i1", "u1", "<u2", "<u4", "<u8", "?")
ARRAYS = {f"{kind}é": np.random.default_rng(0).integers(0, 2, (3, 5)).astype(kind) for kind in KINDS}
ARRAYS |= {"none": np.zeros((0, 4), np.float32), "scalar": np.array(3.5), "turned": np.arange(6).reshape(2, 3).T}
BITS = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)


def test_the_bytes_are_those_of_the_library(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", ARRAYS, {"format": "pt"})
    contiguous = {name: np.ascontiguousarray(array) for name, array in ARRAYS.items() if name != "scalar"}
    assert (tmp_path / "a").read_bytes() == safetensors.numpy.save(
        contiguous | {"scalar": ARRAYS["scalar"]}, {"format": "pt"}
    )


def test_big_endian_arrays_keep_their_values(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", {"x": np.arange(3, dtype=">i4")}, {})
    assert safetensors.numpy.load_file(tmp_path / "a")["x"].tolist() == [0, 1, 2]


def test_arrays_come_back(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", ARRAYS, {})
    loaded = map_arrays(tmp_path / "a")
    assert loaded.keys() == ARRAYS.keys()
    for name, array in loaded.items():
        assert (array.dtype, array.shape) == (ARRAYS[name].dtype, ARRAYS[name].shape)
        assert np.array_equal(array, ARRAYS[name])


def test_maps_are_read_only(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", {"x": np.arange(3)}, {})
    with pytest.raises(ValueError, match="read-only"):
        map_arrays(tmp_path / "a")["x"][0] = 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_tensors_come_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    bits = BITS.view(torch.int16)  # every bit pattern of 16 bits: NaNs, infinities, denormals, minus zero
    tensor = bits.view(dtype) if dtype in (torch.bfloat16, torch.float16) else bits.to(dtype)
    tensors = {
        "x": tensor.reshape(256, 256).T,
        "s": torch.tensor(1, dtype=dtype),
        "p": torch.nn.Parameter(torch.ones(2)),
    }
    save_tensors(tmp_path / "a", tensors, {"format": "pt"})
    for loaded in (load_tensors(tmp_path / "a"), safetensors.torch.load_file(tmp_path / "a")):
        for name, tensor in tensors.items():
            assert (loaded[name].dtype, loaded[name].shape) == (tensor.dtype, tensor.shape)
            same = loaded[name].contiguous().flatten().view(torch.uint8) == tensor.detach().contiguous().flatten().view(
                torch.uint8
            )
            assert same.all()


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 2), "b": torch.randn(4).bfloat16(), "odd": torch.ones(3, dtype=torch.uint8)}
    safetensors.torch.save_file(tensors, tmp_path / "a", {"format": "pt", "more": "x"})
    loaded = load_tensors(tmp_path / "a")
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


def test_equal_contents_give_equal_bytes_in_another_process(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np; from pathlib import Path; from bertctl.artifacts.tensors import save_tensors;"
        "save_tensors(Path(sys.argv[1]), {'b': np.ones(2), 'a': np.ones(3, 'u1')}, dict(zip('xyzvw', '12345')))"
    )
    for name in ("one", "two"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_rows_in_parts_are_the_array_written_at_once(tmp_path: Path) -> None:
    whole = np.arange(14, dtype=np.float32).reshape(7, 2)
    save_rows(tmp_path / "parts", "x", (7, 2), iter([whole[:3], whole[3:4], whole[4:]]))
    save_tensors(tmp_path / "whole", {"x": whole}, {})
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    with pytest.raises(ValueError, match="got 24 bytes, expected 56"):
        save_rows(tmp_path / "short", "x", (7, 2), iter([whole[:3]]))
    assert not (tmp_path / "short").exists()


def test_what_cannot_be_written_or_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="complex128"):
        save_tensors(tmp_path / "a", {"x": np.ones(2, complex)}, {})
    with pytest.raises(ValueError, match=r"torch\.complex64"):
        save_tensors(tmp_path / "a", {"x": torch.ones(2, dtype=torch.complex64)}, {})
    assert list(tmp_path.iterdir()) == []
    save_tensors(tmp_path / "a", {"x": torch.ones(2).bfloat16()}, {})
    with pytest.raises(BertctlError, match="'x' is BF16"):
        map_arrays(tmp_path / "a")
    with pytest.raises(BertctlError, match="no such file"):
        load_tensors(tmp_path / "b")
    with pytest.raises(BertctlError, match="no such file"):
        load_tensors(tmp_path)


def test_numpy_files_need_no_torch() -> None:
    modules = ", ".join(f"bertctl.artifacts.{name}" for name in ("checkpoint", "examples", "shards", "folder"))
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_machinery_of_compiling_is_not_imported_for_a_model() -> None:
    code = "import sys, bertctl.heads.model, bertctl.variants.hf; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_one_bad_element_is_found_and_large_sums_are_not_one(dtype: torch.dtype) -> None:
    largest = torch.full((100,), torch.finfo(dtype).max, dtype=dtype)  # sums to infinity
    assert all(map(finite, (largest, torch.zeros(0, dtype=dtype), torch.arange(3))))
    for bad in (torch.inf, -torch.inf, torch.nan):
        assert not finite(torch.cat([largest, torch.tensor([bad], dtype=dtype)]))
    assert not finite(torch.tensor([torch.inf, -torch.inf], dtype=dtype))
