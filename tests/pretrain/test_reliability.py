"""Pretraining that is killed, stopped, damaged or changed under way, by its real command line.

Runs are children of one process that has loaded torch (loading it takes longer than training here); the two runs that
must agree across processes, and the one on two ranks, are started from nothing.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bertctl.artifacts.manifest import sha256_file, verify

STEPS, SAVE_EVERY, LINES = 40, 5, 400
SEED = 20_24
RECIPE = f"""
workdir: WORKDIR
seed: 7
tokenize: {{corpus: {{files: [CORPUS]}}, vocab_size: 300, sentences: newline}}
build_pairs: {{sequence_length: 32, held_out_fraction: 0.1}}
pretrain:
  encoder: {{hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 128}}
  held_out_examples: 20
  training:
    steps: {STEPS}
    batch_size: 8
    optimizer: {{lr: 1e-3}}
    precision: float32
    log_every_steps: 1
    evaluate_every_steps: 10
    save_every_steps: {SAVE_EVERY}
"""
COMMAND = "from bertctl.cli.app import main; main()"


def serve() -> None:
    """Start a child for each line on stdin, and say how it ended when asked."""
    import torch._dynamo  # what torch otherwise loads at the first step of every child

    from bertctl.cli.app import main
    from bertctl.pretrain import run  # noqa: F401

    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
            continue
        child = os.fork()
        if child == 0:
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(log, stream)
            os.environ |= request["environment"]
            try:
                main(request["arguments"])
            except SystemExit as error:
                os._exit(int(error.code or 0))
        print(child, flush=True)


class Run:
    """One start of `bertctl pretrain`."""

    def __init__(
        self, server: "subprocess.Popen[str]", recipe: Path, out: Path, *options: str, **environment: str
    ) -> None:
        self.server, self.out, self.log = server, out, out.with_name(f"{out.name}.log")
        arguments = ["pretrain", str(recipe), "--out", str(out), *options]
        self.pid = self._ask({"arguments": arguments, "log": str(self.log), "environment": environment})

    def _ask(self, request: dict[str, Any]) -> int:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def wait(self) -> int:
        """The exit code; negative for a signal."""
        return self._ask({"wait": self.pid})

    def send_at(self, step: int, number: int, delay: float = 0.0) -> int:
        """Send a signal once the log has reached `step`; returns the exit code."""
        limit = time.monotonic() + 60
        while last_step(self.out) < step and time.monotonic() < limit:
            time.sleep(0.001)
        time.sleep(delay)
        os.kill(self.pid, number)
        return self.wait()

    def text(self) -> str:
        return self.log.read_text()


def last_step(out: Path) -> int:
    path = out / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)


def saved_steps(out: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (out / "checkpoints").glob("step-*"))


def model_hash(out: Path) -> str:
    verify(out, kind="pretrain")
    return sha256_file(out / "model" / "model.safetensors")


def log_lines(out: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what a clock says."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


@pytest.fixture(scope="module")
def server() -> "Iterator[subprocess.Popen[str]]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    yield process
    process.communicate(timeout=60)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe whose corpus is tokenized and cut into pairs."""
    folder = tmp_path_factory.mktemp("project")
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefghijklm", k=draw.randint(2, 7))) for _ in range(150)]
    lines = [
        " ".join(draw.choices(words, k=draw.randint(4, 12))) + ("." if draw.random() < 0.8 else ".\n")
        for _ in range(LINES)
    ]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.replace("WORKDIR", str(folder / "run")).replace("CORPUS", str(folder / "corpus.txt")))
    for stage in ("tokenize", "build-pairs"):
        subprocess.run([sys.executable, "-c", COMMAND, stage, str(path)], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def fresh(recipe: Path) -> list[Path]:
    """Two runs in two fresh processes, at the same time, with other hash seeds."""
    outs = [recipe.with_name(f"fresh-{number}") for number in (1, 2)]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", COMMAND, "pretrain", str(recipe), "--out", str(out)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": str(number)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, out in enumerate(outs)
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    return outs


@pytest.fixture
def start(server: "subprocess.Popen[str]", recipe: Path, tmp_path: Path) -> Callable[..., Run]:
    """Starts pretraining into `tmp_path/run`."""

    def begin(*options: str, **environment: str) -> Run:
        return Run(server, recipe, tmp_path / "run", *options, **environment)

    return begin


def test_same_seed_same_bytes_other_seed_other_bytes(fresh: list[Path], start: Callable[..., Run]) -> None:
    first, second = fresh
    assert model_hash(first) == model_hash(second)
    assert log_lines(first) == log_lines(second)
    losses = [line["loss"] for line in log_lines(first) if line["split"] == "train"]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0], "nothing was trained"
    run = start("--set", "seed=8")
    assert run.wait() == 0, run.text()
    assert model_hash(run.out) != model_hash(first)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_kill_at_random_points_and_resume(
    fresh: list[Path], start: Callable[..., Run], precision: str, tmp_path: Path
) -> None:
    """One run, killed without warning at 5 steps and moments that a seed draws (printed), until it is done."""
    draw = random.Random(f"{SEED} {precision}")
    kills = sorted((draw.randint(1, STEPS - 5), round(draw.uniform(0, 0.03), 4)) for _ in range(5))
    print(f"kills (step, seconds after): {kills}")
    options = ("--set", f"pretrain.training.precision={precision}")
    for number, (step, delay) in enumerate(kills):
        run = start(*options, *(["--resume"] if number else []))
        assert run.send_at(step, signal.SIGKILL, delay) == -signal.SIGKILL, run.text()
    run = start(*options, "--resume")
    assert run.wait() == 0, run.text()
    reference = fresh[0]
    if precision == "bf16":
        whole = Run(run.server, Path(fresh[0].parent / "recipe.yaml"), tmp_path / "whole", *options)
        assert whole.wait() == 0, whole.text()
        reference = whole.out
        assert model_hash(reference) != model_hash(fresh[0]), "bf16 was not used"
    assert model_hash(run.out) == model_hash(reference)
    assert log_lines(run.out) == log_lines(reference)
    assert {path.name for path in run.out.iterdir()} == {path.name for path in reference.iterdir()}


