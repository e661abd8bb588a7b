"""Whose answers are scored: a checkpoint's, or those in a file that any other system wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bertctl.artifacts.checkpoint import resolve_model
from bertctl.console import Progress, throughput, warn
from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.task import limits_for, say_cut, settings_of
from bertctl.tasks.audit import refuse_truncation, truncation, windows_read
from bertctl.tasks.config import DataSection
from bertctl.tasks.kinds import raise_by_kind
from bertctl.tasks.predicting import Chunk, encode_chunks, joined, predict_chunks
from bertctl.tasks.preprocessing import preprocessor
from bertctl.tasks.submissions import with_no_answer
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Prediction, Task
from bertctl.training.runtime import Runtime
from bertctl.variants.hf import Loaded, load_model


class Checkpoint(NamedTuple):
    """A model as the user called it."""

    name: str
    folder: Path
    loaded: Loaded
    tokenizer: Any
    """Or an `ImageProcessor`."""


def load(name: str, section: EvaluateSection) -> Checkpoint:
    """The checkpoint in a folder, or of a hub name; any encoder can give vectors of texts. Errors: BertctlError."""
    folder = resolve_model(name)
    task = TASKS.get(section.task or "")
    loaded = load_model(folder, None if task is None else task.untrained(), pooling=section.pooling)
    return Checkpoint(name, folder, loaded, preprocessor(folder, loaded.model.config))


@dataclass(frozen=True)
class System:
    """One that answered: `what` names it ({"model": ...} or {"predictions": ...}), `about` says how it went."""

    what: dict[str, str]
    predictions: list[Prediction]
    labels: list[str]
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the user called it."""
        return next(iter(self.what.values()))


def answers_of(
    checkpoint: Checkpoint,
    task: Task,
    examples: Sequence[Any],
    labels: Sequence[str],
    section: EvaluateSection,
    runtime: Runtime,
) -> System:
    """What a checkpoint answers, with counts of what it could not read whole. `labels`: those of its head."""
    data, limits = section.data, limits_for(section.max_length, section.data, checkpoint.loaded)
    predictions: list[Prediction] = []
    cut: dict[str, int] = {}
    with Progress(f"evaluate {task.name}", "examples", len(examples)) as progress:
        chunks = encode_chunks(task, examples, checkpoint.tokenizer, labels, limits)
        for chunk in [joined(list(chunks))] if task.together else chunks:
            if data.long_text == "refuse":
                refuse_truncation(chunk.examples, chunk.features, limits.max_length)
            counts = truncation(chunk.features) | (windows_read(chunk.features) if limits.windows else {})
            cut = {key: cut.get(key, 0) + count for key, count in counts.items()}
            predictions += answered(checkpoint, task, chunk, labels, section.batch_size, runtime)
            progress.update(len(predictions))
        seconds = progress.clock() - progress.started
    say_cut(cut, limits.max_length)
    about: dict[str, Any] = {
        "truncated": cut.get("truncated", 0),
        **({"windows": cut} if limits.windows else {}),
        "max_length": limits.max_length,
        "examples_per_second": round(throughput(len(examples), seconds), 1),
    }
    return System({"model": checkpoint.name}, predictions, list(labels), about)


def answered(
    checkpoint: Checkpoint, task: Task, chunk: Chunk, labels: Sequence[str], batch_size: int, runtime: Runtime
) -> list[Prediction]:
    """What a checkpoint answers to the examples of a chunk, with the settings that it keeps."""
    predictions, _ = predict_chunks(
        task,
        checkpoint.loaded.model,
        [chunk],
        labels,
        settings=settings_of(checkpoint.loaded),
        pad_id=checkpoint.tokenizer.pad_id,
        batch_size=batch_size,
        runtime=runtime,
    )
    return predictions


def answers_in_files(section: EvaluateSection, task: Task, examples: Sequence[Any]) -> list[System]:
    """What each file says that a system answered. Errors: BertctlError with everything that is wrong in all of them."""
    problems: list[str] = []
    found = [read_answers(path, task, examples, section.data, problems) for path in section.predictions]
    if section.no_answer_probabilities and task.head != "span":
        path = section.no_answer_probabilities[0]
        problems.append(f"{path}: no-answer probabilities belong to questions (qa), and this is {task.name}")
    raise_by_kind(problems)
    probabilities = section.no_answer_probabilities or [None] * len(found)
    files = zip(section.predictions, found, probabilities, strict=True)
    return [system_of(path, rows, no_answer, task, examples, section) for path, rows, no_answer in files]


def read_answers(
    path: Path, task: Task, examples: Sequence[Any], data: DataSection, problems: list[str]
) -> list[Prediction]:
    """The predictions in a file; appends to problems."""
    if task.submission is None:
        problems.append(f"{path}: predictions for {task.name} cannot be read from a file; score a model")
    elif not path.is_file():
        got = "a folder" if path.is_dir() else "no such file"
        problems.append(f"{path}: got {got}, expected a file of predictions")
    else:
        return task.submission(path, examples, data, problems)
    return []


def system_of(
    path: Path,
    found: list[Prediction],
    no_answer: Path | None,
    task: Task,
    examples: Sequence[Any],
    section: EvaluateSection,
) -> System:
    """The system that made the predictions of a file. Errors: BertctlError for labels of other data."""
    if no_answer is not None:
        found = with_no_answer(found, no_answer, section.no_answer_threshold)
    missing = sum(None in task.said(prediction) for prediction in found)
    if missing:
        warn(f"{path}: {missing:,} of {len(examples):,} examples have no prediction; they count as wrong")
    labels = sorted({name for prediction in found for name in names_in(prediction)}) if task.classes else []
    check_labels(path, task, examples, labels)
    return System({"predictions": str(path)}, found, labels, {"missing_predictions": missing})


def check_labels(path: Path, task: Task, examples: Sequence[Any], said: Sequence[str]) -> None:
    """Predicted labels that no example has are wrong answers, which is worth a word; if none is known, the file is for
    other data. Errors: BertctlError."""
    known = {name for example in examples for name, _ in task.gold(example)}
    strange = [name for name in said if name not in known]
    if strange and len(strange) == len(said):
        raise BertctlError(
            f"{path}: got the labels {', '.join(strange[:5])}, expected some of {', '.join(sorted(known)[:5])}",
            hint="names of labels that are written as numbers go into `data.label_names`",
        )
    if strange:
        warn(f"{path}: says {', '.join(strange[:5])}, which no example is labelled with")


def names_in(prediction: Mapping[str, Any]) -> list[str]:
    """The labels that a prediction says."""
    if "label" in prediction:
        return [prediction["label"]]
    return [*prediction.get("labels", ()), *prediction.get("tags", ())]
