"""Stage 4: fine-tune a checkpoint for a task. Read it from top to bottom."""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bertctl.artifacts.checkpoint import read_config, resolve_model
from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.console import note
from bertctl.encoder.init import initialise
from bertctl.errors import BertctlError
from bertctl.finetune.config import FinetuneSection, FinetuneTrainingSection
from bertctl.finetune.data import TaskData, longest_input, open_data
from bertctl.finetune.objective import build_objective, loss_options
from bertctl.finetune.result import choose, summarise
from bertctl.finetune.states import forget, remember
from bertctl.finetune.strategy import check_strategy, prepare
from bertctl.finetune.strategy_config import EVERYTHING, StrategySection
from bertctl.finetune.train import Plan, train_one
from bertctl.heads.model import Model
from bertctl.heads.table import HEADS
from bertctl.tasks.config import PYTHON_DOCS
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Task
from bertctl.text.tokenizer import Tokenizer
from bertctl.training import runtime as runtimes
from bertctl.training.batching import mix
from bertctl.training.config import TrainingSection
from bertctl.training.origin import origin_hash
from bertctl.training.run_folder import RunFolder
from bertctl.training.runtime import Runtime
from bertctl.training.steps import describe
from bertctl.variants.hf import labels_of, load_model, read_encoder_config, stored_heads

FEWEST_EPOCHS, MOST_EPOCHS, FEWEST_STEPS = 3.0, 20.0, 500
BASE_RATE, BASE_WIDTH, HIGHEST_RATE = 5e-5, 768, 1e-3
ENCODER_FIXED = 10.0  # times the rate where the encoder's own weights stay
PRETRAINED, FROM_SCRATCH = "pretrained", "from_scratch"


