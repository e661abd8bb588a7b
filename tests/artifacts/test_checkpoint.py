"""The newest intact checkpoint is found; models are read from every kind of folder; the rest is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bertctl.artifacts.checkpoint import latest_checkpoint, prune_checkpoints, read_config, read_weights, resolve_model
from bertctl.artifacts.folder import whole_folder, write_whole
from bertctl.artifacts.tensors import save_tensors
from bertctl.errors import BertctlError

Make = Callable[[int], Path]
Rewrite = Callable[[Path, bytes], None]


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


def make_model(folder: Path, files: dict[str, dict[str, torch.Tensor]], index: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    for name, tensors in files.items():
        save_tensors(folder / name, tensors, {"format": "pt"})
    if index is not None:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


def test_newest_by_number_not_by_time_or_spelling(checkpoint: Make) -> None:
    folder = checkpoint(9).parent
    assert latest_checkpoint(folder.parent / "nowhere") is None
    checkpoint(100)
    checkpoint(20)
    for name in ("step-007", "step--1", "step-", "step-101.tmp-1-aaaaaaaa", "best"):
        (folder / name).mkdir()
    os.utime(folder / "step-9")
    assert latest_checkpoint(folder) == folder / "step-100"


DAMAGE: dict[str, Callable[[Path, Rewrite], object]] = {
    "flipped bit": lambda path, rewrite: rewrite(
        path / "model.safetensors", (path / "model.safetensors").read_bytes()[:-1] + b"\7"
    ),
    "empty file": lambda path, rewrite: rewrite(path / "optimizer.safetensors", b""),
    "missing file": lambda path, _: (path / "state.json").unlink(),
    "missing manifest": lambda path, _: (path / "manifest.json").unlink(),
    "extra file": lambda path, _: (path / "more.safetensors").write_bytes(b"x"),
    "empty folder": lambda path, _: [file.unlink() for file in path.iterdir()],
    "file of the one before": lambda path, _: shutil.copy(path.with_name("step-5") / "model.safetensors", path),
    "is a copy of the one before": lambda path, _: (
        shutil.rmtree(path),
        shutil.copytree(path.with_name("step-5"), path),
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_newest_is_stepped_over_with_one_line(
    checkpoint: Make, rewrite: Rewrite, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newest = checkpoint(5), checkpoint(10)
    DAMAGE[name](newest, rewrite)
    assert latest_checkpoint(newest.parent) == older
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert str(newest) in lines[0]


def test_all_damaged_is_an_error_and_not_a_silent_start_from_nothing(checkpoint: Make) -> None:
    made = [checkpoint(step) for step in (5, 10)]
    for path in made:
        (path / "state.json").unlink()
    with pytest.raises(BertctlError) as caught:
        latest_checkpoint(made[0].parent)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(("keep", "left"), [(1, [15]), (2, [10, 15]), (5, [0, 5, 10, 15])])
def test_prune(checkpoint: Make, keep: int, left: list[int]) -> None:
    folder = [checkpoint(step) for step in (0, 5, 10, 15)][-1].parent
    prune_checkpoints(folder, keep)
    assert steps(folder) == left


def test_prune_counts_only_intact_ones(checkpoint: Make) -> None:
    folder = [checkpoint(step) for step in (0, 5, 10, 15, 20)][-1].parent
    for damaged in (10, 20):
        (folder / f"step-{damaged}" / "state.json").unlink()
    prune_checkpoints(folder, 2)
    assert steps(folder) == [5, 15, 20], "two good ones stay; a damaged newer one is left for the run to write again"
    for path in (folder / "step-5", folder / "step-15"):
        (path / "state.json").unlink()
    prune_checkpoints(folder, 1)
    assert steps(folder) == [5, 15, 20], "nothing goes when nothing verifies"


def test_resolve_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(tmp_path / "runs" / "demo" / "model", {})
    assert resolve_model(model) == model
    assert resolve_model(str(model.parent)) == model
    monkeypatch.chdir(tmp_path)
    assert resolve_model("runs/demo") == Path("runs/demo/model")
    (tmp_path / "half" / "checkpoints").mkdir(parents=True)
    with pytest.raises(BertctlError, match="has not finished") as caught:
        resolve_model(tmp_path / "half")
    assert "--resume" in str(caught.value.hint)
    with pytest.raises(BertctlError, match=r"no config\.json"):
        resolve_model(tmp_path)
    with pytest.raises(BertctlError, match="is a file"):
        resolve_model(model / "config.json")
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(BertctlError, match="got a pickle"):
        resolve_model(tmp_path / "model.bin")


@pytest.mark.parametrize("name", ["runs/typo", "./typo", "/nowhere/typo", "~/nowhere-typo", "typo", "a/b/c"])
def test_a_mistyped_folder_is_not_looked_up_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    with pytest.raises(BertctlError, match="no such folder"):
        resolve_model(name)


def test_hub_name_without_network_says_what_it_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BertctlError, match="some-org/some-model: no such folder here, and the hub could not") as caught:
        resolve_model("some-org/some-model")
    assert "model.safetensors" in str(caught.value.hint)


def test_hub_name_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(tmp_path / "snapshot", {})
    asked = []
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda name, allow_patterns: asked.append(name) or str(model)
    )
    assert resolve_model("google-bert/bert-base-uncased") == model
    assert asked == ["google-bert/bert-base-uncased"]


def test_read_config(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m", {})
    assert read_config(model) == {"model_type": "bert"}
    for text, message in (
        ("{\n 1}", r"config\.json:2:2: not JSON"),
        ("[]", "got a JSON list"),
        ("[" * 99_999, "not JSON"),
    ):
        (model / "config.json").write_text(text)
        with pytest.raises(BertctlError, match=message):
            read_config(model)
    (model / "config.json").write_bytes(b'"\xff"')
    with pytest.raises(BertctlError, match="not JSON"):
        read_config(model)


def test_read_weights_of_one_file_and_of_several(tmp_path: Path) -> None:
    a, b, rest = torch.randn(2, 3), torch.arange(3), torch.ones(1).bfloat16()
    one = read_weights(make_model(tmp_path / "one", {"model.safetensors": {"a": a, "b": b}}))
    assert torch.equal(one["a"], a)
    files = {"x-1.safetensors": {"a": a, "unlisted": b}, "x-2.safetensors": {"b": b, "rest": rest}}
    index = {"a": "x-1.safetensors", "b": "x-2.safetensors", "rest": "x-2.safetensors"}
    several = read_weights(make_model(tmp_path / "several", files, index))
    assert several.keys() == index.keys()
    assert torch.equal(several["rest"], rest)


def test_read_weights_refuses(tmp_path: Path) -> None:
    tensors = {"good": torch.ones(2), "bad": torch.tensor([1.0, float("nan")]), "worse": torch.tensor(float("inf"))}
    with pytest.raises(BertctlError) as caught:
        read_weights(make_model(tmp_path / "nan", {"model.safetensors": tensors}))
    assert [("'bad'" in text, "'worse'" in text) for text in caught.value.problems] == [(True, False), (False, True)]
    with pytest.raises(BertctlError, match=r"no model\.safetensors"):
        read_weights(make_model(tmp_path / "none", {}))
    only_pickle = make_model(tmp_path / "pickle", {})
    (only_pickle / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(BertctlError, match=r"pytorch_model\.bin: got a pickle"):
        read_weights(only_pickle)
    secret = tmp_path / "secret.safetensors"
    save_tensors(secret, {"a": torch.ones(1)}, {})
    for place in ("../secret.safetensors", str(secret), "sub/x.safetensors", "..", ""):
        outside = make_model(tmp_path / f"outside-{len(list(tmp_path.iterdir()))}", {}, {"a": place})
        with pytest.raises(BertctlError, match="in the same folder"):
            read_weights(outside)
    with pytest.raises(BertctlError, match="no tensor 'b'"):
        read_weights(make_model(tmp_path / "lacks", {"x.safetensors": {"a": torch.ones(1)}}, {"b": "x.safetensors"}))


def test_our_models_are_verified(tmp_path: Path, rewrite: Rewrite) -> None:
    with whole_folder(tmp_path / "m", kind="model", inputs={}) as temp:
        write_whole(temp / "config.json", '{"a": 1}')
        save_tensors(temp / "model.safetensors", {"w": np.ones(8, np.float32)}, {})
    path = tmp_path / "m" / "model.safetensors"
    rewrite(path, path.read_bytes()[:-1] + b"\0")
    for read in (read_weights, read_config):
        with pytest.raises(BertctlError, match=r"model\.safetensors: damaged") as caught:
            read(tmp_path / "m")
        assert "delete its manifest" in str(caught.value.hint)
