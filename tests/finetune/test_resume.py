"""Killed at any point and resumed, a run ends with the bytes of one that was left alone."""

import json
import os
import signal
import subprocess
import sys

import pytest

from bertctl import signals
from bertctl.artifacts.tensors import load_tensors
from bertctl.errors import Stopped
from bertctl.finetune import train
from bertctl.finetune.run import run

STEPS, EVALUATE, SAVE = 90, 15, 30
CHILD = """
import sys
from pathlib import Path
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.run import run
section = FinetuneSection.model_validate_json(sys.argv[1])
run(section, out=Path(sys.argv[2]), seed=3)
"""


@pytest.fixture(scope="module")
def section(make_section, sentences):
    training = {"evaluate_every_steps": EVALUATE, "save_every_steps": SAVE, "optimizer": {"lr": 1e-3}}
    data = {"path": str(sentences)}
    return make_section(steps=STEPS, task="ner", data=data, training=training, dropout=0.1, patience=20)


@pytest.fixture(scope="module")
def whole(section, tmp_path_factory):
    """The uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, run(section, out=out, seed=3)


def test_the_best_one_changes_between_two_checkpoints(whole):
    """Else the kill at step 60 below would try little: the best weights on disk are then newer than the checkpoint."""
    out, _ = whole
    lines = map(json.loads, (out / "runs" / "pretrained-seed3" / "metrics.jsonl").read_text().splitlines())
    assert {45, 60} & {line["step"] for line in lines if line.get("best")}


def without_times(result: dict) -> dict:
    """A result without what a clock decides."""
    if isinstance(result, dict):
        timed = ("seconds", "tokens_per_second")
        return {key: without_times(value) for key, value in result.items() if key not in timed}
    return [without_times(value) for value in result] if isinstance(result, list) else result


def assert_same(out, result, whole, model_hash):
    whole_out, whole_result = whole
    assert model_hash(out) == model_hash(whole_out)
    assert without_times(result) == without_times(whole_result)


@pytest.mark.parametrize("point", ["before manifest step-60", "before manifest model"])
def test_killed_at_a_write_it_resumes_to_the_same_bytes(point, section, whole, tmp_path, model_hash):
    out = tmp_path / "run"
    child = [sys.executable, "-c", CHILD, section.model_dump_json(), str(out)]
    environment = os.environ | {"BERTCTL_TEST_DIE_AT": point}
    killed = subprocess.run(child, env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    result = run(section, out=out, seed=3, resume=True)
    assert_same(out, result, whole, model_hash)


@pytest.mark.parametrize("call", [2, 3, 7])  # of 6 evaluations on dev, and then the test set
def test_a_signal_while_scoring_saves_the_step_and_resumes_to_the_same_bytes(
    call, section, whole, tmp_path, model_hash, stop_at
):
    out = tmp_path / "run"
    stop_at(train, "predict_chunks", call)
    with pytest.raises(Stopped) as stopped:
        run(section, out=out, seed=3)
    assert stopped.value.exit_status == 143
    step = min(EVALUATE * call, STEPS)
    assert (out / "runs" / "pretrained-seed3" / "checkpoints" / f"step-{step}").is_dir()
    signals.clear()
    result = run(section, out=out, seed=3, resume=True)
    assert_same(out, result, whole, model_hash)


def test_finished_seeds_are_kept_and_only_the_missing_one_is_trained(section, tmp_path, monkeypatch):
    out, two = tmp_path / "run", section.model_copy(update={"seeds": 2})
    plain = train.RunFolder.finish

    def stop_at_second(folder, *positional):
        if folder.out.name == "pretrained-seed4":
            signals.request(signal.SIGINT)
            signals.check("testing")
        plain(folder, *positional)

    monkeypatch.setattr(train.RunFolder, "finish", stop_at_second)
    with pytest.raises(Stopped):
        run(two, out=out, seed=3)
    signals.clear()
    monkeypatch.undo()
    first = out / "runs" / "pretrained-seed3" / "model" / "model.safetensors"
    before = first.stat().st_mtime_ns
    run(two, out=out, seed=3, resume=True)
    assert first.stat().st_mtime_ns == before
    assert load_tensors(out / "runs" / "pretrained-seed4" / "model" / "model.safetensors")
