"""The best weights so far by the dev metric, and when to stop waiting for better ones."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from bertctl.artifacts.folder import environment_faults, whole_folder
from bertctl.artifacts.manifest import verify
from bertctl.artifacts.tensors import load_tensors, save_tensors
from bertctl.encoder.sharing import model_tensors
from bertctl.training.state import load_model_tensors

KIND = "best"
FOLDER = "best"  # beside the step-N checkpoints, which hold what belongs to it in their state


@dataclass
class Best:
    """The step with the best dev metric, and how many evaluations there were since.

    The counts travel in every checkpoint, the weights in a folder beside. If a run is killed between a new best and
    the next checkpoint, the resumed run goes back to counts that are older than the folder: it then comes to the same
    new best again, since a resumed run repeats the uninterrupted one, and writes the same folder.
    """

    step: int = 0
    value: float | None = None
    evaluated: int = 0
    """The last step that was evaluated."""
    without_better: int = 0
    """Evaluations since the best one."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Best":
        """What a checkpoint kept."""
        return cls(**state.get("best", {}))

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": asdict(self)}

    def add(self, step: int, value: float | None) -> bool:
        """Count an evaluation; True if it is the best so far. The first one is; of equal ones the earlier stays; an
        undefined metric is worse than any value."""
        better = self.step == 0 or (value is not None and (self.value is None or value > self.value))
        self.evaluated = step
        self.without_better = 0 if better else self.without_better + 1
        if better:
            self.step, self.value = step, value
        return better

    def exhausted(self, patience: int | None) -> bool:
        """Whether to stop early."""
        return patience is not None and self.without_better >= patience


def save_best(checkpoints: Path, step: int, model: nn.Module) -> None:
    """Put the model's weights into the folder of the best ones."""
    with whole_folder(checkpoints / FOLDER, kind=KIND, inputs={}, facts={"step": step}, replace=True) as temp:
        save_tensors(temp / "model.safetensors", model_tensors(model), {"format": "pt"})


def load_best(checkpoints: Path, step: int, model: nn.Module) -> None:
    """Load the best weights, which must be those of `step`."""
    folder = checkpoints / FOLDER
    found = verify(folder, kind=KIND).facts.get("step")
    if found != step:  # no way leads here but a change of the folder by hand
        raise RuntimeError(f"{folder} holds step {found}, expected {step}")
    load_model_tensors(model, load_tensors(folder / "model.safetensors"))


def drop_best(checkpoints: Path) -> None:
    """Remove the folder of a finished run: its `model/` holds these weights."""
    with environment_faults(checkpoints):
        shutil.rmtree(checkpoints / FOLDER, ignore_errors=True)
