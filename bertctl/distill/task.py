"""Distilling for a task: the teacher is fine-tuned, and fine-tuning's own trainer trains the student."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.distill.config import DistillSection
from bertctl.distill.objective import DistillationObjective, TaskReader
from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError
from bertctl.finetune.data import TaskData, prepare_data
from bertctl.finetune.start import resolve_training
from bertctl.finetune.train import Plan, train_one
from bertctl.heads.model import Model
from bertctl.metrics.rows import Metric
from bertctl.tasks.batches import collate
from bertctl.tasks.embedding_section import EmbeddingSection
from bertctl.tasks.kinds import raise_by_kind
from bertctl.tasks.label_checks import unknown_labels
from bertctl.tasks.lengths import longest_input
from bertctl.tasks.predicting import predict_chunks
from bertctl.tasks.preprocessing import refuse_other_inputs
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Task
from bertctl.tasks.texts import refuse_other_texts
from bertctl.training.batching import Batch, evenly
from bertctl.training.config import TrainingSection
from bertctl.training.run_folder import RunFolder
from bertctl.training.runtime import Runtime
from bertctl.training.state import load_model_tensors
from bertctl.variants.hf import Loaded, load_model

SPEED_EXAMPLES = 32
PREFIXES = ("query_prefix", "passage_prefix")
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
    known: dict[str, Any] = field(default_factory=dict)
    """What the teacher's checkpoint notes besides: its settings, and how it makes vectors."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the student's dev scores found, such as a temperature."""

    @property
    def metric(self) -> str:
        """The task's own metric."""
        return self.data.task.metric

    @property
    def labels(self) -> list[str] | None:
        """The teacher's labels in the order of its outputs; None for a task without."""
        return self.data.labels or None

    @property
    def hashes(self) -> dict[str, str]:
        """What the run reads, by hash."""
        return self.data.hashes

    @property
    def extra(self) -> dict[str, Any]:
        """What the student's config.json notes, as that of a fine-tuned model."""
        vectors = {key: self.known[key] for key in ("embedding",) if key in self.known}
        return self.data.noted | vectors | ({"settings": self.settings} if self.settings else {})

    @property
    def problem_type(self) -> str | None:
        """What transformers calls the problem."""
        return self.data.task.problem_type

    @property
    def longest(self) -> int:
        """Word pieces of the longest input that there may be; 0 for images, which have as many patches as the encoder
        makes of them."""
        return 0 if self.data.task.images else self.data.limits.max_length

    def speed_batch(self) -> Batch:
        """Training inputs from all lengths, [at most 32, T]."""
        chosen = evenly(len(self.data.train), SPEED_EXAMPLES)
        return collate([self.data.train[i] for i in chosen], self.teacher, self.data.tokenizer.pad_id)

    def train(self, objective: DistillationObjective, folder: RunFolder) -> dict[str, Any]:
        """Train the student; the dev set picks the weights. Errors: NonFinite, Stopped."""
        plan = Plan(
            name=f"distill {self.data.task.name}",
            training=self.training,
            seed=self.seed,
            patience=self.section.patience,
            resume=folder.resume,
            fingerprint=folder.fingerprint,
            extra={"stage": "distill", **self.extra},
        )
        place = folder.out / RUNS / "student"
        finished = folder.resume and (place / MANIFEST).exists()
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
            settings=self.known.get("settings", {}) if model is self.teacher else self.settings,
            pad_id=data.tokenizer.pad_id,
            batch_size=2 * self.training.batch_size,
            runtime=replace(self.runtime, dtype=torch.float32),
        )
        return data.task.score(examples, predictions, data.labels)


def open_task(section: DistillSection, teacher: Loaded, tokenizer: Any, *, seed: int, runtime: Runtime) -> ForTask:
    """Read the labelled data and check that the teacher knows the task. Errors: BertctlError."""
    assert section.task is not None  # the caller asked because there is one
    task, model = TASKS[section.task], teacher.model
    refuse_other_inputs(task, model.config, str(section.teacher))
    check_teacher(section, task, teacher)
    limit, noted = model.config.max_position_embeddings, teacher.extra.get("max_length")
    length = longest_input(section.max_length, limit, key="distill.max_length", noted=noted)
    splits = training_data(task, section.data, seed=seed)
    refuse_other_texts(splits.train, teacher.extra, str(section.teacher), "distill")
    known = teacher.labels if task.classes else None
    if known is not None:
        raise_by_kind(unknown_labels(task, splits.train, known, f"the teacher {section.teacher}"))
    vectors = teacher.extra.get("embedding") or {}
    prefixes = [str(vectors.get(name) or "") for name in PREFIXES]
    data = prepare_data(
        task,
        section.data,
        splits,
        tokenizer,
        max_length=length,
        labels=known or [],
        known=known,
        embedding=EmbeddingSection(query_prefix=prefixes[0], passage_prefix=prefixes[1]),
    )
    data = replace(data, task=replace(data.task, objective=None))  # the teacher's answers are what is learnt
    training = resolve_training(section.training, data.items, model.config.hidden_size)
    assert task.imitation is not None  # checked with the teacher
    reader = TaskReader(task, task.imitation)
    return ForTask(section, data, training, reader, runtime, seed, model, known=dict(teacher.extra))


def check_teacher(section: DistillSection, task: Task, teacher: Loaded) -> None:
    """Errors: BertctlError if the task cannot be distilled, or the teacher does not know it."""
    hint = f"bertctl finetune --task {task.name} --model {section.teacher} --data DIR"
    if task.imitation is None:
        able = ", ".join(name for name, one in TASKS.items() if one.imitation is not None)
        raise BertctlError(f"distill.task: {task.name} cannot be distilled, expected one of {able}")
    if task.head not in teacher.model.head_outputs or (task.classes and teacher.labels is None):
        named = " with named labels" if task.classes else ""
        raise BertctlError(
            f"{section.teacher}: has no {task.head} head{named}, expected one fine-tuned for {task.name}", hint=hint
        )
    noted = TASKS.get(str(teacher.extra.get("task")))
    if noted is not None and task.loss is not None and noted.loss is not task.loss:
        raise BertctlError(
            f"{section.teacher}: was fine-tuned for {noted.name}, expected a teacher of {task.name}", hint=hint
        )
