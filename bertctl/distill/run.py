"""Stage 5: train a small encoder to do as a large one. Read it from top to bottom."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bertctl.artifacts.checkpoint import resolve_model
from bertctl.artifacts.manifest import sha256_file
from bertctl.console import note, warn
from bertctl.distill.config import DistillSection
from bertctl.distill.objective import DistillationObjective
from bertctl.distill.pairs import OnPairs, open_pairs
from bertctl.distill.speed import measure_speedup
from bertctl.distill.start import Student
from bertctl.distill.student import build_student
from bertctl.distill.task import ForTask, open_task
from bertctl.errors import BertctlError, raise_problems
from bertctl.heads.model import Model
from bertctl.metrics.rows import Metric
from bertctl.tasks.preprocessing import preprocessor
from bertctl.tasks.table import TASKS
from bertctl.training import runtime as runtimes
from bertctl.training.batching import mix
from bertctl.training.run_folder import RunFolder
from bertctl.training.steps import describe, parameters
from bertctl.variants.hf import load_model, save_model


def run(section: DistillSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Distil, writing checkpoints, metrics.jsonl and at the end `model/`, the student, into `out`. Returns the result
    that is also in result.json. Errors: BertctlError, NonFinite, Stopped, WorkerLost, EnvironmentFault."""
    began = time.monotonic()
    if section.teacher is None:
        raise BertctlError("distill.teacher: not given", hint="bertctl distill TEACHER STUDENT")
    source = resolve_model(section.teacher)
    task = None if section.task is None else TASKS[section.task]
    teacher = load_model(source, None if task is None else task.untrained())
    tokenizer = preprocessor(source, teacher.model.config)
    with runtimes.start(section.training.precision) as runtime:
        opened = open_pairs if task is None else open_task
        work: OnPairs | ForTask = opened(section, teacher, tokenizer, seed=seed, runtime=runtime)
        student = start_student(section, teacher.model, tokenizer, work, seed)
        objective = build_objective(section, student, teacher.model.to(runtime.device), work, seed).to(runtime.device)
        hashes = {**work.hashes, **hashes_of(source, student)}
        with RunFolder(
            out,
            kind="distill",
            resume=resume,
            keep=work.training.keep_checkpoints,
            fingerprint=fingerprint_of(section, work, hashes, seed=seed, precision=str(runtime.dtype)),
            inputs=hashes,
            rank=runtime.rank,
        ) as folder:
            if folder.finished:
                note(f"{out}: this run is finished; nothing to do")
                return folder.result
            say_start(student, objective, runtime)
            trained = work.train(objective, folder)
            result = {
                **measured(teacher.model, student.model, work, runtime),
                **made_from(student),
                "weights": objective.weights,
                "temperature": section.temperature,
                **trained,
                "seconds": round(time.monotonic() - began, 2),
            }
            folder.finish(writer(student, work, tokenizer), result)
            show(result)
            return result


def start_student(
    section: DistillSection, teacher: Model, tokenizer: Any, work: OnPairs | ForTask, seed: int
) -> Student:
    """The student as the section names it. Errors: BertctlError if it cannot start from this teacher, or one of the two
    cannot read the longest input."""
    heads = trained_heads(section, teacher, work)
    student = build_student(section.student, teacher, tokenizer, heads=heads, layer_map=section.layer_map, seed=seed)
    check_lengths(section, teacher, student, work.longest)
    return student


def trained_heads(section: DistillSection, teacher: Model, work: OnPairs | ForTask) -> dict[str, int]:
    """The teacher's heads, but no sentence pairs if nothing would train them: a head that stays behind is wrong."""
    pairs = isinstance(work, OnPairs) and work.reader.pairs and section.weights.get("sentence_pair", 0) > 0
    return {name: count for name, count in teacher.head_outputs.items() if name != "sentence_pair" or pairs}


def check_lengths(section: DistillSection, teacher: Model, student: Student, longest: int) -> None:
    """Both must read the longest input. Errors: BertctlError."""
    models = ((section.teacher, teacher), ("student", student.model))
    raise_problems(
        [
            f"{name}: reads {model.config.max_position_embeddings} tokens, the longest input has {longest}"
            for name, model in models
            if model.config.max_position_embeddings < longest
        ],
        hint="shorter inputs: build_pairs.sequence_length makes those of pairs, distill.max_length those of a task",
    )


def build_objective(
    section: DistillSection, student: Student, teacher: Model, work: OnPairs | ForTask, seed: int
) -> DistillationObjective:
    """What is minimised: the weighted losses that this student has heads, and this task labels for."""
    absent = set() if "sentence_pair" in student.model.head_outputs else {"sentence_pair"}
    absent |= {"hard_labels"} if isinstance(work, ForTask) and work.reader.task.loss is None else set()
    weights = {name: weight for name, weight in section.weights.items() if name not in absent}
    torch.manual_seed(mix(seed, 1))
    student.model.encoder.gradient_checkpointing = section.training.gradient_checkpointing
    return DistillationObjective(student.model, teacher, work.reader, weights=weights, temperature=section.temperature)


