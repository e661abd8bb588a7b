"""What a checkpoint is for, and how it reads: its task, its labels, its settings, the longest input."""

from pathlib import Path
from typing import Any

from bertctl.console import warn
from bertctl.errors import BertctlError
from bertctl.evaluate.config import MASKED_LM
from bertctl.tasks.config import DataSection
from bertctl.tasks.lengths import longest_input
from bertctl.tasks.preprocessing import refuse_other_inputs
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Limits, Task
from bertctl.variants.hf import Loaded


def task_of(loaded: Loaded, source: Path) -> str:
    """What a checkpoint was made for: as noted in it, else by its head.

    Errors: BertctlError if neither tells: a bare encoder, or a token head that may be for ner or for pos.
    """
    noted = loaded.extra.get("task")
    if noted in TASKS:
        return str(noted)
    able = tasks_of_head(loaded)
    if len(able) > 1:
        raise BertctlError(
            f"{source}: has a head for {' or '.join(able)}, but does not say for which task",
            hint=f"add --task {' or '.join(able)}",
        )
    if able:
        return able[0]
    if MASKED_LM in loaded.model.head_outputs:
        return MASKED_LM
    raise BertctlError(
        f"{source}: has no head of a task, nor for masked tokens, so there is nothing to score",
        hint="--task embedding needs none; bertctl finetune --task ... makes one",
    )


def tasks_of_head(loaded: Loaded) -> list[str]:
    """The tasks that the head of a checkpoint can be for: those of its problem type; else those with a fixed number of
    outputs, if it has as many (one output is a number); else those that need no type to be told."""
    heads = loaded.model.head_outputs
    able = [task for task in TASKS.values() if task.head in heads]
    typed = [task for task in able if task.problem_type is not None and task.problem_type == loaded.problem_type]
    sized = [task for task in able if not task.classes and task.outputs([]) == heads[task.head]]
    return [task.name for task in typed or sized or [task for task in able if task.problem_type is None]]


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


def longest_for(asked: int | None, loaded: Loaded, key: str = "evaluate.max_length") -> int:
    """Word pieces of the checkpoint's longest input. Errors: BertctlError if it cannot read what `key` asks for."""
    limit, noted = loaded.model.config.max_position_embeddings, loaded.extra.get("max_length")
    return longest_input(asked, limit, key=key, noted=noted)


def limits_for(
    max_length: int | None, data: DataSection, loaded: Loaded, *, key: str = "evaluate.max_length"
) -> Limits:
    """How the checkpoint reads texts: as asked, else as it was fine-tuned."""
    windows = (data.long_text or loaded.extra.get("long_text")) == "windows"
    overlap = loaded.extra.get("overlap_tokens") if data.overlap_tokens is None else data.overlap_tokens
    said = loaded.extra.get("embedding") or {}
    prefixes = {name: str(said.get(name) or "") for name in ("query_prefix", "passage_prefix")}
    return Limits(longest_for(max_length, loaded, key), overlap, windows, **prefixes)


def say_cut(cut: dict[str, int], max_length: int) -> None:
    """Warn if texts were longer than the model."""
    if cut.get("truncated"):
        warn(
            f"{cut['truncated']:,} of {cut['examples']:,} texts are longer than {max_length} word pieces and were cut; "
            f"{cut['pieces_kept']:,} of {cut['pieces']:,} pieces are kept"
        )
