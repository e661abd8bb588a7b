"""Fine-tuning beside transformers' Trainer: the same checkpoint, data, hyperparameters and seeds, in turns (A B A B).

    python benchmarks/finetune_peers.py DATA --model MODEL --out OUT                    six tasks, three seeds, in full
    python benchmarks/finetune_peers.py DATA --model MODEL --out OUT --task mrpc --train 300 --seeds 1

DATA holds sst2/ mrpc/ stsb/ wikigold/ ud_ewt/ squad1/ in their published forms. They are cut into train, dev and test
once, and both sides read these files: dev picks the epoch, test is scored once. A side is a process of its own, whose
seconds are those from reading the files to the test score, without imports. Trainer runs twice: as the examples of
transformers set it up (random batches, each padded to its longest), and with batches of like length.
Writes OUT/finetune_peers.json and prints a table. Scores agree if the difference of the means is within half the width
of our 95% interval over test examples. Needs `pip install accelerate`, which Trainer asks for.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl import memory

Row = dict[str, Any]
Splits = dict[str, list[Row]]
HELD_OUT = 10  # one example in so many becomes dev where there is none
SIDES = ("bertctl", "trainer", "trainer by length")


def tsv(path: Path) -> list[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def with_dev(train: list[Row], test: list[Row]) -> Splits:
    """Every tenth training example becomes dev."""
    return {
        "train": [row for place, row in enumerate(train) if place % HELD_OUT],
        "dev": train[::HELD_OUT],
        "test": test,
    }


def sst2(data: Path) -> Splits:
    def read(name: str) -> list[Row]:
        return [{"text": row["sentence"], "label": row["label"]} for row in tsv(data / "sst2" / name)]

    return with_dev(read("train.tsv"), read("dev.tsv"))


def mrpc(data: Path) -> Splits:
    def read(part: str) -> list[Row]:
        rows = tsv(data / "mrpc" / f"msr_paraphrase_{part}.txt")
        return [{"text": r["#1 String"], "text_pair": r["#2 String"], "label": r["Quality"]} for r in rows]

    return with_dev(read("train"), read("test"))


def stsb(data: Path) -> Splits:
    def read(split: str) -> list[Row]:
        with (data / "stsb" / f"stsb-en-{split}.csv").open(encoding="utf-8", newline="") as file:
            return [{"text": a, "text_pair": b, "score": float(score)} for a, b, score in csv.reader(file)]

    return {split: read(split) for split in ("train", "dev", "test")}


def blocks(path: Path) -> Iterator[list[str]]:
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith(("#", "-DOCSTART-"))]
        if lines:
            yield lines


def wikigold(data: Path) -> Splits:
    """IOB1 (every chunk begins with I-, but for one that touches another of its type) as BIO."""
    rows = []
    for lines in blocks(data / "wikigold" / "wikigold.conll.txt"):
        words, tags = zip(*(line.split() for line in lines), strict=True)
        before = ("O", *tags[:-1])
        bio = [
            f"B-{tag[2:]}" if tag[0] == "I" and last[2:] != tag[2:] else tag
            for last, tag in zip(before, tags, strict=True)
        ]
        rows.append({"tokens": list(words), "tags": bio})
    return with_dev(rows[:1356], rows[1356:])


def ud(data: Path) -> Splits:
    def read(name: str) -> list[Row]:
        rows = []
        for lines in blocks(data / "ud_ewt" / name):
            cells = [line.split("\t") for line in lines]
            words = [cell for cell in cells if cell[0].isdecimal()]
            rows.append({"tokens": [cell[1] for cell in words], "tags": [cell[3] for cell in words]})
        return rows

    return {
        "train": read("train_sample.conllu"),
        "dev": read("en_ewt-ud-dev.conllu")[::4],
        "test": read("en_ewt-ud-test.conllu"),
    }


def squad(data: Path) -> Splits:
    articles = json.loads((data / "squad1" / "xquad.en.json").read_text(encoding="utf-8"))["data"]

    def read(chosen: list[Row]) -> list[Row]:
        return [
            {"id": q["id"], "question": q["question"], "context": paragraph["context"], "answers": q["answers"]}
            for article in chosen
            for paragraph in article["paragraphs"]
            for q in paragraph["qas"]
        ]

    return {"train": read(articles[:34]), "dev": read(articles[34:38]), "test": read(articles[38:])}


@dataclass(frozen=True)
class Task:
    """`kind` is bertctl's name of it, `metric` its main metric there."""

    kind: str
    metric: str
    read: Callable[[Path], Splits]
    epochs: int = 3
    max_length: int = 128
    lr: float = 1e-4


TASKS = {
    "sst2": Task("classification", "accuracy", sst2, epochs=2),
    "mrpc": Task("classification", "accuracy", mrpc),
    "stsb": Task("regression", "pearson", stsb),
    "wikigold": Task("ner", "f1", wikigold, epochs=5, lr=3e-4),
    "ud": Task("pos", "token_accuracy", ud, lr=3e-4),
    "squad": Task("qa", "f1", squad, epochs=4, max_length=384, lr=3e-4),
}