def hashes_of(source: Path, student: Student) -> dict[str, str]:
    """The models that the run starts from: config.json and weights of the teacher, and of a student's checkpoint."""
    folders = {"teacher": source} | ({"student": student.source} if student.source else {})
    return {
        f"{who}/{path.name}": sha256_file(path)
        for who, folder in folders.items()
        for path in sorted([folder / "config.json", *folder.glob("*.safetensors")])
    }


def fingerprint_of(
    section: DistillSection, work: OnPairs | ForTask, hashes: dict[str, str], *, seed: int, precision: str
) -> dict[str, Any]:
    """Everything that must be equal for a resumed run to equal the uninterrupted one; names of folders may change, what
    is in them may not."""
    bookkeeping = {"log_every_steps", "save_every_steps", "keep_checkpoints", "epochs", "precision"}
    if section.task is None:
        bookkeeping.add("evaluate_every_steps")  # for a task it picks the weights
    apart = {"name", "teacher", "data", "pairs", "tokens", "training"}
    values = section.model_dump(mode="json", exclude=apart) | {"seed": seed, "precision": precision}
    return {**values, **hashes, "training": work.training.model_dump(mode="json", exclude=bookkeeping)}


def say_start(student: Student, objective: DistillationObjective, runtime: runtimes.Runtime) -> None:
    """One line about the two models, and a warning if there is nothing to win."""
    teacher, losses = objective.teacher, ", ".join(f"{w:g} {name}" for name, w in objective.weights.items())
    note(f"distill: teacher {describe(teacher)}; student {describe(student.model)}, started from {student.origin}")
    note(f"distill: {losses}; temperature {objective.temperature:g}; on {runtimes.describe(runtime)}")
    fewer_layers = student.model.config.num_hidden_layers < teacher.config.num_hidden_layers
    if parameters(student.model) >= parameters(teacher) and not fewer_layers:  # shared layers are faster, not smaller
        warn("the student is not smaller than the teacher; name another one, such as `half`")


def measured(teacher: Model, student: Model, work: OnPairs | ForTask, runtime: runtimes.Runtime) -> dict[str, Any]:
    """Size, speed and scores of both models."""
    batch = {name: tensor.to(runtime.device) for name, tensor in work.speed_batch().items()}
    return {
        **sizes(teacher, student),
        **measure_speedup(teacher, student, batch, runtime),
        **compare(work.metric, work.score(teacher), work.score(student)),
    }


def sizes(teacher: Model, student: Model) -> dict[str, Any]:
    """Parameters of both."""
    large, small = parameters(teacher), parameters(student)
    return {"parameters_teacher": large, "parameters_student": small, "parameters_share": round(small / large, 4)}


def compare(metric: str, teacher: dict[str, Metric], student: dict[str, Metric]) -> dict[str, Any]:
    """Every metric of both with its interval; `retained` is student over teacher, None where that says nothing."""
    scores = {
        "teacher": {name: found.summary() for name, found in teacher.items()},
        "student": {name: found.summary() for name, found in student.items()},
    }
    have, kept = scores["teacher"][metric]["value"], scores["student"][metric]["value"]
    retained = None if not have or kept is None or have < 0 else kept / have
    return {
        "metric": metric,
        "teacher": scores["teacher"][metric],
        "student": scores["student"][metric],
        "retained": retained,
        "metrics": scores,
    }


def made_from(student: Student) -> dict[str, Any]:
    """What the student's weights started from."""
    return {
        "student_from": student.origin,
        "layer_map": student.layer_map,
        "projected_tensors": list(student.projected),
        "fresh_tensors": len(student.fresh),
    }


def writer(student: Student, work: OnPairs | ForTask, tokenizer: Any) -> Callable[[Path], None]:
    """What writes the finished student into a folder."""
    extra = {"stage": "distill", "layer_map": student.layer_map, **work.extra}
    return lambda folder: save_model(
        folder, student.model, tokenizer, labels=work.labels, problem_type=work.problem_type, extra=extra
    )


def show(result: dict[str, Any]) -> None:
    """Parameters, speed, and the share of the teacher's metric that is kept."""
    kept = "an undefined share" if result["retained"] is None else f"{result['retained']:.1%}"
    teacher, student = (result[who]["value"] for who in ("teacher", "student"))
    values = " and ".join("undefined" if value is None else f"{value:.4f}" for value in (teacher, student))
    shape = f"{result['speed']['batch']} x {result['speed']['tokens']} tokens"
    note(
        f"distill: {result['parameters_teacher']:,} -> {result['parameters_student']:,} parameters "
        f"({result['parameters_share']:.0%}); {result['speedup']:.2f} times as fast on {shape}; "
        f"{result['metric']} {values} of teacher and student: {kept} kept"
    )
