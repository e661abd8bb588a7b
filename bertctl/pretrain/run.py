"""Stage 3: pretrain an encoder on masked or replaced tokens, or on images. Read it from top to bottom."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from bertctl.artifacts.checkpoint import resolve_model
from bertctl.console import Progress, note
from bertctl.errors import Stopped
from bertctl.heads.model import Model
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.held_out import evaluate_held_out
from bertctl.pretrain.shared_embeddings import settle
from bertctl.pretrain.sources import SOURCES, Scores, Source
from bertctl.training import runtime as runtimes
from bertctl.training.batching import Prefetch
from bertctl.training.loop import fit
from bertctl.training.meter import Meter
from bertctl.training.optim import build_optimizer
from bertctl.training.origin import origin_hash
from bertctl.training.run_folder import RunFolder, restore_together
from bertctl.training.runtime import Runtime
from bertctl.training.schedule import lr_share
from bertctl.training.steps import describe, due, parameters, step_line
from bertctl.variants.hf import save_model

DEFAULT_EPOCHS = 40.0  # BERT's, arXiv:1810.04805, appendix A.2


def run(section: PretrainSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Train, writing checkpoints, metrics.jsonl and at the end `model/` into `out`, with a generator beside it if there
    is one. Returns the result that is also in result.json.

    Errors: BertctlError, NonFinite, Stopped, WorkerLost, EnvironmentFault.
    """
    began = time.monotonic()
    source = SOURCES[section.objective.name]
    data = source.open(section)
    examples = sum(len(reader) for reader in data.train.values())
    steps = section.training.steps_for(examples, DEFAULT_EPOCHS)
    with runtimes.start(section.training.precision) as runtime:
        work = set_up(section, source, data, steps=steps, seed=seed, runtime=runtime)
        with RunFolder(
            out,
            kind="pretrain",
            resume=resume,
            keep=section.training.keep_checkpoints,
            fingerprint=fingerprint_of(section, data, seed=seed, steps=steps, precision=str(runtime.dtype)),
            inputs=data.hashes,
            rank=runtime.rank,
        ) as folder:
            if folder.finished:
                note(f"{out}: this run is finished; nothing to do")
                return folder.result
            start, meter = restore_together(folder, work.objective.stored, work.optimizer, runtime), Meter()
            floor = source.floor(data, work.batches)
            say_start(work, floor)
            scores = train_steps(work, folder, start, meter)
            result = {
                "steps": steps,
                **sizes(work.objective),
                "train_examples": examples,
                "tokens_per_second": round(meter.overall(), 1),
                **scores,
                **floor,
                "plateau": source.plateau(scores, floor),
                "seconds": round(time.monotonic() - began, 2),
            }
            beside = {name: writer(model, data) for name, model in work.objective.beside.items()}
            folder.finish(writer(work.objective.model, data), result, beside)
            return result


@dataclass
class Work:
    """One pretraining, opened and built: what its steps have in common. `scores`: the newest of held-out examples."""

    section: PretrainSection
    data: Any
    objective: Any
    optimizer: torch.optim.Optimizer
    batches: Any
    steps: int
    seed: int
    runtime: Runtime
    scores: dict[str, Any] = field(default_factory=dict)

    def score(self) -> dict[str, Any]:
        """What the model is worth on held-out examples. Errors: Stopped."""
        self.scores = evaluate_held_out(
            self.objective, self.data.held_out, self.batches, self.section.held_out_examples
        )
        return self.scores


def set_up(section: PretrainSection, source: Source, data: Any, *, steps: int, seed: int, runtime: Runtime) -> Work:
    """Build what is trained, and what trains it. Errors: BertctlError if the data do not fit the encoder."""
    objective = source.objective(section, data, seed).to(runtime.device)
    for model in (objective.model, *objective.beside.values()):
        model.encoder.gradient_checkpointing = section.training.gradient_checkpointing
    optimizer = build_optimizer(section.training.optimizer, objective)
    batches = source.batches(section, data, steps=steps, seed=seed, runtime=runtime)
    return Work(section, data, objective, optimizer, batches, steps, seed, runtime)


