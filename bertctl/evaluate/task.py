"""What a checkpoint is for, and how it reads: its task, its labels, its settings, the longest input."""

from pathlib import Path
from typing import Any

from bertctl.console import warn
from bertctl.errors import BertctlError
from bertctl.evaluate.config import MASKED_LM
from bertctl.tasks.config import DataSection
from bertctl.tasks.preprocessing import refuse_other_inputs
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Limits, Task
from bertctl.variants.hf import Loaded

DEFAULT_LENGTH = 512


def task_of(loaded: Loaded, source: Path) -> str:
    """What a checkpoint was made for: as noted in it, else by its head.

    Errors: BertctlError if neither tells: a bare encoder, or a token head that may be for ner or for pos.
    """
    noted = loaded.extra.get("task")
    if noted in TASKS:
        return str(noted)
    by_problem = {task.problem_type: name for name, task in TASKS.items() if task.problem_type is not None}
    whole = "regression" if loaded.model.head_outputs.get("sequence") == 1 else "classification"
    by_head = {
        "sequence": by_problem.get(loaded.problem_type or "", whole),
        "span": "qa",
        "choice": "multiple_choice",
        "image": "image_classification",
        "embedding": "embedding",
        "masked_lm": MASKED_LM,
    }
    for head, task in by_head.items():
        if head in loaded.model.head_outputs:
            return task
    if "token" in loaded.model.head_outputs:
        raise BertctlError(f"{source}: labels words, but does not say for which task", hint="add --task ner or pos")
    raise BertctlError(
        f"{source}: has no head of a task, nor for masked tokens, so there is nothing to score",
        hint="--task embedding needs none; bertctl finetune --task ... makes one",
    )


def labels_for(task: Task, loaded: Loaded, source: str) -> list[str]:
    """The labels of the checkpoint's head for `task`, none for a task without classes. Errors: BertctlError if it has
    no such head, or reads the other of texts and images."""
    refuse_other_inputs(task, loaded.model.config, source)
    labels = loaded.labels if task.classes else []
    if task.head not in loaded.model.head_outputs or labels is None:
        have = ", ".join(loaded.model.head_outputs) or "none"
        named = " with named labels" if task.classes else ""
        raise BertctlError(
            f"{source}: has no {task.head} head{named}, which {task.name} needs (heads: {have})",
            hint=f"bertctl finetune --task {task.name} --model {source} --data PATH",
        )
    refuse_other_task(task, loaded, source)
    return labels


def refuse_other_task(task: Task, loaded: Loaded, source: str) -> None:
    """Errors: BertctlError for a head of the right kind that was trained to say something else, such as scores of
    classes where a number is asked for."""
    noted, outputs = TASKS.get(str(loaded.extra.get("task"))), loaded.model.head_outputs[task.head]
    hint = f"bertctl finetune --task {task.name} --model {source} --data PATH"
    if noted is not None and task.loss is not None and noted.loss is not task.loss:
        raise BertctlError(f"{source}: was fine-tuned for {noted.name}, expected a model for {task.name}", hint=hint)
    wanted = 0 if task.classes else task.outputs([])
    if wanted and outputs != wanted:
        raise BertctlError(f"{source}: its head has {outputs} outputs, expected {wanted} for {task.name}", hint=hint)


def settings_of(loaded: Loaded) -> dict[str, Any]:
    """What fine-tuning found on dev for the checkpoint's task, such as a threshold."""
    return dict(loaded.extra.get("settings") or {})


def longest_input(asked: int | None, loaded: Loaded) -> int:
    """Word pieces of the longest input: as asked, as noted at fine-tuning, else what the encoder reads, at most 512."""
    limit = loaded.model.config.max_position_embeddings
    if asked is not None and asked > limit:
        raise BertctlError(
            f"max_length: got {asked}, but the encoder reads at most {limit} word pieces",
            hint=f"ask for {limit}, or for nothing",
        )
    return asked or min(int(loaded.extra.get("max_length") or DEFAULT_LENGTH), limit)


def limits_for(max_length: int | None, data: DataSection, loaded: Loaded) -> Limits:
    """How the checkpoint reads texts: as asked, else as it was fine-tuned."""
    windows = (data.long_text or loaded.extra.get("long_text")) == "windows"
    overlap = loaded.extra.get("overlap_tokens") if data.overlap_tokens is None else data.overlap_tokens
    said = loaded.extra.get("embedding") or {}
    prefixes = {name: str(said.get(name) or "") for name in ("query_prefix", "passage_prefix")}
    return Limits(longest_input(max_length, loaded), overlap, windows, **prefixes)


def say_cut(cut: dict[str, int], max_length: int) -> None:
    """Warn if texts were longer than the model."""
    if cut.get("truncated"):
        warn(
            f"{cut['truncated']:,} of {cut['examples']:,} texts are longer than {max_length} word pieces and were cut; "
            f"{cut['pieces_kept']:,} of {cut['pieces']:,} pieces are kept"
        )
