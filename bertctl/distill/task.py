"""Distilling for a task: the teacher is fine-tuned, and fine-tuning's own trainer trains the student."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.distill.config import DistillSection
from bertctl.distill.objective import DistillationObjective, TaskReader
from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError, raise_problems
from bertctl.finetune.data import TaskData, longest_input, open_data
from bertctl.finetune.start import resolve_training
from bertctl.finetune.train import Plan, train_one
from bertctl.heads.model import Model
from bertctl.metrics.rows import Metric
from bertctl.tasks.batches import collate, predict_chunks
from bertctl.tasks.table import TASKS
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import Batch
from bertctl.training.config import TrainingSection
from bertctl.training.run_folder import RunFolder
from bertctl.training.runtime import Runtime
from bertctl.training.state import load_model_tensors
from bertctl.variants.hf import Loaded, load_model

SPEED_EXAMPLES = 32
RUNS = "runs"  # the trainer keeps a run folder of its own below this one


@dataclass
class ForTask:
    """The task half of the stage. `training` has its steps counted and its rate a number."""

    section: DistillSection
    data: TaskData
    training: TrainingSection
    reader: TaskReader
    runtime: Runtime
    seed: int
    teacher: Model
    settings: dict[str, Any] = field(default_factory=dict)
    """What the student's dev scores found, such as a temperature."""

    @property
    def metric(self) -> str:
        """The task's own metric."""
        return self.data.task.metric

    @property
    def labels(self) -> list[str] | None:
        """The teacher's labels in the order of its outputs."""
        return self.data.labels

    @property
    def hashes(self) -> dict[str, str]:
        """What the run reads, by hash."""
        return self.data.hashes

    @property
    def extra(self) -> dict[str, Any]:
        """What the student's config.json notes, as that of a fine-tuned model."""
        return self.data.noted | ({"settings": self.settings} if self.settings else {})

    @property
    def longest(self) -> int:
        """Word pieces of the longest input that there may be."""
        return self.data.limits.max_length

    def speed_batch(self) -> Batch:
        """Training inputs from all lengths, [at most 32, T]."""
        ids = np.linspace(0, len(self.data.train) - 1, min(SPEED_EXAMPLES, len(self.data.train))).round().astype(int)
        return collate([self.data.train[i] for i in ids], self.teacher, self.data.tokenizer.pad_id)

    def train(self, objective: DistillationObjective, folder: RunFolder, *, resume: bool) -> dict[str, Any]:
        """Train the student; the dev set picks the weights. Errors: NonFinite, Stopped."""
        plan = Plan(
            name=f"distill {self.data.task.name}",
            training=self.training,
            seed=self.seed,
            patience=self.section.patience,
            resume=resume,
            fingerprint=folder.fingerprint,
            extra={"stage": "distill", **self.extra},
        )
        place = folder.out / RUNS / "student"
        finished = resume and (place / MANIFEST).exists()
        done = train_one(objective.student, objective, self.data, plan, place, self.runtime)
        if finished:  # then nothing was trained now, and the weights are on disk only
            load_model_tensors(objective.student, model_tensors(load_model(place / "model").model))
        self.settings = done["settings"]
        kept = ("steps", "best_step", "dev", "degenerate", "tokens_per_second")
        return {**{key: done[key] for key in kept}, "scored_split": self.data.scored, "task": self.data.task.name}

    def score(self, model: Model) -> dict[str, Metric]:
        """The task's metrics on test, or dev if there is none, in float32 as `evaluate` computes them."""
        data = self.data
        chunks, examples = (data.test, data.splits.test) if data.scored == "test" else (data.dev, data.splits.dev)
        predictions, _ = predict_chunks(
            data.task,
            model,
            chunks,
            data.labels,
            settings={},
            pad_id=data.tokenizer.pad_id,
            batch_size=2 * self.training.batch_size,
            runtime=replace(self.runtime, dtype=torch.float32),
        )
        return data.task.score(examples, predictions, data.labels)


def open_task(
    section: DistillSection, teacher: Loaded, tokenizer: Tokenizer, *, seed: int, runtime: Runtime
) -> ForTask:
    """Read the labelled data and check that the teacher knows the task. Errors: BertctlError."""
    assert section.task is not None  # the caller asked because there is one
    task, model = TASKS[section.task], teacher.model
    if task.head not in model.head_outputs or teacher.labels is None:
        raise BertctlError(
            f"{section.teacher}: has no {task.head} head with named labels, expected one fine-tuned for {task.name}",
            hint=f"bertctl finetune --task {task.name} --model {section.teacher} --data DIR",
        )
    asked = section.max_length or teacher.extra.get("max_length")
    length = longest_input(asked, model.config.max_position_embeddings)
    data = open_data(task, section.data, tokenizer, max_length=length, seed=seed, labels=teacher.labels)
    unknown = [label for label in data.labels if label not in teacher.labels]
    has = ", ".join(teacher.labels)
    raise_problems(
        [f"{section.teacher}: has no label {label!r}, which the data have; it has {has}" for label in unknown]
    )
    training = resolve_training(section.training, len(data.train), model.config.hidden_size)
    return ForTask(section, data, training, TaskReader(task.head), runtime, seed, model)