POINTS = (
    "after file step-15/optimizer.safetensors",
    "before rename step-15",
    "during delete step-5",
    "before rename model",
)


def test_kill_inside_a_save(fresh: list[Path], start: Callable[..., Run]) -> None:
    for number, point in enumerate(POINTS):
        run = start(*(["--resume"] if number else []), BERTCTL_TEST_DIE_AT=point)
        assert run.wait() == -signal.SIGKILL, f"{point} was never reached: {run.text()}"
    run = start("--resume")
    assert run.wait() == 0, run.text()
    assert model_hash(run.out) == model_hash(fresh[0])
    assert saved_steps(run.out) == saved_steps(fresh[0])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138)])
def test_signal_saves_and_resume_equals(fresh: list[Path], start: Callable[..., Run], number: int, code: int) -> None:
    run = start()
    began = time.monotonic()
    assert run.send_at(7, number) == code, run.text()
    assert time.monotonic() - began < 70
    step = saved_steps(run.out)[-1]
    assert step == last_step(run.out) >= 7, "it saved at the step at which it stopped"
    assert f"step {step}" in run.text()
    assert "--resume" in run.text()
    run = start("--resume")
    assert run.wait() == 0, run.text()
    assert model_hash(run.out) == model_hash(fresh[0])
    assert log_lines(run.out) == log_lines(fresh[0])


def test_damaged_newest_checkpoint_is_stepped_over(fresh: list[Path], start: Callable[..., Run]) -> None:
    run = start()
    assert run.send_at(12, signal.SIGTERM) == 143, run.text()
    newest = run.out / "checkpoints" / f"step-{saved_steps(run.out)[-1]}"
    content = bytearray((newest / "model.safetensors").read_bytes())
    content[-100] ^= 1
    (newest / "model.safetensors").write_bytes(content)
    run = start("--resume")
    assert run.wait() == 0, run.text()
    assert [newest.name in line for line in run.text().splitlines() if "stepping back" in line] == [True]
    assert model_hash(run.out) == model_hash(fresh[0])


