"""A run that was killed, refused, damaged or finished, and started again; compared with one that nothing disturbed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bertctl.artifacts.checkpoint import latest_checkpoint
from bertctl.artifacts.manifest import tree_hash, verify
from bertctl.artifacts.tensors import load_tensors, save_tensors
from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError, EnvironmentFault, NonFinite
from bertctl.training.run_folder import RunFolder, restore_together
from bertctl.training.runtime import Runtime

STEPS, SAVE_EVERY = 9, 2
FINGERPRINT = {"batch_size": 4, "lr": 0.01, "vocabulary": "ab12", "seed": 7, "schedule": {"name": "linear"}}


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2), nn.BatchNorm1d(2)).to(torch.float32)
    model[2].to(torch.bfloat16)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)


def forward(model: nn.Module, step: int) -> torch.Tensor:
    torch.manual_seed(1000 + step)
    hidden = model[1](model[0](torch.randn(4, 4)))
    return (model[3](model[2](hidden.bfloat16()).float()) * torch.randn(4, 2)).sum()


def train(out: Path, *, stop_after: int = STEPS, **changes: Any) -> dict[str, Any]:
    """What a stage does with the folder; the random numbers of a step depend on nothing but the step."""
    model, optimizer = parts()
    settings = {"kind": "pretrain", "resume": True, "keep": 2, "fingerprint": FINGERPRINT, **changes}
    with RunFolder(out, **settings) as folder:
        if folder.finished:
            return folder.result
        start = folder.restore(model, optimizer)
        best = folder.state.get("best", 0.0)
        for step in range(start + 1, STEPS + 1):
            loss = forward(model, step)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            best = max(best, loss.item())
            folder.log({"step": step, "loss": loss.item()})
            if step % SAVE_EVERY == 0:
                folder.save(step, model, optimizer, {"best": best})
            if step == stop_after < STEPS:
                return {"stopped": step}
        result = {"best": best}
        folder.finish(lambda temp: save_tensors(temp / "model.safetensors", model_tensors(model), {}), result)
        return result


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    train(out, resume=False)
    return out


def assert_equal_runs(out: Path, undisturbed: Path) -> None:
    verify(out, kind="pretrain")
    assert tree_hash(out) == tree_hash(undisturbed)
    for name in ("metrics.jsonl", "result.json"):
        assert (out / name).read_text() == (undisturbed / name).read_text()
    left = sorted(path.name for path in (*out.iterdir(), *(out / "checkpoints").iterdir()))
    kept = [".lock", "checkpoints", "manifest.json", "metrics.jsonl", "model", "result.json", "step-6", "step-8"]
    assert left == kept, "nothing is left to clean by hand"


def test_guard_the_run_does_train(undisturbed: Path) -> None:
    weights = load_tensors(undisturbed / "checkpoints" / "step-6" / "model.safetensors")
    later = load_tensors(undisturbed / "model" / "model.safetensors")
    assert weights.keys() == later.keys() >= {"0.weight", "2.bias", "3.running_mean", "3.num_batches_tracked"}
    assert weights["2.weight"].dtype == torch.bfloat16
    assert not any(torch.equal(weights[name], later[name]) for name in weights)


@pytest.mark.parametrize("stop_after", [1, 2, 5, 8])
def test_stopped_and_resumed_equals_undisturbed(tmp_path: Path, undisturbed: Path, stop_after: int) -> None:
    out = tmp_path / "run"
    train(out, stop_after=stop_after)
    train(out)
    assert_equal_runs(out, undisturbed)


POINTS = (
    "before temp step-6",
    "after file step-6/model.safetensors",
    "after file step-6/optimizer.safetensors",
    "after file step-6/state.json",
    "before manifest step-6",
    "after manifest step-6",
    "before rename step-6",
    "after rename step-6",
    "during delete step-2",
    "after file model/model.safetensors",
    "before rename model",
    "after rename model",
    "after file run/result.json",
)


def drive(folder: Path) -> Iterator[int]:
    """Train in a child that kills itself, once for each write point. One process, because torch loads slowly, and
    more of it at the first step: hence a run before the children."""
    train(folder / "first" / "run")
    for number, point in enumerate(POINTS):
        child = os.fork()
        if child == 0:
            os.environ["BERTCTL_TEST_DIE_AT"] = point
            train(folder / str(number) / "run")
            os._exit(0)
        yield os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_kill_at_every_write_point(tmp_path: Path, undisturbed: Path) -> None:
    command = [sys.executable, __file__, str(tmp_path)]
    driven = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert json.loads(driven.stdout) == [-signal.SIGKILL] * len(POINTS), "a point was never reached"
    for number, point in enumerate(POINTS):
        out = tmp_path / str(number) / "run"
        for path in (out / "checkpoints").glob("step-*[0-9]"):
            if ".tmp-" not in path.name:
                verify(path, kind="checkpoint")
        assert not (out / "manifest.json").exists(), f"{point}: taken for finished"
        train(out)
        assert_equal_runs(out, undisturbed)


def test_damaged_newest_checkpoint(tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    train(out, stop_after=7)
    (out / "checkpoints" / "step-6" / "optimizer.safetensors").write_bytes(b"")
    train(out)
    assert [line for line in capsys.readouterr().err.splitlines() if "step-6" not in line] == []
    assert_equal_runs(out, undisturbed)


def test_second_start_without_resume_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "recipe.yaml").write_text("seed: 7\n")
    train(out, resume=False, stop_after=3)
    with pytest.raises(BertctlError, match="holds an earlier run") as caught:
        train(out, resume=False)
    assert "--resume" in str(caught.value.hint)
    train(out)
    with pytest.raises(BertctlError, match="holds a finished run"):
        train(out, resume=False)
    other = tmp_path / "home"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(BertctlError, match=r"holds letter\.txt"):
        train(other, resume=False)


def test_resume_of_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = train(out)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(out.rglob("*"))}
    assert train(out) == result
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(out.rglob("*"))} == before
    with pytest.raises(BertctlError, match="seed: 7 -> 8"):
        train(out, fingerprint={**FINGERPRINT, "seed": 8})
    (out / "model" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(BertctlError, match=r"model\.safetensors: damaged"):
        train(out)


def test_resume_with_changes_lists_them_all(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, stop_after=3)
    changed = {**FINGERPRINT, "lr": 0.02, "schedule": {"name": "cosine"}, "new": 1}
    del changed["vocabulary"]
    before = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(BertctlError) as caught:
        train(out, fingerprint=changed)
    assert caught.value.exit_code == 2
    assert {problem.split(": ", 1)[1] for problem in caught.value.problems} == {
        "lr: 0.01 -> 0.02",
        "schedule.name: linear -> cosine",
        "new: (absent) -> 1",
        "vocabulary: ab12 -> (absent)",
    }
    assert "--out" in str(caught.value.hint)
    assert (out / "metrics.jsonl").read_bytes() == before


def test_log_is_cut_where_the_checkpoint_is(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, stop_after=5)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "split": "dev"}\n{"step": 4, "after": "step 5"}\n{"step": 6, "torn')
    model, optimizer = parts()
    with RunFolder(out, kind="pretrain", resume=True, keep=2, fingerprint=FINGERPRINT) as folder:
        assert folder.restore(model, optimizer) == 4
    lines = (out / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]


def test_lock(tmp_path: Path) -> None:
    first = RunFolder(tmp_path, kind="pretrain", resume=False, keep=2, fingerprint={})
    with first, pytest.raises(EnvironmentFault, match=f"in use by process {os.getpid()}"):
        train(tmp_path)
    train(tmp_path)


def test_other_ranks_read_and_never_write(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, stop_after=4)
    before = {path: path.stat().st_mtime_ns for path in sorted(out.rglob("*"))}
    model, optimizer = parts()
    with RunFolder(out, kind="pretrain", resume=True, keep=1, fingerprint=FINGERPRINT, rank=1) as folder:
        assert folder.restore(model, optimizer) == 4
        folder.log({"step": 5})
        folder.save(5, model, optimizer)
        folder.finish(lambda temp: pytest.fail("rank 1 wrote a model"), {})
    assert {path: path.stat().st_mtime_ns for path in sorted(out.rglob("*"))} == before
    stored = load_tensors(out / "checkpoints" / "step-4" / "model.safetensors")
    assert all(torch.equal(tensor, stored[name]) for name, tensor in model_tensors(model).items())


def test_weights_that_are_not_finite_are_never_written(tmp_path: Path) -> None:
    model, optimizer = parts()
    with RunFolder(tmp_path, kind="pretrain", resume=False, keep=2, fingerprint={}) as folder:
        folder.save(1, model, optimizer)
        with torch.no_grad():
            model[0].weight[0, 0] = float("nan")
        with pytest.raises(NonFinite, match=r"step 2: weight '0\.weight'") as caught:
            folder.save(2, model, optimizer)
        assert caught.value.exit_code == 4
        with pytest.raises(NonFinite, match="the finished model"):
            folder.finish(lambda temp: save_tensors(temp / "model.safetensors", model_tensors(model), {}), {})
    left = sorted(path.name for path in (*tmp_path.iterdir(), *(tmp_path / "checkpoints").iterdir()))
    assert left == [".lock", "checkpoints", "step-1"]


def test_a_full_disk_keeps_the_checkpoints(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        with pytest.raises(EnvironmentFault, match="no space left"):
            train(disk / "run", keep=9)
        assert latest_checkpoint(disk / "run" / "checkpoints") is not None
        subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
        train(disk / "run")
        verify(disk / "run", kind="pretrain")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


if __name__ == "__main__":
    print(json.dumps(list(drive(Path(sys.argv[1])))))


def test_a_rank_looks_for_the_checkpoint_when_the_first_one_has_put_it_back(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, stop_after=4)
    hidden = (out / "checkpoints" / "step-4").rename(out / "checkpoints" / "aside")

    class SecondRank(Runtime):
        def barrier(self) -> None:
            hidden.rename(out / "checkpoints" / "step-4")  # what rank 0 does meanwhile

    with RunFolder(out, kind="pretrain", resume=True, keep=2, fingerprint=FINGERPRINT, rank=1) as folder:
        runtime = SecondRank(torch.device("cpu"), torch.float32, rank=1)
        assert restore_together(folder, *parts(), runtime) == 4