def train_steps(work: Work, folder: RunFolder, start: int, meter: Meter) -> dict[str, Any]:
    """Train from step `start` to the last one; returns the held-out scores after it. Errors: Stopped, after saving;
    NonFinite."""
    training, steps = work.section.training, work.steps
    if folder.state.get("evaluation_owed"):
        log_score(work, folder, start)  # a signal came before this could be done
    with Prefetch(work.batches, steps) as micro_batches, Progress("pretrain", "steps", steps, start=start) as progress:
        for step in fit(
            work.objective,
            micro_batches,
            optimizer=work.optimizer,
            schedule=lambda number: lr_share(training.schedule, number, steps),
            start=start,
            steps=steps,
            runtime=work.runtime,
            max_grad_norm=training.max_grad_norm,
            seed=work.seed,
        ):
            meter.add(step)
            if step.number == steps or due(step.number, training.log_every_steps):
                speed = meter.lap()
                folder.log(step_line(step, speed))
                progress.update(step.number, f"loss {step.loss:.3f}  {speed:,.0f} tokens/s")
            stop = score_and_save(work, folder, step.number)
            if stop:
                raise Stopped(stop, f"stopped at step {step.number} of {steps}; `--resume` goes on from there")
    return work.scores or work.score()  # there are none if it was resumed behind the last step


def score_and_save(work: Work, folder: RunFolder, step: int) -> int | None:
    """Score and save what is due after a step; the signal that asks to stop, if one does."""
    training, stop = work.section.training, work.runtime.agree_on_signal()
    owed = step == work.steps or due(step, training.evaluate_every_steps)
    if owed and not stop:
        try:
            log_score(work, folder, step)
            owed = False
        except Stopped as stopped:  # done after the resume; the step itself must not be lost
            stop = stopped.signal_number
    if stop or due(step, training.save_every_steps):
        folder.save(step, work.objective.stored, work.optimizer, {"evaluation_owed": owed})
    return stop


def log_score(work: Work, folder: RunFolder, step: int) -> None:
    """A line with the held-out scores, in the log and for who watches. Errors: Stopped."""
    scores = work.score()
    folder.log({"step": step, "split": "held_out", **scores})
    note(f"held out, step {step:,}: {told(scores)}")


def told(scores: Scores) -> str:
    """`MLM loss 4.019 nats, MLM accuracy 0.367`: the scores, without counts."""
    names = {name: name.replace("_", " ").replace("mlm", "MLM") for name in scores}
    found = {names[name]: value for name, value in scores.items() if isinstance(value, float)}
    return ", ".join(f"{name} {value:.3f}{' nats' * name.endswith('loss')}" for name, value in found.items())


def say_start(work: Work, floor: Scores) -> None:
    """One line about the models, the machine, and what is known before training."""
    others = "".join(f", {name} {describe(model)}" for name, model in work.objective.beside.items())
    known = "".join(f"; {name.replace('_', ' ')} {value:.3f} nats" for name, value in floor.items())
    place = runtimes.describe(work.runtime)
    note(f"pretrain: {describe(work.objective.model)}{others} on {place}{known}")


def sizes(objective: Any) -> dict[str, int]:
    """Parameters of the model, and of those beside it."""
    beside = {f"parameters_{name}": parameters(model) for name, model in objective.beside.items()}
    return {"parameters": parameters(objective.model), **beside}


def writer(model: Model, data: Any) -> Callable[[Path], None]:
    """What writes a finished model into a folder."""
    return lambda folder: save_model(folder, settle(model), data.tokenizer, extra={"stage": "pretrain"})


def fingerprint_of(section: PretrainSection, data: Any, *, seed: int, steps: int, precision: str) -> dict[str, Any]:
    """Everything that must be equal for a resumed run to equal the uninterrupted one."""
    bookkeeping = {"log_every_steps", "evaluate_every_steps", "save_every_steps", "keep_checkpoints", "epochs", "steps"}
    images: Any = True if section.images is None else {"path"}  # what is in them is in the hashes
    apart: dict[str, Any] = {"pairs": True, "tokens": True, "images": images, "training": bookkeeping}
    values = section.model_dump(mode="json", exclude=apart)
    if section.init_from is not None:
        values["init_from"] = origin_hash(resolve_model(section.init_from))
    generator = getattr(section.objective, "generator_from", None)
    if generator is not None:
        values["objective"]["generator_from"] = origin_hash(resolve_model(generator))
    return {**values, **data.hashes, "seed": seed, "steps": steps, "precision": precision}
