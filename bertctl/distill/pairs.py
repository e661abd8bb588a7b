"""Distilling on pretraining data: what is read, how the student is trained and scored.

Shapes: B batch, T tokens.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertctl.console import Progress
from bertctl.distill.config import DistillSection
from bertctl.distill.objective import DistillationObjective, MaskedReader
from bertctl.errors import BertctlError, Stopped
from bertctl.heads.model import Model
from bertctl.metrics.masked_lm import masked_lm_metrics
from bertctl.metrics.rows import Metric
from bertctl.pretrain.batches import MaskedBatches
from bertctl.pretrain.data import PretrainingData, make_batches, open_data
from bertctl.pretrain.held_out import rows_on_all_ranks
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.text.extend import same_vocabulary
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import Batch, Prefetch, evenly
from bertctl.training.config import TrainingSection
from bertctl.training.loop import fit
from bertctl.training.meter import Meter
from bertctl.training.optim import build_optimizer
from bertctl.training.run_folder import RunFolder, restore_together
from bertctl.training.runtime import Runtime
from bertctl.training.schedule import lr_share
from bertctl.training.steps import due, step_line
from bertctl.variants.hf import Loaded

DEFAULT_EPOCHS, DEFAULT_RATE = 3.0, 5e-4  # DistilBERT's released training command
SPEED_EXAMPLES = 32


@dataclass
class OnPairs:
    """The masked-LM half of the stage. `training` has its steps counted and its rate a number."""

    section: DistillSection
    data: PretrainingData
    training: TrainingSection
    batches: MaskedBatches
    reader: MaskedReader
    runtime: Runtime
    seed: int
    metric: str = "mlm_accuracy"
    labels: list[str] | None = None
    problem_type: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def hashes(self) -> dict[str, str]:
        """What the run reads, by hash."""
        return self.data.hashes

    @property
    def longest(self) -> int:
        """Tokens of the longest example."""
        return self.data.longest

    def speed_batch(self) -> Batch:
        """Held-out examples, [at most 32, T]."""
        return self.batches.held_out(self.data.held_out, np.arange(min(SPEED_EXAMPLES, len(self.data.held_out))))

    def train(self, objective: DistillationObjective, folder: RunFolder) -> dict[str, Any]:
        """Train the student in `folder`, from its newest checkpoint if there is one. Errors: NonFinite, Stopped."""
        training, steps = self.training, self.training.steps or 1
        optimizer = build_optimizer(training.optimizer, objective)
        start, meter = restore_together(folder, objective, optimizer, self.runtime), Meter()
        with (
            Prefetch(self.batches, steps) as micro_batches,
            Progress("distill", "steps", steps, start=start) as progress,
        ):
            for step in fit(
                objective,
                micro_batches,
                optimizer=optimizer,
                schedule=lambda number: lr_share(training.schedule, number, steps),
                start=start,
                steps=steps,
                runtime=self.runtime,
                max_grad_norm=training.max_grad_norm,
                seed=self.seed,
            ):
                meter.add(step)
                if step.number == steps or due(step.number, training.log_every_steps):
                    speed = meter.lap()
                    folder.log(step_line(step, speed))
                    progress.update(step.number, f"loss {step.loss:.3f}  {speed:,.0f} tokens/s")
                stop = self._score_and_save(objective, optimizer, folder, step.number)
                if stop:
                    raise Stopped(stop, f"stopped at step {step.number} of {steps}; `--resume` goes on from there")
        return {"steps": steps, "tokens_per_second": round(meter.overall(), 1)}

    def _score_and_save(
        self, objective: DistillationObjective, optimizer: torch.optim.Optimizer, folder: RunFolder, step: int
    ) -> int | None:
        """Score and save what is due after a step; the signal that asks to stop, if one does."""
        stop = self.runtime.agree_on_signal()
        if not stop and due(step, self.training.evaluate_every_steps):
            stop = self._log_score(objective.student, folder, step)
        if stop or step == (self.training.steps or 1) or due(step, self.training.save_every_steps):
            folder.save(step, objective, optimizer)
        return stop

    def _log_score(self, student: Model, folder: RunFolder, step: int) -> int | None:
        """A line with the held-out score; the signal that interrupted it, if one did."""
        try:
            points = {name: metric.point() for name, metric in self.score(student).items()}
        except Stopped as stopped:
            return stopped.signal_number
        folder.log({"step": step, "split": "held_out", **points})
        return None

    def score(self, model: Model) -> dict[str, Metric]:
        """mlm_loss, perplexity and mlm_accuracy on the held-out examples, the same with the same masks every time."""
        loss, right, masked = self._rows(model).T[:3]
        metrics = masked_lm_metrics(loss, right, masked)
        return {
            "mlm_accuracy": metrics["accuracy"],
            "mlm_loss": metrics["loss"],
            "perplexity": metrics["perplexity"],
        }

    def _rows(self, model: Model) -> NDArray[np.float64]:
        """A row an example [N, 4], on every rank."""
        reader = self.data.held_out
        ids = evenly(len(reader), self.section.held_out_examples)
        return rows_on_all_ranks(PretrainingObjective(model), reader, ids, self.batches)


def open_pairs(
    section: DistillSection, teacher: Loaded, tokenizer: Tokenizer, *, seed: int, runtime: Runtime
) -> OnPairs:
    """Open the data and check that they fit the teacher. Errors: BertctlError."""
    model = teacher.model
    if model.config.image_size:
        raise BertctlError(
            f"{section.teacher}: reads images, which are distilled for a task, and pretraining data are texts",
            hint="bertctl distill TEACHER STUDENT --task image_classification --data DIR, with a fine-tuned TEACHER",
        )
    data = open_data(section, "distill")
    if "masked_lm" not in model.head_outputs or any(name.startswith("heads.") for name in teacher.new_tensors):
        raise BertctlError(
            f"{section.teacher}: has no masked-LM head, so there are no soft targets to learn from",
            hint="a fine-tuned teacher needs its `task`; an encoder without heads can be pretrained further first",
        )
    same_vocabulary(data.tokenizer, section.pairs, tokenizer, "the teacher")
    examples = sum(len(reader) for reader in data.train.values())
    rate = section.training.optimizer.lr or DEFAULT_RATE
    training = section.training.model_copy(
        update={
            "steps": section.training.steps_for(examples, DEFAULT_EPOCHS),
            "epochs": None,
            "optimizer": section.training.optimizer.model_copy(update={"lr": rate}),
        }
    )
    batches = make_batches(section, data, steps=training.steps or 1, seed=seed, runtime=runtime)
    pairs = data.held_out.has_pairs() and "sentence_pair" in model.head_outputs
    reader = MaskedReader(section.soft_positions, pairs)
    return OnPairs(section, data, training, batches, reader, runtime, seed)
