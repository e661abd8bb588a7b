"""What both sides of a measurement use: the clock, the precision, the texts, and how a result is reported."""

import contextlib
import csv
import json
import re
import statistics
import subprocess
import sys
import threading
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


def places(work: Path) -> list[tuple[int, int]]:
    """Where the text of each row to pretrain on begins and ends in the tokens, [CLS] and [SEP] not among them."""
    from bertctl.artifacts.examples import Examples

    columns = Examples(next((work / "pairs").glob("examples-*-train.safetensors"))).columns
    return list(zip(columns["a_start"].tolist(), columns["a_stop"].tolist(), strict=True))


def tokens_a_step(work: Path) -> float:
    """Real tokens of a batch of rows, on average: padding is no work done."""
    rows = places(work)
    return BATCH * sum(stop - start + 2 for start, stop in rows) / len(rows)


def labelled(work: Path) -> list[dict[str, str]]:
    """The texts to fine-tune on, with their labels."""
    with (work / "train.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Marks:
    """The time at every step; `rate` over those after the warm-up, or over one epoch."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def mark(self) -> None:
        self.times.append(time.perf_counter())

    def rate(self, items_a_step: float, first: int, last: int) -> float:
        """Items a second from the end of step `first` to the end of step `last`."""
        return items_a_step * (last - first) / (self.times[last - 1] - self.times[first - 1])


class Watch(threading.Thread):
    """The peak memory of this process and of those that it starts, which are looked at 20 times a second: what the
    system keeps of a child that has ended holds its parent's memory too."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, float] = {}
        self.start()

    def run(self) -> None:
        while True:
            self.look()
            time.sleep(0.05)

    def look(self) -> None:
        for file in Path("/proc/self/task").glob("*/children"):
            with contextlib.suppress(OSError):  # ended meanwhile
                for pid in file.read_text().split():
                    self.peaks[pid] = max(self.peaks.get(pid, 0), highest(pid))

    def peak_mib(self) -> float:
        return highest("self") + sum(self.peaks.values())


def highest(pid: str) -> float:
    """The most memory that a process has had, MiB; 0 if it has ended."""
    told = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return int(told[1]) / 1024 if told else 0.0


def helped(command: list[str]) -> dict[str, object]:
    """How often a second a command can tell how it is used: the median of five."""
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return {"rate": 1 / statistics.median(seconds), "unit": "starts/s"}


def run(functions: dict[str, Callable[..., dict[str, object]]]) -> None:
    """Call the function named on the command line; print its result with the peak memory, that of helpers too."""
    name, options, work = sys.argv[1:4]
    watch = Watch()
    result = functions[name](json.loads(options), Path(work))
    print(json.dumps({**result, "peak_mib": watch.peak_mib()}), flush=True)
