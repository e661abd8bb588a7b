"""Index records: what goes in comes out; what points nowhere is refused on both sides."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.artifacts import examples as module
from bertctl.artifacts.examples import COLUMNS, Examples, phases, write_examples
from bertctl.artifacts.folder import whole_folder
from bertctl.artifacts.tensors import save_tensors
from bertctl.errors import BertctlError

NAME = "examples-short-train.safetensors"
rows = st.tuples(
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**40),
    st.integers(1, 512),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**40),
    st.integers(0, 512),
    st.integers(-1, 1),
)


def columns(records: list[tuple[int, ...]]) -> dict[str, Any]:
    table = np.array(records, dtype=np.int64).reshape(-1, 7)
    made = dict(zip(COLUMNS, table.T.copy(), strict=True))
    made["a_stop"] += made["a_start"]
    made["b_stop"] += made["b_start"]
    return made


def make(folder: Path, table: dict[str, Any], name: str = NAME) -> Path:
    with whole_folder(folder, kind="pairs", inputs={}, facts={"phases": ["short"]}, replace=True) as temp:
        write_examples(temp / name, table)
    return folder / name


@settings(max_examples=60, deadline=None)
@given(records=st.lists(rows, max_size=20))
def test_round_trip(records: list[tuple[int, ...]], tmp_path_factory: pytest.TempPathFactory) -> None:
    table = columns(records)
    examples = Examples(make(tmp_path_factory.getbasetemp() / "pairs", table))
    assert len(examples) == len(records)
    assert {name: str(column.dtype) for name, column in examples.columns.items()} == COLUMNS
    for name in COLUMNS:
        assert np.array_equal(examples.columns[name], table[name])
    lengths = examples.lengths(special=lambda segments: segments + 1)
    assert lengths.tolist() == [a + 2 + (b + 1 if b else 0) for _, _, a, _, _, b, _ in records]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_AT_ONCE", 3)
        assert examples.longest(special=lambda segments: segments + 1) == max(lengths, default=0)


ONE = (0, 5, 3, 1, 7, 2, 1)
WRONG: dict[str, dict[str, Any]] = {
    "empty A": {"a_stop": [5]},
    "A runs back": {"a_stop": [4]},
    "B runs back": {"b_stop": [6]},
    "negative start": {"a_start": [-1]},
    "negative shard": {"b_shard": [-1]},
    "label 2": {"label": [2]},
    "label -2": {"label": [-2]},
    "lengths differ": {"label": [0, 1]},
    "in rows": {"label": [[0]]},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_by_writer_and_reader(tmp_path: Path, name: str) -> None:
    table = columns([ONE]) | {key: np.array(value) for key, value in WRONG[name].items()}
    with pytest.raises(ValueError, match=r"segment|label|lengths|shapes"):
        write_examples(tmp_path / NAME, table)
    assert not (tmp_path / NAME).exists()
    with whole_folder(tmp_path / "x", kind="pairs", inputs={}) as temp:
        save_tensors(temp / NAME, {key: np.asarray(table[key], kind) for key, kind in COLUMNS.items()}, {})
    with pytest.raises(BertctlError, match=NAME):
        Examples(tmp_path / "x" / NAME)


@pytest.mark.parametrize(("column", "what"), [("a_stop", "row 7: segment a"), ("label", "row 7: got label -9")])
def test_a_wrong_value_is_found_in_a_later_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, what: str
) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    table = columns([ONE] * 10)
    table[column][7] = -9
    with pytest.raises(ValueError, match=what):
        write_examples(tmp_path / NAME, table)


def test_columns_must_be_all_there_and_fit(tmp_path: Path) -> None:
    table = columns([ONE])
    with pytest.raises(ValueError, match="a_shard"):
        write_examples(tmp_path / NAME, table | {"a_shard": np.array([2**31])})
    with pytest.raises(ValueError, match="label"):
        write_examples(tmp_path / NAME, table | {"label": np.array([0.5])})
    with pytest.raises(ValueError, match="expected"):
        write_examples(tmp_path / NAME, table | {"more": np.array([0])})
    del table["label"]
    with pytest.raises(ValueError, match="label"):
        write_examples(tmp_path / NAME, table)


def test_other_types_other_files_other_folders(tmp_path: Path) -> None:
    path = make(tmp_path / "x", columns([ONE]))
    assert phases(tmp_path / "x") == ["short"]
    with pytest.raises(BertctlError, match=f"expected one of {NAME}"):
        Examples(path.with_name("examples-long-train.safetensors"))
    with whole_folder(tmp_path / "y", kind="pairs", inputs={}) as temp:
        save_tensors(temp / NAME, {name: column.astype(np.int64) for name, column in columns([ONE]).items()}, {})
    with pytest.raises(BertctlError, match="got columns"):
        Examples(tmp_path / "y" / NAME)
    (tmp_path / "x" / "manifest.json").unlink()
    with pytest.raises(BertctlError, match=r"manifest\.json"):
        Examples(path)
