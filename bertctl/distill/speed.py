"""How much faster the student is: both models on the same batch, in turn, so that a busy machine slows both alike."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from bertctl import signals
from bertctl.console import throughput
from bertctl.heads.model import Model
from bertctl.training.batching import Batch, inputs_of
from bertctl.training.runtime import Runtime

ROUNDS = 7
WARM_UP_ROUNDS = 2
SHORTEST_SECONDS = 0.03  # a time below this says more of the clock and the neighbours than of the model
MOST_PASSES = 50


def measure_speedup(teacher: Model, student: Model, batch: Batch, runtime: Runtime) -> dict[str, Any]:
    """`speedup`: median over rounds of the teacher's seconds / the student's for a forward pass of the encoder in the
    run's precision; `speed`: the batch, of images with the teacher's patches, and each model's examples per second."""
    passes = passes_for(_seconds(lambda: _encode(student, batch, runtime)))
    pairs = timed_rounds(
        lambda: _encode(teacher, batch, runtime, passes), lambda: _encode(student, batch, runtime, passes)
    )
    examples, tokens = len(inputs_of(batch)), teacher.encoder.tokens_of(inputs_of(batch))
    slow, fast = (statistics.median(times) / passes for times in zip(*pairs, strict=True))
    return {
        "speedup": round(median_ratio(pairs), 3),
        "speed": {
            "batch": examples,
            "tokens": tokens,
            "teacher_examples_per_second": round(throughput(examples, slow), 1),
            "student_examples_per_second": round(throughput(examples, fast), 1),
        },
    }


def timed_rounds(
    first: Callable[[], None],
    second: Callable[[], None],
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[tuple[float, float]]:
    """Seconds of both, A B A B ..., after rounds that are not counted."""
    pairs = []
    for _ in range(WARM_UP_ROUNDS + rounds):
        signals.check("measuring speed")
        begin = clock()
        first()
        middle = clock()
        second()
        pairs.append((middle - begin, clock() - middle))
    return pairs[WARM_UP_ROUNDS:]


def passes_for(seconds: float) -> int:
    """Forward passes in one timing, so that it is not too short."""
    return min(MOST_PASSES, max(1, math.ceil(SHORTEST_SECONDS / max(seconds, 1e-9))))


def _seconds(work: Callable[[], None]) -> float:
    work()  # the first time allocates
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median_ratio(pairs: list[tuple[float, float]]) -> float:
    """Median of first / second; 0 for a clock that stood still."""
    return statistics.median(throughput(first, second) for first, second in pairs)


def _encode(model: Model, batch: Batch, runtime: Runtime, passes: int = 1) -> None:
    model.eval()
    with torch.inference_mode(), runtime.autocast():
        for _ in range(passes):
            model(inputs_of(batch), batch.get("attention_mask"), batch.get("token_type_ids"))
    if runtime.device.type == "cuda":
        torch.cuda.synchronize(runtime.device)
