"""Trains one model for a task and scores it: used by fine-tuning, and by distillation with another objective."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from bertctl.console import Progress, note
from bertctl.errors import Stopped
from bertctl.finetune.best import Best, drop_best, load_best, save_best
from bertctl.finetune.data import TaskData
from bertctl.finetune.groups import parameter_groups, show_table, table
from bertctl.finetune.lora import merge_lora
from bertctl.finetune.score import score_run
from bertctl.finetune.strategy_config import EVERYTHING, StrategySection
from bertctl.heads.model import Model
from bertctl.tasks.batches import TrainingBatches
from bertctl.tasks.predicting import Chunk, predict_chunks
from bertctl.tasks.task import Prediction
from bertctl.training.batching import Batch, Prefetch
from bertctl.training.config import TrainingSection
from bertctl.training.loop import Step, fit
from bertctl.training.meter import Meter
from bertctl.training.optim import group_optimizer, set_trainable, stretches
from bertctl.training.run_folder import RunFolder, restore_together
from bertctl.training.runtime import Runtime
from bertctl.training.schedule import lr_share
from bertctl.training.steps import due, step_line
from bertctl.variants.hf import save_model

KIND = "task_run"


@dataclass(frozen=True)
class Plan:
    """How one model is trained. `training` has its `steps`, and its rate is a number; `fingerprint` is everything else
    that must not change on resume; `extra` goes into the model's config.json; `tell`: print the parameter groups."""

    name: str
    training: TrainingSection
    seed: int
    patience: int | None
    resume: bool
    fingerprint: Mapping[str, Any]
    extra: dict[str, Any]
    strategy: StrategySection = EVERYTHING
    tell: bool = True


class Trainee:
    """A model in training, with its folder: what the loop's body works on."""

    def __init__(self, model: Model, objective: nn.Module, data: TaskData, plan: Plan, runtime: Runtime) -> None:
        self.model, self.objective, self.data, self.plan, self.runtime = model, objective, data, plan, runtime
        self.batches = training_batches(data, plan, model, runtime)
        section, in_epoch = plan.training.optimizer, self.batches.steps_in_epoch
        self.groups = parameter_groups(objective, model, plan.strategy, section.lr, steps_in_epoch=in_epoch)
        self.optimizer = group_optimizer(section, self.groups)
        self.best = Best()
        self.evaluate_every = plan.training.evaluate_every_steps or in_epoch

    def restore(self, folder: RunFolder) -> int:
        """Load the newest checkpoint, if there is one; returns its step."""
        start = restore_together(folder, self.objective, self.optimizer, self.runtime)
        self.best = Best.from_state(folder.state)
        return start

    def save(self, folder: RunFolder, step: int) -> None:
        """Write a checkpoint: of the objective, which may train more than the model (a distillation's projection)."""
        folder.save(step, self.objective, self.optimizer, self.best.state())

    def predict(
        self, chunks: list[Chunk], runtime: Runtime, settings: Mapping[str, Any] | None
    ) -> tuple[list[Prediction], Mapping[str, Any]]:
        """Predictions of all examples in order, and the settings that they are made with: those found here if not
        given, on dev."""
        return predict_chunks(
            self.data.task,
            self.model,
            chunks,
            self.data.labels,
            settings=settings,
            pad_id=self.data.tokenizer.pad_id,
            batch_size=2 * self.plan.training.batch_size,
            runtime=runtime,
        )

    def evaluate(self, folder: RunFolder, step: int) -> None:
        """Score dev and keep the weights if they are the best so far."""
        task = self.data.task
        predictions, _ = self.predict(self.data.dev, self.runtime, None)
        metrics = task.score(self.data.splits.dev, predictions, self.data.labels)
        points = {name: metric.point() for name, metric in metrics.items()}
        better = self.best.add(step, points[task.metric])
        folder.log({"step": step, "split": "dev", **points, "best": better})
        if better and self.runtime.rank == 0:
            save_best(folder.checkpoints, step, self.model)


def train_one(model: Model, objective: nn.Module, data: TaskData, plan: Plan, out: Path, runtime: Runtime) -> Any:
    """Train `model` (inside `objective`) in the run folder `out`; the dev set picks the weights, which end in
    `out/model`; then the test set is scored once. Returns the run's result, also if `out` holds it already.

    Errors: NonFinite, Stopped, BertctlError if `out` holds another run.
    """
    began = time.monotonic()
    with RunFolder(
        out,
        kind=KIND,
        resume=plan.resume,
        keep=plan.training.keep_checkpoints,
        fingerprint=plan.fingerprint,
        inputs=data.hashes,
        rank=runtime.rank,
    ) as folder:
        if folder.finished:
            note(f"{plan.name}: finished before; kept")
            return folder.result
        trainee, meter = Trainee(model, objective, data, plan, runtime), Meter()
        start, groups = trainee.restore(folder), table(trainee.groups, plan.training.optimizer)
        if plan.tell:
            show_table(groups, plan.training.steps or 1)
        last = train_steps(trainee, folder, start, meter)
        take_best(trainee, folder)
        result = {
            "seed": plan.seed,
            "steps": last,
            "best_step": trainee.best.step,
            "dev": {data.task.metric: trainee.best.value},
            **score_run(trainee, folder),
            "parameter_groups": groups,
            "tokens_per_second": round(meter.overall(), 1),
            "seconds": round(time.monotonic() - began, 2),
        }
        finish(trainee, folder, result)
        return result


