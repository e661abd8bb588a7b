"""Stage 6: score a checkpoint on data. Read it from top to bottom."""

import json
import time
from pathlib import Path
from typing import Any

from bertctl.artifacts.folder import whole_folder
from bertctl.artifacts.manifest import is_kind
from bertctl.errors import BertctlError
from bertctl.evaluate.config import MASKED_LM, EvaluateSection
from bertctl.evaluate.masked_lm import score_masked_lm
from bertctl.evaluate.score import score_task, show
from bertctl.evaluate.systems import load
from bertctl.evaluate.task import task_of
from bertctl.training import runtime as runtimes

KIND = "evaluation"


def run(section: EvaluateSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Score the section's model, or what other systems predicted, and compare if there are two; write result.json, and
    for a task predictions.jsonl, into `out`.

    An older evaluation in `out` is replaced by the new one; nothing is kept of one that was stopped, so `resume`
    starts over. Errors: BertctlError before the model runs, for a task that the checkpoint does not know, for labels
    that it does not have, for data that cannot be read.
    """
    began = time.monotonic()
    if runtimes.place()[1] > 1:
        raise BertctlError("evaluate: started as one of several ranks, but it runs in one process; leave out torchrun")
    if section.model is None and (section.against is not None or not section.predictions):
        raise BertctlError("evaluate.model: not given", hint="bertctl evaluate MODEL --data PATH")
    checkpoints = [load(name, section) for name in (section.model, section.against) if name is not None]
    task = section.task or task_of(checkpoints[0].loaded, checkpoints[0].folder)
    if task == MASKED_LM and section.predictions:
        raise BertctlError(
            f"{section.model}: predicts masked tokens, which no file of predictions can be compared with",
            hint="--task T, for a checkpoint that was fine-tuned for it",
        )
    inputs = {"vocabulary": checkpoints[0].tokenizer.hash} if checkpoints else {}
    with (
        runtimes.start(section.precision) as runtime,
        whole_folder(out, kind=KIND, inputs=inputs, replace=is_kind(out, KIND)) as temp,
    ):
        for checkpoint in checkpoints:
            checkpoint.loaded.model.to(runtime.device).eval()
        if task == MASKED_LM:
            result = score_masked_lm(section, checkpoints, seed=seed, runtime=runtime)
        else:
            result = score_task(section, task, checkpoints, folder=temp, seed=seed, runtime=runtime)
        result = {"task": task, **result, "seconds": round(time.monotonic() - began, 2)}
        text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        (temp / "result.json").write_text(text, encoding="utf-8")
    show(result, out)
    return result
