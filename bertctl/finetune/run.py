"""Stage 4: fine-tune a checkpoint for a task. Read it from top to bottom."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertctl.artifacts.checkpoint import read_config
from bertctl.console import note
from bertctl.errors import BertctlError
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.curve import learning_curve
from bertctl.finetune.data import TaskData, prepare_data
from bertctl.finetune.folds import cross_validate
from bertctl.finetune.objective import objective_maker
from bertctl.finetune.result import choose, summarise
from bertctl.finetune.search import draw, search, sections_of
from bertctl.finetune.several import Project, Trial, Way, copy_model, explore
from bertctl.finetune.start import (
    BOOKKEEPING,
    FROM_SCRATCH,
    PRETRAINED,
    build_model,
    known_labels,
    resolve_source,
    resolve_training,
    task_of,
)
from bertctl.finetune.states import forget, remember
from bertctl.finetune.strategy import check_strategy, prepare
from bertctl.finetune.strategy_config import EVERYTHING, StrategySection
from bertctl.finetune.train import Plan, train_one
from bertctl.heads.model import Model
from bertctl.tasks.lengths import longest_input
from bertctl.tasks.preprocessing import preprocessor, refuse_other_inputs
from bertctl.tasks.splits import training_data
from bertctl.tasks.task import Splits, Task
from bertctl.training import runtime as runtimes
from bertctl.training.config import TrainingSection
from bertctl.training.origin import origin_hash
from bertctl.training.run_folder import RunFolder
from bertctl.training.runtime import Runtime
from bertctl.training.steps import describe
from bertctl.variants.config import read_encoder_config

if TYPE_CHECKING:
    from bertctl.tasks.task import MakeObjective

BESIDE_TRAINING = ("baselines", "folds", "train_fraction", "search")  # what one training does not know of


def run(section: FinetuneSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Fine-tune as the section says: once, or many times over folds, over shares of the training data, or in search of
    better settings. The model is then in `out/model`. Returns the result that is also in result.json.

    Errors: BertctlError, NonFinite, Stopped, WorkerLost, EnvironmentFault.
    """
    task = task_of(section)
    check_early(section, task, seed)
    splits = training_data(task, section.data, seed=seed, holds_out=section.folds is None)
    task = task.fitted(task.scored(splits.dev or splits.train))
    if section.folds is not None and task.scored(splits.train) != splits.train:
        raise BertctlError(f"folds: {task.name} ranks the texts of a split among each other; give a dev file instead")
    way = way_of(section)
    with runtimes.start(section.training.precision) as runtime:
        if way is None:
            return fine_tune(section, splits, None, out=out, seed=seed, resume=resume, runtime=runtime)
        labels = task.labels([*splits.train, *splits.dev])

        def train(trial: Trial) -> dict[str, Any]:
            place = project.folder(trial.name)
            done = fine_tune(trial.section, trial.splits, labels, out=place, seed=seed, resume=resume, runtime=runtime)
            runtime.barrier()  # what the first rank has written is read by all
            return done

        project = Project(section, task, splits, labels, seed, out, train, writes=runtime.rank == 0)
        return explore(way, project, resume=resume, runtime=runtime)


def check_early(section: FinetuneSection, task: Task, seed: int) -> None:
    """What is missing, or cannot be, is said before the data are read. Errors: BertctlError."""
    source = resolve_source(section)
    config = read_encoder_config(source, read_config(source))[1]
    refuse_other_inputs(task, config, source)
    check_strategy(section.strategy, config)
    longest_input(section.max_length, config.max_position_embeddings, key="finetune.max_length")
    if section.search is not None:
        sections_of(section, list(draw(section.search, seed)))


def way_of(section: FinetuneSection) -> Way | None:
    """How many fine-tunings make the result, if it is not one."""
    if section.folds is not None:
        return cross_validate
    if section.train_fraction:
        return learning_curve
    return search if section.search is not None else None


def fine_tune(
    section: FinetuneSection,
    splits: Splits,
    labels: list[str] | None,
    *,
    out: Path,
    seed: int,
    resume: bool,
    runtime: Runtime,
) -> dict[str, Any]:
    """Train once for each seed (and again from fresh weights, if asked), each in a folder below `out/runs`; the run
    with the best dev metric becomes `out/model`. `labels`: all that there are, if train may lack some."""
    began = time.monotonic()
    work = set_up(section, splits, labels, precision=str(runtime.dtype))
    seeds = [seed + number for number in range(section.seeds)]
    with RunFolder(
        out,
        kind="finetune",
        resume=resume,
        keep=section.training.keep_checkpoints,
        fingerprint=work.fingerprint | {"seeds": seeds, "from_scratch": section.from_scratch},
        inputs=work.data.hashes,
        rank=runtime.rank,
    ) as folder:
        if folder.finished:
            note(f"{out}: this run is finished; nothing to do")
            return folder.result
        runs = {
            variant: [train_run(work, variant, one, folder, runtime, tell=one == seed) for one in seeds]
            for variant in (PRETRAINED, FROM_SCRATCH)[: 1 + section.from_scratch]
        }
        chosen = choose(runs[PRETRAINED], work.data.task.metric)
        result = summarise(work.data, runs, chosen, baselines=section.baselines)
        result |= {"seconds": round(time.monotonic() - began, 2)}
        forget(out)
        kept = run_folder(out, PRETRAINED, chosen["seed"]) / "model"
        folder.finish(lambda temp: copy_model(kept, temp), result)
        return result


