"""What a fine-tuning starts from: the task, the checkpoint, its steps and rate, and the model with its head."""

from dataclasses import replace
from pathlib import Path

import torch

from bertctl.artifacts.checkpoint import read_config, resolve_model
from bertctl.encoder.init import initialise
from bertctl.errors import BertctlError
from bertctl.finetune.config import FinetuneSection, FinetuneTrainingSection
from bertctl.finetune.data import TaskData
from bertctl.finetune.strategy_config import EVERYTHING, StrategySection
from bertctl.heads.model import Model
from bertctl.heads.table import HEADS
from bertctl.tasks.config import PYTHON_DOCS
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Task
from bertctl.training.batching import mix
from bertctl.training.config import TrainingSection
from bertctl.variants.config import read_encoder_config
from bertctl.variants.hf import labels_of, load_model, stored_heads

FEWEST_EPOCHS, MOST_EPOCHS, FEWEST_STEPS = 3.0, 20.0, 500
BASE_RATE, BASE_WIDTH, HIGHEST_RATE = 5e-5, 768, 1e-3
ENCODER_FIXED = 10.0  # times the rate where the encoder's own weights stay
PRETRAINED, FROM_SCRATCH = "pretrained", "from_scratch"
BOOKKEEPING = {"log_every_steps", "save_every_steps", "keep_checkpoints", "epochs", "precision"}
"""Keys of `training` that may change on resume."""


def task_of(section: FinetuneSection) -> Task:
    """The task that the section names, with its choices."""
    task, size = TASKS[section.task], section.embedding.projection_size
    if size is not None:
        task = replace(task, outputs=lambda labels: size)
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
    heads = stored_heads(fields, read_encoder_config(source, fields)[0])
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
        model, is_new = Model(config, loaded.model.head_outputs), True
    elif data.task.classes and loaded.labels != data.labels:
        model.heads[name], is_new = HEADS[name].build(config, count), True
        initialise(model.heads[name], config)
    if is_new and data.task.first_answer is not None:
        bias = model.get_parameter(f"heads.{name}.output.bias")
        torch.nn.init.constant_(bias, data.task.first_answer(data.splits.train))
    return model