CHANGES = {
    "pretrain.training.batch_size=4": "batch_size: 8 -> 4",
    "pretrain.training.optimizer.lr=2e-3": "lr: 0.001 -> 0.002",
    "pretrain.training.steps=50": "steps: 40 -> 50",
    "pretrain.training.schedule.name=cosine": "schedule.name: linear -> cosine",
    "pretrain.encoder.hidden_dropout_prob=0": "hidden_dropout_prob: None -> 0.0",
    "seed=8": "seed: 7 -> 8",
}


def test_resume_with_a_changed_recipe_is_refused(fresh: list[Path], start: Callable[..., Run]) -> None:
    run = start()
    assert run.send_at(6, signal.SIGTERM) == 143, run.text()
    before = {path: path.stat().st_mtime_ns for path in run.out.rglob("*") if path.name != ".lock"}
    for change, message in CHANGES.items():
        run = start("--resume", "--set", change)
        assert run.wait() == 2, run.text()
        errors = [line for line in run.text().splitlines() if line.startswith("error")]
        assert len(errors) == 1, errors
        assert message in errors[0]
    assert {path: path.stat().st_mtime_ns for path in run.out.rglob("*") if path.name != ".lock"} == before
    run = start()
    assert run.wait() == 2
    assert "--resume" in run.text()


def test_resume_of_a_finished_run_changes_nothing(
    server: "subprocess.Popen[str]", recipe: Path, fresh: list[Path]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in fresh[1].rglob("*")}
    run = Run(server, recipe, fresh[1], "--resume")
    assert run.wait() == 0, run.text()
    assert {path: path.stat().st_mtime_ns for path in fresh[1].rglob("*")} == before


def test_not_finite_leaves_finite_weights(start: Callable[..., Run]) -> None:
    settings = ("optimizer.lr=1e20", "schedule.warmup_steps=0", "save_every_steps=1")
    run = start(*(part for setting in settings for part in ("--set", f"pretrain.training.{setting}")))
    assert run.wait() == 4, run.text()
    errors = [line for line in run.text().splitlines() if line.startswith("error")]
    assert len(errors) == 1
    assert "step " in errors[0]
    assert "Traceback" not in run.text()
    from bertctl.artifacts.tensors import load_tensors

    stored = list(run.out.rglob("model.safetensors"))
    assert stored, "there is a last good checkpoint"
    for path in stored:
        verify(path.parent)
        assert all(tensor.isfinite().all() for tensor in load_tensors(path).values())
    assert not (run.out / "manifest.json").exists()


def test_two_ranks_equal_one(recipe: Path, start: Callable[..., Run], tmp_path: Path) -> None:
    """Dropout is off, since each rank draws its own; gloo on the CPU."""
    settings = [
        "pretrain.training.steps=20",
        "pretrain.encoder.hidden_dropout_prob=0",
        "pretrain.encoder.attention_probs_dropout_prob=0",
    ]
    options = [part for setting in settings for part in ("--set", setting)]
    one = start(*options)
    assert one.wait() == 0, one.text()
    two = tmp_path / "two"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "bertctl"]
    done = subprocess.run(
        [*launch, "pretrain", str(recipe), "--out", str(two), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verify(two, kind="pretrain")
    pairs = list(zip(log_lines(one.out), log_lines(two), strict=True))
    assert pairs
    for line, other in pairs:
        assert line.keys() == other.keys()
        for key, value in line.items():
            close = pytest.approx(value, rel=1e-6 if "loss" in key else 1e-4) if isinstance(value, float) else value
            assert other[key] == close, f"step {line['step']}: {key}"
    from bertctl.artifacts.tensors import load_tensors

    theirs = load_tensors(two / "model" / "model.safetensors")
    for name, tensor in load_tensors(one.out / "model" / "model.safetensors").items():
        assert (tensor - theirs[name]).abs().max() < 1e-5, name


if __name__ == "__main__":
    serve()
