"""What both sides of a measurement use: the clock, the precision, the texts, and how a result is reported."""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

BATCH, TOKENS, WARM_UP = 32, 128, 4
SIZES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "base": (12, 768, 12)}
DROPOUT = 0.1


def bf16() -> bool:
    """Whether both sides compute in bf16: where the processor has instructions for it."""
    from bertctl.training.runtime import start

    with start("auto") as runtime:
        return str(runtime.dtype) == "torch.bfloat16"


def lines(path: Path) -> list[str]:
    """The lines of a text file."""
    return path.read_text(encoding="utf-8").splitlines()


class Marks:
    """The time at every step; `rate` over those after the warm-up, or over one epoch."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def mark(self) -> None:
        self.times.append(time.perf_counter())

    def rate(self, items_a_step: float, first: int, last: int) -> float:
        """Items a second from the end of step `first` to the end of step `last`."""
        return items_a_step * (last - first) / (self.times[last - 1] - self.times[first - 1])


def run(functions: dict[str, Callable[..., dict[str, object]]]) -> None:
    """Call the function named on the command line; print its result with the peak memory of this process."""
    name, options, work = sys.argv[1:4]
    result = functions[name](json.loads(options), Path(work))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    print(json.dumps({**result, "peak_mib": peak}), flush=True)
