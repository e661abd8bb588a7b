"""Stage 3: pretrain an encoder on masked or replaced tokens, or on images. Read it from top to bottom."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertctl.artifacts.checkpoint import resolve_model
from bertctl.console import Progress, note
from bertctl.errors import Stopped
from bertctl.heads.model import Model
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.held_out import evaluate_held_out
from bertctl.pretrain.shared_embeddings import settle
from bertctl.pretrain.sources import SOURCES
from bertctl.training import runtime as runtimes
from bertctl.training.batching import Prefetch
from bertctl.training.loop import fit
from bertctl.training.meter import Meter
from bertctl.training.optim import build_optimizer
from bertctl.training.origin import origin_hash
from bertctl.training.run_folder import RunFolder, restore_together
from bertctl.training.schedule import lr_share
from bertctl.training.steps import describe, due, step_line
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
    training = section.training
    examples = sum(len(reader) for reader in data.train.values())
    steps = training.steps_for(examples, DEFAULT_EPOCHS)
    runtimes.keep_freed_memory()
    with runtimes.start(training.precision) as runtime:
        objective = source.objective(section, data, seed).to(runtime.device)
        model, stored = objective.model, objective.stored
        for trained in (model, *objective.beside.values()):
            trained.encoder.gradient_checkpointing = training.gradient_checkpointing
        optimizer = build_optimizer(training.optimizer, objective)
        batches = source.batches(section, data, steps=steps, seed=seed, runtime=runtime)
        fingerprint = fingerprint_of(section, data, seed=seed, steps=steps, precision=str(runtime.dtype))

        def evaluate(folder: RunFolder, step: int) -> dict[str, Any]:
            found = evaluate_held_out(objective, data.held_out, batches, section.held_out_examples)
            folder.log({"step": step, "split": "held_out", **found})
            return found

        with RunFolder(
            out,
            kind="pretrain",
            resume=resume,
            keep=training.keep_checkpoints,
            fingerprint=fingerprint,
            inputs=data.hashes,
            rank=runtime.rank,
        ) as folder:
            if folder.finished:
                note(f"{out}: this run is finished; nothing to do")
                return folder.result
            start, meter = restore_together(folder, stored, optimizer, runtime), Meter()
            floor = source.floor(data, batches)
            others = "".join(f", {name} {describe(other)}" for name, other in objective.beside.items())
            place = runtimes.describe(runtime)
            known = "".join(f"; {name.replace('_', ' ')} {value:.3f} nats" for name, value in floor.items())
            note(f"pretrain: {describe(model)}{others} on {place}{known}")
            evaluation = evaluate(folder, start) if folder.state.get("evaluation_owed") else {}
            micro_batches = Prefetch(batches, steps)
            with Progress("pretrain", "steps", steps, start=start) as progress:
                for step in fit(
                    objective,
                    micro_batches,
                    optimizer=optimizer,
                    schedule=lambda number: lr_share(training.schedule, number, steps),
                    start=start,
                    steps=steps,
                    runtime=runtime,
                    max_grad_norm=training.max_grad_norm,
                    seed=seed,
                ):
                    meter.add(step)
                    last = step.number == steps
                    if last or step.number % training.log_every_steps == 0:
                        speed = meter.lap()
                        folder.log(step_line(step, speed))
                        progress.update(step.number, f"loss {step.loss:.3f}  {speed:,.0f} tokens/s")
                    stop = runtime.agree_on_signal()
                    owed = last or due(step.number, training.evaluate_every_steps)
                    if owed and not stop:
                        try:
                            evaluation, owed = evaluate(folder, step.number), False
                        except Stopped as stopped:  # done after the resume; the step itself must not be lost
                            stop = stopped.signal_number
                    if stop or due(step.number, training.save_every_steps):
                        folder.save(step.number, stored, optimizer, {"evaluation_owed": owed})
                    if stop:
                        raise Stopped(stop, f"stopped at step {step.number} of {steps}; `--resume` goes on from there")
            micro_batches.close()
            if not evaluation:  # resumed behind the last step: only the end is missing
                evaluation = evaluate_held_out(objective, data.held_out, batches, section.held_out_examples)
            result = {
                "steps": steps,
                "parameters": parameters(model),
                **{f"parameters_{name}": parameters(other) for name, other in objective.beside.items()},
                "train_examples": examples,
                "tokens_per_second": round(meter.overall(), 1),
                **evaluation,
                **floor,
                "plateau": source.plateau(evaluation, floor),
                "seconds": round(time.monotonic() - began, 2),
            }
            writers = {name: writer(other, data) for name, other in objective.beside.items()}
            folder.finish(writer(model, data), result, writers)
            return result


def parameters(model: Model) -> int:
    """Numbers that a model has learnt, shared ones once."""
    return sum(p.numel() for p in model.parameters())


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