def run(section: FinetuneSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Train once for each seed (and again from fresh weights, if asked), each in a folder below `out/runs`; the run
    with the best dev metric becomes `out/model`. Returns the result that is also in result.json.

    Errors: BertctlError, NonFinite, Stopped, WorkerLost, EnvironmentFault.
    """
    began = time.monotonic()
    task, source = task_of(section), resolve_source(section)
    tokenizer = Tokenizer.load(source)
    config = read_encoder_config(source, read_config(source))[1]
    check_strategy(section.strategy, config)
    data = open_data(
        task,
        section.data,
        tokenizer,
        max_length=longest_input(section.max_length, config.max_position_embeddings),
        seed=seed,
        labels=known_labels(source, task.head),
    )
    strategies = {PRETRAINED: section.strategy, FROM_SCRATCH: EVERYTHING}  # fresh weights are all trained
    trainings = {
        variant: resolve_training(section.training, len(data.train), config.hidden_size, strategy)
        for variant, strategy in strategies.items()
    }
    training = trainings[PRETRAINED]
    options = loss_options(section.loss, task, data.labels, data.train)
    seeds = [seed + number for number in range(section.seeds)]
    with runtimes.start(training.precision) as runtime:
        fingerprint = fingerprint_of(section, source, data, training, precision=str(runtime.dtype))
        with RunFolder(
            out,
            kind="finetune",
            resume=resume,
            keep=training.keep_checkpoints,
            fingerprint=fingerprint | {"seeds": seeds, "from_scratch": section.from_scratch},
            inputs=data.hashes,
            rank=runtime.rank,
        ) as folder:
            if folder.finished:
                note(f"{out}: this run is finished; nothing to do")
                return folder.result
            runs: dict[str, list[dict[str, Any]]] = {}
            for variant in (PRETRAINED, FROM_SCRATCH)[: 1 + section.from_scratch]:
                for run_seed in seeds:
                    model = build_model(section, source, data, variant=variant, seed=run_seed)
                    prepare(model, strategies[variant], run_seed)
                    say_start(variant, run_seed, model, trainings[variant], runtime)
                    plan = Plan(
                        name=f"{task.name} {variant} seed {run_seed}",
                        training=trainings[variant],
                        strategy=strategies[variant],
                        tell=run_seed == seed,
                        seed=run_seed,
                        patience=section.patience,
                        resume=resume,
                        fingerprint=fingerprint | {"variant": variant, "seed": run_seed},
                        extra={"stage": "finetune", **data.noted},
                    )
                    objective = build_objective(model, task, options).to(runtime.device)
                    if plan.strategy.keeps_states:
                        model.recall = remember(model, data, out, 2 * training.batch_size, runtime)
                    done = train_one(model, objective, data, plan, run_folder(out, variant, run_seed), runtime)
                    runs.setdefault(variant, []).append(done)
            chosen = choose(runs[PRETRAINED], task.metric)
            result = summarise(data, runs, chosen)
            result |= {"seconds": round(time.monotonic() - began, 2)}
            forget(out)
            kept = run_folder(out, PRETRAINED, chosen["seed"]) / "model"
            folder.finish(lambda temp: copy_model(kept, temp), result)
            return result


def task_of(section: FinetuneSection) -> Task:
    """The task that the section names, with its choices."""
    task = TASKS[section.task]
    return replace(task, tune=task.tune_each) if section.thresholds == "each" and task.tune_each else task


def resolve_source(section: FinetuneSection) -> Path:
    """The folder of the checkpoint to start from. Errors: BertctlError that also names the data still to be fetched."""
    if section.model is None:
        raise BertctlError("finetune.model: not given", hint="--model FOLDER, or a hub name")
    try:
        return resolve_model(section.model)
    except BertctlError as error:
        data = section.data
        if type(error) is not BertctlError or data.name in (None, PYTHON_DOCS):
            raise
        subset = f" ({data.subset})" if data.subset else ""
        needed = f"data set {data.name}{subset}: would be fetched from the hub next"
        raise BertctlError(*error.problems, needed, hint="--model DIR --data DIR use local ones") from None


def known_labels(source: Path, head: str) -> list[str] | None:
    """The labels of a checkpoint that was already trained with this head, in the order of its outputs."""
    fields = read_config(source)
    heads = stored_heads(fields, read_encoder_config(source, fields)[0], {})
    return labels_of(fields, heads) if head in heads else None


def resolve_training(
    section: FinetuneTrainingSection, examples: int, hidden_size: int, strategy: StrategySection = EVERYTHING
) -> TrainingSection:
    """The section with its steps counted and its rate a number."""
    in_epoch = -(-examples // section.batch_size)
    epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, FEWEST_STEPS / in_epoch))
    base = BASE_RATE if strategy.trains_encoder else BASE_RATE * ENCODER_FIXED
    rate = section.optimizer.lr or min(HIGHEST_RATE, base * BASE_WIDTH / hidden_size)
    optimizer = section.optimizer.model_copy(update={"lr": rate})
    steps = section.steps_for(examples, epochs)
    return section.model_copy(update={"steps": steps, "epochs": None, "optimizer": optimizer})


def build_model(section: FinetuneSection, source: Path, data: TaskData, *, variant: str, seed: int) -> Model:
    """The checkpoint with a head for the task, or the same encoder with fresh weights.

    The head is the checkpoint's own if it is for the same labels, else drawn by seed.
    """
    name, count = data.task.head, data.task.outputs(data.labels)
    torch.manual_seed(mix(seed, 0))
    loaded = load_model(source, {name: count}, dropout=section.dropout, pooling=section.pooling)
    config = loaded.model.config
    if config.vocab_size < data.tokenizer.vocab_size:
        raise BertctlError(
            f"{source}: the encoder has {config.vocab_size} word embeddings, the vocabulary {data.tokenizer.vocab_size}"
        )
    model, is_new = loaded.model, any(tensor.startswith(f"heads.{name}.") for tensor in loaded.new_tensors)
    if variant == FROM_SCRATCH:
        model, is_new = Model(config, {name: count}), True
    elif data.task.classes and loaded.labels != data.labels:
        model.heads[name], is_new = HEADS[name].build(config, count), True
        initialise(model.heads[name], config.initializer_range)
    if is_new and data.task.first_answer is not None:
        bias = model.get_parameter(f"heads.{name}.output.bias")
        torch.nn.init.constant_(bias, data.task.first_answer(data.splits.train))
    return model


def run_folder(out: Path, variant: str, seed: int) -> Path:
    """Where one run lives."""
    return out / "runs" / f"{variant}-seed{seed}"


def fingerprint_of(
    section: FinetuneSection, source: Path, data: TaskData, training: TrainingSection, *, precision: str
) -> dict[str, Any]:
    """Everything that must be equal for a resumed run to equal the uninterrupted one."""
    bookkeeping = {"log_every_steps", "save_every_steps", "keep_checkpoints", "epochs", "precision"}
    apart = {"name", "data", "training", "seeds", "from_scratch"}
    values = section.model_dump(mode="json", exclude=apart) | {"labels": data.labels, "precision": precision}
    values["model"] = origin_hash(source)
    return {**values, **data.noted, **data.hashes, "training": training.model_dump(mode="json", exclude=bookkeeping)}


def say_start(variant: str, seed: int, model: Model, training: TrainingSection, runtime: Runtime) -> None:
    """One line before each run."""
    rate = f"{training.optimizer.lr:.3g}"
    note(
        f"{variant}, seed {seed}: {describe(model)}; {training.steps:,} steps of {training.batch_size}, rate {rate}, "
        f"on {runtimes.describe(runtime)}"
    )


def copy_model(source: Path, folder: Path) -> None:
    """The files of a finished model, without its manifest."""
    for path in source.iterdir():
        if path.name != MANIFEST:
            shutil.copyfile(path, folder / path.name)
