"""How much sooner our recipe has the held-out loss that transformers' Trainer reaches in a given processor time.

    OMP_NUM_THREADS=1 python benchmarks/time_to_quality.py DATA WORK --minutes 20

DATA as for real_text.py. Both sides have the same vocabulary, rows, size of encoder, batch, precision and one thread,
and are scored by the same code on the same masks: held-out documents, which set the mark, and WikiText-2 test. The
Trainer (quality_trainer.py) trains BERT with its masking collator, its dropout and a linear schedule with warm-up over
the whole budget, once for each of three rates; the best one, judged by the very examples that set the mark, counts. Our
recipe (time_to_quality.yaml) is trained afresh, with a schedule of its own, for growing shares of the budget until it
has that loss; its rate is fixed. The sides take turns. Time is processor time of training steps alone: clock.py.
A part that is done is not done again. Results: WORK/result.json, and a table on stdout. Needs the `bench` extra.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clock import Clock, Row, part, timed_stage
from equal_time import text_data

from bertctl import memory

RECIPE = Path(__file__).with_suffix(".yaml")
TRAINER = Path(__file__).with_name("quality_trainer.py")
RATES = (5e-4, 1e-3, 2e-3)
"""The Trainer's; 1e-4 is BERT's own for 768 dimensions and batches of 256, and 2e-4 was its worst here."""
SHARES = (1 / 12, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 1.0)
OURS = {"mini": (2e-3, 0.06), "small": (1e-3, 0.04)}
"""By size: peak rate, standard deviation of fresh weights (about 1 / root of the width)."""
WARM_UP, TIMED = 4, 16  # steps of the timing runs


@dataclass(frozen=True)
class Race:
    """Both sides at one size."""

    work: Path
    size: str
    seconds: float
    rates: tuple[float, ...] = RATES

    @property
    def here(self) -> Path:
        return self.work / self.size

    def train_ours(self, folder: Path, steps: int) -> Clock:
        """Our recipe from the start, for so many steps; the clock afterwards."""
        rate, deviation = OURS[self.size]
        keys = {"pairs": self.work / "pairs", "tokens": self.work / "tokens", "encoder.size": self.size}
        keys |= {"encoder.initializer_range": deviation, "held_out_examples": 1}
        keys |= {"training.steps": steps, "training.optimizer.lr": rate}
        recipe, clock = load(*(f"pretrain.{key}={value}" for key, value in keys.items())), Clock()
        timed_stage(recipe.pretrain, out=folder, seed=recipe.seed, clock=clock)
        return clock

    def train_theirs(self, folder: Path, steps: int, rate: float) -> list[float]:
        """The Trainer in a process of its own; processor seconds after each step."""
        job = {"work": str(self.work), "size": self.size, "steps": steps, "rate": rate, "out": str(folder)}
        command = [sys.executable, str(TRAINER), json.dumps(job)]
        plain = {name: value for name, value in os.environ.items() if name != memory.VARIABLE}
        done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the Trainer failed:\n{done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def pace(self, side: str) -> float:
        """Seconds a step, the first few left out."""
        folder = self.here / f"timing-{side}"

        def measure() -> Row:
            count = WARM_UP + TIMED
            times = (
                self.train_ours(folder, count).times if side == "ours" else self.train_theirs(folder, count, RATES[0])
            )
            return {"seconds_a_step": (times[-1] - times[WARM_UP - 1]) / TIMED}

        return part(self.here / f"pace-{side}.json", f"timing {side}", measure)["seconds_a_step"]

    def theirs(self, rate: float) -> Row:
        """A whole budget of the Trainer at one rate."""
        folder, steps = self.here / f"theirs-{rate}", max(2, round(self.seconds / self.pace("theirs")))

        def work() -> Row:
            times = self.train_theirs(folder, steps, rate)
            return {"rate": rate, "steps": steps, "seconds": times[-1], **self.scores(folder)}

        return part(folder.with_suffix(f"{folder.suffix}.json"), f"the Trainer at rate {rate}", work)

    def ours(self, share: float) -> Row:
        """Our recipe for a share of the budget."""
        steps = max(2, round(share * self.seconds / self.pace("ours")))
        folder = self.here / f"ours-{share:.3f}"

        def work() -> Row:
            clock = self.train_ours(folder, steps)
            return {"share": share, "steps": steps, "seconds": clock.seconds, **self.scores(folder / "model")}

        return part(self.here / f"ours-{share:.3f}.json", f"our recipe for {share:.3f} of the time", work)

    def scores(self, model: Path) -> Row:
        """Loss on held-out rows and on WikiText-2 test, each with its interval."""
        from bertctl.evaluate.run import run

        found = {}
        places = {"pairs": self.work / "pairs", "tokens": self.work / "tokens"}
        for name, keys in (("held_out", places), ("wikitext", {"data.path": self.work / "wikitext2-test.txt"})):
            recipe = load(*(f"evaluate.0.{key}={value}" for key, value in {"model": model, **keys}.items()))
            loss = run(recipe.evaluate[0], out=self.here / "scores", seed=recipe.seed)["metrics"]["loss"]
            found[name] = {key: loss[key] for key in ("value", "low", "high")}
        return found

    def run(self) -> Row:
        """Turn by turn: a run of theirs, then larger and larger shares of ours until one is as good as their best."""
        theirs, ours = [], []
        shares = iter(SHARES)
        for rate in self.rates:
            theirs.append(self.theirs(rate))
            best = min(theirs, key=lambda row: row["held_out"]["value"])
            while reached(ours, best) is None and (share := next(shares, None)):
                ours.append(self.ours(share))
        return {"theirs": theirs, "ours": ours, "best": best, "reached": reached(ours, best)}


def reached(ours: list[Row], best: Row) -> Row | None:
    """Our shortest run whose held-out loss is not above the mark, and its share of the time that the mark took."""
    for row in sorted(ours, key=lambda row: row["seconds"]):
        if row["held_out"]["value"] <= best["held_out"]["value"]:
            return row | {"time_ratio": row["seconds"] / best["seconds"]}
    return None


def load(*overrides: str) -> Any:
    from bertctl.cli.recipe import Recipe
    from bertctl.recipe.load import load_recipe

    return load_recipe(RECIPE, Recipe, overrides)


def table(result: dict[str, Row]) -> str:
    """One line a run, and what it comes to."""
    lines = ["| size | side | steps | processor s | held-out loss | WikiText-2 test |", "|---" * 6 + "|"]
    for size, found in result.items():
        rows = [(f"Trainer, rate {row['rate']:g}", row) for row in found["theirs"]]
        rows += [(f"bertctl, {row['share']:.2f} of the time", row) for row in found["ours"]]
        for side, row in rows:
            losses = ("{value:.3f} ({low:.3f} to {high:.3f})".format(**row[text]) for text in ("held_out", "wikitext"))
            lines.append(f"| {size} | {side} | {row['steps']} | {row['seconds']:.0f} | {' | '.join(losses)} |")
    for size, found in result.items():
        row = found["reached"]
        told = "not reached" if row is None else f"reached in {row['time_ratio']:.2f} of the time"
        lines.append(f"\n{size}: the Trainer's best loss, {found['best']['held_out']['value']:.3f}, is {told}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with the data sets")
    parser.add_argument("work", type=Path, help="where all parts go")
    parser.add_argument("--minutes", type=float, default=20.0, help="processor time of each run of the Trainer")
    parser.add_argument("--size", choices=OURS, action="append", help="one size; may be given again")
    parser.add_argument("--rate", type=float, action="append", help="a rate of the Trainer; may be given again")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    work = options.work.absolute()
    part(work / "data.json", "corpus, vocabulary, examples", lambda: text_data(load, options.data, work))
    rates = tuple(options.rate or RATES)
    result = {size: Race(work, size, 60 * options.minutes, rates).run() for size in options.size or OURS}
    (work / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result))


if __name__ == "__main__":
    memory.settle(["pretrain"])  # as the command does
    main()