@dataclass(frozen=True)
class Work:
    """One fine-tuning, read and checked: what its runs, one for each variant and seed, have in common. `strategies` and
    `trainings`, which have their steps counted and a number for a rate, go by variant."""

    section: FinetuneSection
    source: Path
    data: TaskData
    make_objective: "MakeObjective"
    strategies: dict[str, StrategySection]
    trainings: dict[str, TrainingSection]
    fingerprint: dict[str, Any]


def set_up(section: FinetuneSection, splits: Splits, labels: list[str] | None, *, precision: str) -> Work:
    """Check the recipe against the checkpoint, encode the data for it, and count the steps. Errors: BertctlError."""
    task, source = task_of(section), resolve_source(section)
    config = read_encoder_config(source, read_config(source))[1]
    check_strategy(section.strategy, config)
    data = prepare_data(
        task,
        section.data,
        splits,
        preprocessor(source, config),
        max_length=longest_input(section.max_length, config.max_position_embeddings, key="finetune.max_length"),
        labels=labels or task.labels(splits.train),
        known=known_labels(source, task.head),
        embedding=section.embedding,
    )
    strategies = {PRETRAINED: section.strategy, FROM_SCRATCH: EVERYTHING}  # fresh weights are all trained
    trainings = {
        variant: resolve_training(section.training, data.items, config.hidden_size, strategy)
        for variant, strategy in strategies.items()
    }
    return Work(
        section=section,
        source=source,
        data=data,
        make_objective=objective_maker(section, data),
        strategies=strategies,
        trainings=trainings,
        fingerprint=fingerprint_of(section, source, data, trainings[PRETRAINED], precision=precision),
    )


def train_run(
    work: Work, variant: str, seed: int, folder: RunFolder, runtime: Runtime, *, tell: bool
) -> dict[str, Any]:
    """Train one variant with one seed, in a run folder of its own below `folder`; the run's result."""
    section, data = work.section, work.data
    training, strategy = work.trainings[variant], work.strategies[variant]
    model = build_model(section, work.source, data, variant=variant, seed=seed)
    prepare(model, strategy, seed)
    say_start(variant, seed, model, training, runtime)
    plan = Plan(
        name=f"{data.task.name} {variant} seed {seed}",
        training=training,
        strategy=strategy,
        tell=tell,
        seed=seed,
        patience=section.patience,
        resume=folder.resume,
        fingerprint=work.fingerprint | {"variant": variant, "seed": seed},
        extra={"stage": "finetune", **data.noted, **data.task.noted(section.embedding)},
    )
    objective = work.make_objective(model, runtime, training.micro_batch_size).to(runtime.device)
    if strategy.keeps_states:
        model.recall = remember(model, data, folder.out, 2 * training.batch_size, runtime)
    return train_one(model, objective, data, plan, run_folder(folder.out, variant, seed), runtime)


def run_folder(out: Path, variant: str, seed: int) -> Path:
    """Where one run lives."""
    return out / "runs" / f"{variant}-seed{seed}"


def fingerprint_of(
    section: FinetuneSection, source: Path, data: TaskData, training: TrainingSection, *, precision: str
) -> dict[str, Any]:
    """Everything that must be equal for a resumed run to equal the uninterrupted one."""
    apart = {"name", "data", "training", "seeds", "from_scratch", *BESIDE_TRAINING}
    values = section.model_dump(mode="json", exclude=apart) | {"labels": data.labels, "precision": precision}
    values["model"] = origin_hash(source)
    return {**values, **data.noted, **data.hashes, "training": training.model_dump(mode="json", exclude=BOOKKEEPING)}


def say_start(variant: str, seed: int, model: Model, training: TrainingSection, runtime: Runtime) -> None:
    """One line before each run."""
    rate = f"{training.optimizer.lr:.3g}"
    note(
        f"{variant}, seed {seed}: {describe(model)}; {training.steps:,} steps of {training.batch_size}, rate {rate}, "
        f"on {runtimes.describe(runtime)}"
    )