def write_data(task: Task, data: Path, folder: Path, examples: int | None) -> None:
    """The splits as JSON lines, each at most `examples` long."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in task.read(data).items():
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows[:examples]]
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")


def ours(job: Row) -> Row:
    """This side: {"value", "low", "high", "seconds", "cpu_seconds"}."""
    from bertctl.finetune.config import FinetuneSection
    from bertctl.finetune.run import run
    from bertctl.recipe.load import build_recipe

    tree = {
        "task": job["kind"],
        "model": job["model"],
        "data": {"path": job["data"]},
        "max_length": job["max_length"],
        "baselines": False,
        "training": {
            "epochs": job["epochs"],
            "batch_size": job["batch_size"],
            "optimizer": {"lr": job["lr"], "weight_decay": 0.01, "eps": 1e-6},
            "precision": "float32",
        },
    }
    began, busy = time.perf_counter(), time.process_time()
    found = run(build_recipe(tree, FinetuneSection), out=Path(job["out"]), seed=job["seed"])["pretrained"]
    seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - busy}
    return {key: found[key] for key in ("value", "low", "high")} | seconds


def measure(side: str, job: Row) -> Row:
    """One side in a fresh process, whose last line is its result; what was measured before is read again."""
    here = Path(__file__)
    script = [str(here), "--job"] if side == "bertctl" else [str(here.with_name("finetune_trainer.py"))]
    job |= {"by_length": side == "trainer by length", "out": f"{job['out']}/{side.replace(' ', '-')}-{job['seed']}"}
    kept = Path(f"{job['out']}.json")
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, *script, json.dumps(job)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    kept.write_text(done.stdout.splitlines()[-1], encoding="utf-8")
    return json.loads(kept.read_text(encoding="utf-8"))


def compare(name: str, options: argparse.Namespace) -> Row:
    """All sides in turns, seed by seed: every score and time, their means, and ours beside each of theirs."""
    task, folder = TASKS[name], options.out / name
    write_data(task, options.data, folder / "data", options.train)
    common = {"kind": task.kind, "model": str(options.model.absolute()), "data": str((folder / "data").absolute())}
    common |= {"max_length": task.max_length, "epochs": options.epochs or task.epochs, "lr": task.lr}
    common |= {"batch_size": 32, "threads": options.threads, "out": str(folder.absolute())}
    runs: dict[str, list[Row]] = {side: [] for side in ("bertctl", *(options.peer or SIDES[1:]))}
    for seed in range(options.seeds):
        for side in runs:
            runs[side].append(measure(side, common | {"seed": seed}))
            print(f"{name}, seed {seed}, {side}: {runs[side][-1]}", file=sys.stderr, flush=True)
    half = statistics.fmean((run["high"] - run["low"]) / 2 for run in runs["bertctl"])
    summary = {side: summarise(found) for side, found in runs.items()}
    own = summary["bertctl"]
    for side in list(runs)[1:]:
        summary[side]["difference"] = own["mean"] - summary[side]["mean"]
        summary[side]["within"] = abs(summary[side]["difference"]) <= half
        summary[side]["times_as_fast"] = summary[side]["seconds"] / own["seconds"]
        summary[side]["times_less_work"] = summary[side]["cpu_seconds"] / own["cpu_seconds"]
    return {"task": name, "metric": task.metric, "half_interval": half, "sides": summary, "runs": runs}


def summarise(runs: list[Row]) -> Row:
    values = [run["value"] for run in runs]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    times = {name: statistics.median(run[name] for run in runs) for name in ("seconds", "cpu_seconds")}
    return {"mean": statistics.fmean(values), "std": spread, **times}


def table(results: list[Row]) -> str:
    lines = [
        "| task | metric | side | mean ± std | ours - theirs (± interval) | s | ours times as fast |",
        "|---" * 7 + "|",
    ]
    for result in results:
        for side, found in result["sides"].items():
            score = f"{found['mean']:.4f} ± {found['std']:.4f}"
            theirs = ["", ""]
            if "difference" in found:
                inside = "within" if found["within"] else "OUTSIDE"
                difference = f"{found['difference']:+.4f} (± {result['half_interval']:.4f}, {inside})"
                theirs = [difference, f"{found['times_as_fast']:.2f} x (processors {found['times_less_work']:.2f} x)"]
            times = [f"{found['seconds']:.0f}", f"{found['cpu_seconds']:.0f}"]
            cells = [result["task"], result["metric"], side, score, theirs[0], *times, theirs[1]]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with the data sets")
    parser.add_argument("--model", type=Path, required=True, help="a checkpoint of BERT kind, as a folder")
    parser.add_argument("--out", type=Path, required=True, help="where runs and results go")
    parser.add_argument("--task", choices=TASKS, action="append", help="one task; may be given again; all if not given")
    parser.add_argument("--peer", choices=SIDES[1:], action="append", help="beside one of the two; both if not given")
    parser.add_argument("--train", type=int, help="at most so many examples of each split")
    parser.add_argument("--epochs", type=int, help="in place of each task's own")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    results = []
    for name in options.task or TASKS:
        results.append(compare(name, options))
        (options.out / "finetune_peers.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        memory.settle(["finetune"])  # as the command does
        print(json.dumps(ours(json.loads(sys.argv[2]))))
    else:
        main()