def train_steps(trainee: Trainee, folder: RunFolder, start: int, meter: Meter) -> int:
    """Train from step `start` to the last one, or until dev is no better for long; returns that step. Errors: Stopped,
    after saving; NonFinite."""
    plan, steps, last = trainee.plan, trainee.plan.training.steps or 1, start
    if trainee.best.evaluated < start and (due(start, trainee.evaluate_every) or start == steps):
        trainee.evaluate(folder, start)  # a signal came before this could be done
    with (
        Prefetch(trainee.batches, steps) as micro_batches,
        Progress(plan.name, "steps", steps, start=start) as progress,
    ):
        stop_at = start if trainee.best.exhausted(plan.patience) else steps
        for step in trained_steps(trainee, micro_batches, start, stop_at):
            last = step.number
            meter.add(step)
            stop = after_step(trainee, folder, step, meter)
            if stop:
                raise Stopped(stop, f"{plan.name}: stopped at step {last} of {steps}; go on by `--resume`")
            progress.update(last, f"loss {step.loss:.3f}  {progress_words(trainee)}")
            if trainee.best.exhausted(plan.patience):
                note(f"{plan.name}: no better {trainee.data.task.metric} in {plan.patience} evaluations; stopped early")
                break
    return last


def after_step(trainee: Trainee, folder: RunFolder, step: Step, meter: Meter) -> int | None:
    """Log, evaluate and save what is due after a step; the signal that asks to stop, if one does."""
    training = trainee.plan.training
    at_end = step.number == (training.steps or 1)
    if at_end or due(step.number, training.log_every_steps):
        folder.log(step_line(step, meter.lap()))
    stop = trainee.runtime.agree_on_signal()
    if not stop and (at_end or due(step.number, trainee.evaluate_every)):
        stop = evaluate_or_stop(trainee, folder, step.number)
    if stop or at_end or due(step.number, training.save_every_steps or trainee.evaluate_every):
        trainee.save(folder, step.number)
    return stop


def take_best(trainee: Trainee, folder: RunFolder) -> None:
    """The weights that were best on dev, as they are saved."""
    trainee.runtime.barrier()
    load_best(folder.checkpoints, trainee.best.step, trainee.model)
    trainee.model.recall = None  # scores of the finished model are its own
    merge_lora(trainee.model)


def finish(trainee: Trainee, folder: RunFolder, result: dict[str, Any]) -> None:
    """Write the model and the result, and drop the weights that were the best so far."""
    data, plan = trainee.data, trainee.plan
    extra = plan.extra | ({"settings": result["settings"]} if result["settings"] else {})
    write = partial(save_model, labels=data.labels or None, problem_type=data.task.problem_type, extra=extra)
    folder.finish(lambda temp: write(temp, trainee.model, data.tokenizer), result)
    if trainee.runtime.rank == 0:
        drop_best(folder.checkpoints)


def trained_steps(
    trainee: Trainee, micro_batches: Callable[[int], list[Batch]], start: int, stop: int
) -> Iterator[Step]:
    """The loop from step `start` + 1 to `stop`, begun anew where more parameters are to be trained."""
    training, steps = trainee.plan.training, trainee.plan.training.steps or 1
    for begin, end in stretches(trainee.groups, start, stop):
        set_trainable(trainee.groups, begin + 1)
        yield from fit(
            trainee.objective,
            micro_batches,
            optimizer=trainee.optimizer,
            schedule=lambda number: lr_share(training.schedule, number, steps),
            start=begin,
            steps=end,
            runtime=trainee.runtime,
            max_grad_norm=training.max_grad_norm,
            seed=trainee.plan.seed,
        )


def training_batches(data: TaskData, plan: Plan, model: Model, runtime: Runtime) -> TrainingBatches:
    """The micro-batches of every step."""
    return TrainingBatches(
        data.train,
        model,
        data.tokenizer.pad_id,
        plan.training.batch_size,
        plan.training.micro_batch_size if data.task.objective is None else None,
        plan.seed,
        runtime,
        grouped=data.task.grouped,
        alike=data.task.objective is None,
    )


def evaluate_or_stop(trainee: Trainee, folder: RunFolder, step: int) -> int | None:
    """Evaluate; the signal that interrupted it, if one did. The step is then evaluated after the resume."""
    try:
        trainee.evaluate(folder, step)
    except Stopped as stopped:
        return stopped.signal_number
    return None


def progress_words(trainee: Trainee) -> str:
    """The best dev metric so far."""
    value = trainee.best.value
    return "" if value is None else f"best dev {trainee.data.task.metric} {value:.4f}"
