"""The output folder of a training run: its lock, checkpoints, log lines and finished model.

    out/metrics.jsonl            one JSON object a line, appended
    out/checkpoints/step-N/      model.safetensors, optimizer.safetensors, state.json, manifest.json
    out/model/                   the finished model, with a manifest of its own; other models beside it likewise
    out/result.json              what the stage returned
    out/manifest.json            written last: a run is finished when this is there

Learning rate, data position and dropout are pure functions of the step, so weights, optimizer state and the step's
number are all that a resumed run needs to equal the uninterrupted one bit for bit. Only rank 0 writes.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from bertctl import console
from bertctl.artifacts.checkpoint import KIND as CHECKPOINT
from bertctl.artifacts.checkpoint import latest_checkpoint, prune_checkpoints, step_of
from bertctl.artifacts.files import clean_leftovers
from bertctl.artifacts.folder import KEPT, lock, whole_folder, write_whole
from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.artifacts.manifest import verify, write_manifest
from bertctl.artifacts.tensors import finite, load_tensors, save_tensors
from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError, NonFinite, raise_problems
from bertctl.training.metrics_log import MetricsLog
from bertctl.training.runtime import Runtime
from bertctl.training.state import (
    load_model_tensors,
    load_optimizer_tensors,
    optimizer_tensors,
    parameter_names,
)


class RunFolder:
    """A context manager around one run in `out`.

    Args: `kind` the stage; `resume` go on with what is in `out` (from the start if nothing is); `keep` how many
    checkpoints stay; `fingerprint` JSON values that must not change on resume (nested ones are told by dotted key);
    `inputs` name and hash of what the run reads; `rank` of this process.
    Errors on entering: BertctlError if `out` holds a run and `resume` is False, or if the finished run in it had
    another fingerprint; EnvironmentFault if a live run holds it.
    """

    def __init__(
        self,
        out: Path,
        *,
        kind: str,
        resume: bool,
        keep: int,
        fingerprint: Mapping[str, Any],
        inputs: Mapping[str, str] | None = None,
        rank: int = 0,
    ) -> None:
        self.out, self.kind, self.resume, self.keep, self.rank = out, kind, resume, keep, rank
        self.fingerprint: dict[str, Any] = _flat(json.loads(json.dumps(fingerprint, allow_nan=False)))
        self.inputs = dict(inputs or {})
        self.checkpoints, self.metrics = out / "checkpoints", MetricsLog(out / "metrics.jsonl")
        self.state: dict[str, Any] = {}
        self.finished = False
        self.saved_step: int | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            self.finished = self.resume and (self.out / MANIFEST).exists()
            if self.finished:
                self._check_finished()
            elif self.rank == 0:
                stack.enter_context(lock(self.out))
                self._refuse_other_run()
                clean_leftovers(self.out)
                clean_leftovers(self.checkpoints)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.metrics.close()
        self._stack.close()

    def _check_finished(self) -> None:
        manifest = verify(self.out, kind=self.kind)
        self._check_fingerprint(manifest.facts.get("fingerprint", {}))

    def _refuse_other_run(self) -> None:
        held = sorted(path.name for path in self.out.iterdir() if path.name not in KEPT)
        if not held or self.resume:
            return
        what = "a finished run" if (self.out / MANIFEST).exists() else "an earlier run" if _is_run(held) else held[0]
        hint = "go on with it by --resume, or name another folder with --out"
        raise BertctlError(f"{self.out}: holds {what}, expected a new or empty folder", hint=hint)

    def _check_fingerprint(self, old: Mapping[str, Any]) -> None:
        absent = "(absent)"
        pairs = {key: (old.get(key, absent), self.fingerprint.get(key, absent)) for key in {**old, **self.fingerprint}}
        changed = [f"{self.out}: {key}: {was} -> {now}" for key, (was, now) in pairs.items() if was != now]
        hint = "a resumed run must equal the uninterrupted one: undo the change, or start in a new folder with --out"
        raise_problems(changed, hint=hint)

    @property
    def result(self) -> dict[str, Any]:
        """The stored result of a finished run."""
        path = self.out / "result.json"
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = None
        if not isinstance(stored, dict):
            raise BertctlError(f"{path}: missing or damaged, expected the result of this finished run")
        return stored

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Load the newest intact checkpoint into `model` and `optimizer`; returns its step, 0 if there is none.

        What the stage had saved beside is then in `self.state`, and lines of metrics.jsonl from later steps are gone.
        Errors: BertctlError listing `key: old -> new` of a changed fingerprint, or if every checkpoint is damaged.
        """
        quiet = self.rank != 0
        path = latest_checkpoint(self.checkpoints, say=_say_nothing if quiet else console.warn) if self.resume else None
        if path is not None:
            stored = json.loads((path / "state.json").read_text(encoding="utf-8"))
            self._check_fingerprint(stored["fingerprint"])
            load_model_tensors(model, load_tensors(path / "model.safetensors"))
            load_optimizer_tensors(
                optimizer, parameter_names(optimizer, model), load_tensors(path / "optimizer.safetensors")
            )
            self.state, self.saved_step = stored["state"], step_of(path)
        if self.rank == 0:
            self.metrics.cut(self.saved_step)
        return self.saved_step or 0

    def save(
        self,
        step: int,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Write checkpoint `step`, whole or not at all, then drop the older ones once it verifies.

        `state` is JSON that the stage wants back, such as its best score so far. Errors: NonFinite (nothing is
        written and the last good checkpoint stays), EnvironmentFault.
        """
        if self.rank != 0 or self.saved_step == step:
            return
        weights = model_tensors(model)
        _check_finite(weights, f"step {step}")
        final = self.checkpoints / f"step-{step}"
        with whole_folder(final, kind=CHECKPOINT, inputs=self.inputs, facts={"step": step}, replace=True) as temp:
            save_tensors(temp / "model.safetensors", weights, {"format": "pt"})
            moments = optimizer_tensors(optimizer, parameter_names(optimizer, model))
            save_tensors(temp / "optimizer.safetensors", moments, {"format": "pt"})
            stored = {"step": step, "fingerprint": self.fingerprint, "state": dict(state or {})}
            write_whole(temp / "state.json", json.dumps(stored, indent=1, allow_nan=False) + "\n")
        self.saved_step = step
        prune_checkpoints(self.checkpoints, self.keep)

    def log(self, line: Mapping[str, Any]) -> None:
        """Append one JSON object, with a `step` in it, to metrics.jsonl. Errors: EnvironmentFault."""
        if self.rank == 0:
            self.metrics.write(line)

    def finish(
        self,
        write_model: Callable[[Path], None],
        result: Mapping[str, Any],
        beside: Mapping[str, Callable[[Path], None]] | None = None,
    ) -> None:
        """Write `model/` (by `write_model` into a temp folder), models with a name `beside` it, result.json, and last
        the run's manifest.

        Errors: NonFinite if a weight is not finite (no model is written), EnvironmentFault.
        """
        if self.rank != 0:
            return
        for name, write in {**(beside or {}), "model": write_model}.items():
            with whole_folder(self.out / name, kind="model", inputs=self.inputs, replace=True) as temp:
                write(temp)
                _check_finite(load_tensors(temp / "model.safetensors"), f"the finished {name}")
        write_whole(self.out / "result.json", json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
        write_manifest(self.out, kind=self.kind, inputs=self.inputs, facts={"fingerprint": self.fingerprint})


def restore_together(folder: RunFolder, model: nn.Module, optimizer: torch.optim.Optimizer, runtime: Runtime) -> int:
    """`RunFolder.restore` on every rank. Errors: as there, and WorkerLost if the ranks found different steps."""
    runtime.barrier()  # until then rank 0 may be putting back what a kill left between two renames
    return runtime.agreed(folder.restore(model, optimizer), "the step of the newest checkpoint")


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return flat


def _is_run(names: list[str]) -> bool:
    return bool({"checkpoints", "metrics.jsonl", "model"} & set(names))


def _say_nothing(text: str) -> None:
    """Every rank looks for the newest checkpoint; only rank 0 tells what it saw."""


def _check_finite(weights: Mapping[str, Tensor], where: str) -> None:
    bad = [name for name, tensor in weights.items() if not finite(tensor)]
    if bad:
        problem = f"{where}: weight {bad[0]!r} holds NaN or infinity ({len(bad)} tensors do); it was not written"
        raise NonFinite(
            problem, hint="lower optimizer.lr or lengthen the warm-up, then resume from the last checkpoint"
        )
