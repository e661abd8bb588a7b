"""Stage 3: pretrain an encoder on masked tokens. Read it from top to bottom."""

import time
from pathlib import Path
from typing import Any

import torch

from bertctl.artifacts.checkpoint import resolve_model
from bertctl.console import Progress, note
from bertctl.errors import BertctlError, Stopped
from bertctl.heads.model import Model
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.data import PretrainingData, make_batches, open_data
from bertctl.pretrain.held_out import evaluate_held_out, on_plateau, unigram_entropy
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.training import runtime as runtimes
from bertctl.training.batching import Prefetch, mix
from bertctl.training.loop import fit
from bertctl.training.meter import Meter
from bertctl.training.optim import build_optimizer
from bertctl.training.origin import origin_hash
from bertctl.training.run_folder import RunFolder, restore_together
from bertctl.training.schedule import lr_share
from bertctl.training.steps import describe, due, step_line
from bertctl.variants.config import encoder_config
from bertctl.variants.hf import load_model, save_model
from bertctl.variants.resize import resized

DEFAULT_EPOCHS = 40.0  # BERT's, arXiv:1810.04805, appendix A.2


def run(section: PretrainSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Train, writing checkpoints, metrics.jsonl and at the end `model/` into `out`. Returns the result that is also in
    result.json. Errors: BertctlError, NonFinite, Stopped, WorkerLost, EnvironmentFault."""
    began = time.monotonic()
    data = open_data(section)
    training = section.training
    examples = sum(len(reader) for reader in data.train.values())
    steps = training.steps_for(examples, DEFAULT_EPOCHS)
    with runtimes.start(training.precision) as runtime:
        model = build_model(section, data, seed)
        objective = PretrainingObjective(model).to(runtime.device)
        model.encoder.gradient_checkpointing = training.gradient_checkpointing
        optimizer = build_optimizer(training.optimizer, objective)
        batches = make_batches(section, data, steps=steps, seed=seed, runtime=runtime)
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
            start, meter = restore_together(folder, model, optimizer, runtime), Meter()
            entropy = unigram_entropy(data.shards, batches.masking.ordinary_ids)
            note(f"pretrain: {describe(model)} on {runtimes.describe(runtime)}; unigram entropy {entropy:.3f} nats")
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
                        folder.save(step.number, model, optimizer, {"evaluation_owed": owed})
                    if stop:
                        raise Stopped(stop, f"stopped at step {step.number} of {steps}; `--resume` goes on from there")
            micro_batches.close()
            if not evaluation:  # resumed behind the last step: only the end is missing
                evaluation = evaluate_held_out(objective, data.held_out, batches, section.held_out_examples)
            result = {
                "steps": steps,
                "parameters": sum(p.numel() for p in model.parameters()),
                "train_examples": examples,
                "tokens_per_second": round(meter.overall(), 1),
                **evaluation,
                "unigram_entropy": entropy,
                "plateau": on_plateau(evaluation["mlm_loss"], entropy),
                "seconds": round(time.monotonic() - began, 2),
            }
            folder.finish(lambda temp: save_model(temp, model, data.tokenizer, extra={"stage": "pretrain"}), result)
            return result


def build_model(section: PretrainSection, data: PretrainingData, seed: int) -> Model:
    """Fresh weights, or those of a checkpoint with the same vocabulary; with the heads that the examples call for."""
    heads = {"masked_lm": 0} | ({"sentence_pair": 2} if data.held_out.has_pairs() else {})
    torch.manual_seed(mix(seed, 0))
    if section.init_from is not None and not section.resize:
        loaded = load_model(resolve_model(section.init_from), heads)
        config, model, fresh = loaded.model.config, loaded.model, loaded.new_tensors
    else:
        config = encoder_config(
            section.encoder, vocab_size=data.tokenizer.vocab_size, pad_token_id=data.tokenizer.pad_id
        )
        model, fresh = Model(config, heads), []
    if section.resize:
        source = load_model(resolve_model(str(section.init_from))).model
        model, fresh = resized(source, config, heads, seed=mix(seed, 1), stretch=section.stretch)
    if fresh:
        note(f"init_from: drawn anew because the checkpoint has none: {', '.join(fresh)}")
    if config.vocab_size < data.tokenizer.vocab_size:
        raise BertctlError(
            f"the encoder has {config.vocab_size} word embeddings, the vocabulary {data.tokenizer.vocab_size}"
        )
    if config.max_position_embeddings < data.longest:
        raise BertctlError(
            f"the encoder reads {config.max_position_embeddings} tokens, the longest example has {data.longest}",
            hint=f"--set pretrain.encoder.max_position_embeddings={data.longest}",
        )
    return model


def fingerprint_of(
    section: PretrainSection, data: PretrainingData, *, seed: int, steps: int, precision: str
) -> dict[str, Any]:
    """Everything that must be equal for a resumed run to equal the uninterrupted one."""
    bookkeeping = {"log_every_steps", "evaluate_every_steps", "save_every_steps", "keep_checkpoints", "epochs", "steps"}
    values = section.model_dump(mode="json", exclude={"pairs": True, "tokens": True, "training": bookkeeping})
    if section.init_from is not None:
        values["init_from"] = origin_hash(resolve_model(section.init_from))
    return {**values, **data.hashes, "seed": seed, "steps": steps, "precision": precision}
