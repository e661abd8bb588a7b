"""What long comparisons share: a clock of processor time around training steps, and parts that are done once.

Time is processor time of this process, on one thread: what other programs take on a shared machine does not count
(they still cost caches and clock rate). Only training steps are on the clock; evaluation and saving are not.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Look = Callable[[Any, Any, bool], Row]
"""(objective, runtime, whether this is the last point) -> what is to be seen."""


@dataclass
class Clock:
    """Processor seconds after each step in `times`; after the steps in `at`, what `look` sees, in `points`."""

    look: Look | None = None
    at: tuple[int, ...] = ()
    times: list[float] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.times[-1] if self.times else 0.0

    def around(self, fit: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """A training loop that keeps this clock."""

        def timed(objective: Any, batches: Any, **named: Any) -> Iterator[Any]:
            steps = fit(objective, batches, **named)
            while True:
                began = time.process_time()
                step = next(steps, None)
                if step is None:
                    return
                self.times.append(self.seconds + time.process_time() - began)
                if step.number in self.at:
                    point = {"step": step.number, "seconds": self.seconds, "train_loss": step.loss}
                    seen = self.look(objective, named["runtime"], step.number == self.at[-1]) if self.look else {}
                    self.points.append(point | seen)
                    say(f"  {self.points[-1]}")
                yield step

        return timed


def timed_stage(section: Any, *, out: Path, seed: int, clock: Clock) -> Row:
    """The stage `pretrain` in `out`, which is made anew, with `clock` around its steps; its result."""
    import shutil

    from bertctl.pretrain import run as stage

    shutil.rmtree(out, ignore_errors=True)
    fit = stage.fit
    stage.fit = clock.around(fit)
    try:
        return stage.run(section, out=out, seed=seed)
    finally:
        stage.fit = fit


def held_out_lines(folder: Path) -> dict[int, Row]:
    """What the stage measured on held-out documents, by step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {line["step"]: line for line in lines if line.get("split") == "held_out"}


def part(path: Path, what: str, work: Callable[[], Row]) -> Row:
    """The result of a part: as it lies in `path`, or made now and put there, with the processor time it took."""
    if not path.exists():
        say(f"{path.parent.name}: {what}")
        began = time.process_time()
        found = work() | {"processor_seconds": time.process_time() - began}
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = path.with_suffix(".tmp")
        temp.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        temp.rename(path)
    return json.loads(path.read_text(encoding="utf-8"))


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
