"""From features to predictions: the logits of any number of features, a chunk of examples at a time.

Shapes: T tokens, C labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertctl.errors import Stopped
from bertctl.heads.model import Model
from bertctl.heads.table import HEADS
from bertctl.tasks.batches import collate
from bertctl.tasks.task import Features, Limits, Prediction, Task, nothing_to_tune
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import Batch, inputs_of
from bertctl.training.runtime import Runtime

CHUNK_EXAMPLES = 2048  # encoded, scored and turned into predictions at a time, so that logits do not pile up


@dataclass(frozen=True)
class Chunk:
    """Some examples that stand next to each other, with their features (whose `example` counts from this chunk)."""

    examples: Sequence[Any]
    features: Sequence[Features]


def encode_chunks(
    task: Task,
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    labels: Sequence[str],
    limits: Limits,
) -> Iterator[Chunk]:
    """All examples in order, encoded a chunk at a time, or at once if they can only be predicted together."""
    size = max(1, len(examples)) if task.together else CHUNK_EXAMPLES
    for begin in range(0, len(examples), size):
        part = examples[begin : begin + size]
        yield Chunk(part, task.encode(part, tokenizer, labels, limits))


def feature_logits(
    model: Model, head: str, features: Sequence[Features], *, pad_id: int, batch_size: int, runtime: Runtime
) -> list[NDArray[np.float32]]:
    """Logits of each feature in the order given: [C] for a pooled head, [T, C] for one that reads tokens, T without
    padding.

    Batches hold features of like length; ranks take turns and all get everything. Errors: Stopped.
    """
    model.eval()
    per_token = HEADS[head].reads == "tokens"
    sizes = [len(f.input_ids) if per_token else 1 for f in features]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    found = torch.zeros(int(starts[-1]), model.outputs(head), device=runtime.device)
    order = sorted(range(len(features)), key=lambda i: -len(features[i].input_ids))
    batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
    with torch.inference_mode():
        for turn in range(0, len(batches), runtime.world_size):
            _stop_if_asked(runtime)
            for ids in batches[turn + runtime.rank : turn + runtime.rank + 1]:
                batch = collate([features[i] for i in ids], model, pad_id)
                logits = _forward(model, head, batch, runtime)
                for row, i in enumerate(ids):
                    found[starts[i] : starts[i + 1]] = logits[row, : sizes[i]] if per_token else logits[row]
    array = runtime.sum(found).cpu().numpy()
    return [array[starts[i] : starts[i + 1]] if per_token else array[i] for i in range(len(features))]


def _forward(model: Model, head: str, batch: Batch, runtime: Runtime) -> torch.Tensor:
    """The logits, by the head in float32 whatever the encoder computes in: numbers near 3 that are rounded to bf16 lie
    1/64 apart, so that predictions which differ become equal, and a correlation with them undefined."""
    batch = {name: tensor.to(runtime.device) for name, tensor in batch.items()}
    inputs = inputs_of(batch)
    with runtime.autocast():
        places = model.first_tokens(head, inputs)
        output = model(inputs, batch.get("attention_mask"), batch.get("token_type_ids"), places=places)
    logits: torch.Tensor = model.logits(head, replace(output, last_hidden_state=output.last_hidden_state.float()))
    return logits


def _stop_if_asked(runtime: Runtime) -> None:
    number = runtime.agree_on_signal()
    if number:
        raise Stopped(number, "stopped while scoring")


def predict_chunks(
    task: Task,
    model: Model,
    chunks: Sequence[Chunk],
    labels: Sequence[str],
    *,
    settings: Mapping[str, Any] | None,
    pad_id: int,
    batch_size: int,
    runtime: Runtime,
) -> tuple[list[Prediction], Mapping[str, Any]]:
    """(predictions of all examples in order, settings), whatever the batch size. Without `settings` the task finds
    them on these very examples, which must then be dev."""
    tune = settings is None and task.tune is not nothing_to_tune
    parts = [joined(chunks)] if tune or task.together else chunks
    predictions: list[Prediction] = []
    found = settings or {}
    for part in parts:
        logits = feature_logits(model, task.head, part.features, pad_id=pad_id, batch_size=batch_size, runtime=runtime)
        if tune:
            found = task.tune(part.examples, part.features, logits, labels)
        predictions += task.predictions(part.examples, part.features, logits, labels, found)
    return predictions, found


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks as one."""
    examples: list[Any] = []
    features: list[Features] = []
    for chunk in chunks:
        features += [replace(feature, example=feature.example + len(examples)) for feature in chunk.features]
        examples += chunk.examples
    return Chunk(examples, features)
