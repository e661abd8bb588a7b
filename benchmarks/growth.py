"""Whether speed and memory stay as they are when the data grow, and when a second rank helps.

    OMP_NUM_THREADS=1 python benchmarks/growth.py corpus WORK    peak memory of each stage, also for ten times the text
    OMP_NUM_THREADS=1 python benchmarks/growth.py steps WORK     tokens/s with data for 10,000 to a million steps
    OMP_NUM_THREADS=1 python benchmarks/growth.py ranks WORK     weak scaling: one rank, and two with twice the batch

Texts are Python's own documentation, again and again, every copy of a document with a number before it. Each measure is
a process of its own: its rate by processor time (`ranks`: by the clock on the wall, so keep the machine quiet) and its
peak memory, files that are mapped into it included. The larger data take 2 GB of disk. Results: WORK/<what>.json too.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clock import Clock, Row, say, timed_stage
from sides.shared import Watch

from bertctl import memory

SMALL, TIMES = 3_000_000, 10  # bytes of the smaller corpus, and how much larger the other one is
STEPS = (10_000, 100_000, 1_000_000)
BATCH, TOKENS = 8, 32  # small, so that a million steps fit on a disk and reading is a large part of a step
TIMED = 400  # steps


def build(tree: Row, section: type) -> Any:
    from bertctl.recipe.load import build_recipe

    return build_recipe(tree, section)


def texts() -> Iterator[str]:
    """The documentation without end."""
    from bertctl.demo.python_docs import documents

    found = [text for _, text in documents()]
    for copy in itertools.count():
        yield from (f"{copy} {text}" for text in found)


def write_corpus(path: Path, size: int) -> None:
    """So many bytes of text, a document a line."""
    with path.open("w", encoding="utf-8") as file:
        for text in texts():
            file.write(json.dumps({"text": text}) + "\n")
            if file.tell() > size:
                return


def tokenize(work: Path, name: str) -> Row:
    from bertctl.tokenize.config import TokenizeSection
    from bertctl.tokenize.run import run

    tree = {"corpus": {"files": [str(work / f"{name}.jsonl")]}, "vocab_size": 8192, "tokens_per_shard": 1_000_000}
    return {"tokens": run(build(tree, TokenizeSection), out=work / name / "tokens", seed=0)["tokens"]}


def more_tokens(work: Path, name: str, count: int) -> Row:
    """`count` tokens: the shards of the small corpus again and again, as if their texts stood there so often."""
    import numpy as np

    from bertctl.artifacts.folder import whole_folder
    from bertctl.artifacts.shards import KIND, Block, TokenShards, TokenShardWriter
    from bertctl.text.tokenizer import Tokenizer

    source = work / "small" / "tokens"
    shards, facts = TokenShards(source), {"vocab_size": 8192, "sentences": "rules", "language": "en"}
    with whole_folder(work / name / "tokens", kind=KIND, inputs={}, facts=facts) as temp:
        Tokenizer.load(source).save(temp)
        writer = TokenShardWriter(temp, vocab_size=shards.vocab_size, tokens_per_shard=20_000_000)
        for shard in itertools.cycle(shards.shards):
            lengths = np.diff(shard.sentence_offsets), np.diff(shard.document_offsets)
            writer.add(Block(shard.tokens, shard.words(0, len(shard.tokens)), *lengths))
            if writer.counts["tokens"] + writer.shard_tokens >= count:
                return {"tokens": writer.close()["tokens"]}
    raise AssertionError("cycle ends never")


def build_pairs(work: Path, name: str, tokens: int) -> Row:
    from bertctl.build_pairs.config import BuildPairsSection
    from bertctl.build_pairs.run import run

    tree = {"tokens": str(work / name / "tokens"), "sequence_length": tokens, "second_segment": "none"}
    found = run(build(tree | {"cross_documents": True}, BuildPairsSection), out=work / name / "pairs", seed=0)
    return {"examples": found["phases"][str(tokens)]["train"]["examples"]}


def pretrain(work: Path, name: str, steps: int, batch: int) -> Row:
    """Processor seconds a step, by their median, and those that are no step: opening the data, saving the model."""
    from bertctl.pretrain.config import PretrainSection

    tree = {"pairs": str(work / name / "pairs"), "tokens": str(work / name / "tokens"), "encoder": {"size": "tiny"}}
    tree |= {"held_out_examples": 1, "training": {"steps": steps, "batch_size": batch, "log_every_steps": 100_000}}
    clock, began = Clock(), time.process_time()
    timed_stage(build(tree, PretrainSection), out=work / name / f"run-{batch}", seed=0, clock=clock)
    seconds = statistics.median(b - a for a, b in itertools.pairwise(clock.times[steps // 10 :]))
    return {"seconds_a_step": seconds, "other_seconds": time.process_time() - began - clock.seconds}


WORKS = {"tokenize": tokenize, "more_tokens": more_tokens, "build_pairs": build_pairs, "pretrain": pretrain}


def measure(work: Path, name: str, **options: Any) -> Row:
    """One of WORKS in a process of its own, with its processor time and peak memory in MiB."""
    job = json.dumps({"work": str(work), "name": name, **options})
    done = subprocess.run([sys.executable, __file__, "--job", job], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{job} failed:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    say(f"{job}: {found}")
    return {"what": options["what"], "data": name, **found}


def do(job: Row) -> Row:
    """The work of this process, and of those that it started."""
    watch = Watch()
    found = WORKS[job.pop("what")](Path(job.pop("work")), **job)
    return found | {"processor_seconds": sum(os.times()[:4]), "peak_mib": watch.peak_mib()}


def corpus(work: Path) -> list[Row]:
    """Every stage on both corpora."""
    rows = []
    for name, size in (("small", SMALL), ("large", TIMES * SMALL)):
        write_corpus(work / f"{name}.jsonl", size)
        rows.append(measure(work, name, what="tokenize"))
        rows.append(measure(work, name, what="build_pairs", tokens=128))
        rows.append(measure(work, name, what="pretrain", steps=60, batch=32))
    return rows


def steps(work: Path) -> list[Row]:
    """The same training with more and more data beside it, in turns."""
    write_corpus(work / "small.jsonl", SMALL)
    rows = [] if (work / "small" / "tokens").is_dir() else [measure(work, "small", what="tokenize")]
    names = {count: f"steps-{count}" for count in STEPS}
    for count, name in names.items():
        rows.append(measure(work, name, what="more_tokens", count=count * BATCH * TOKENS))
        rows.append(measure(work, name, what="build_pairs", tokens=TOKENS))
    for _ in range(3):
        rows += [measure(work, name, what="pretrain", steps=TIMED, batch=BATCH) for name in names.values()]
    return rows


def ranks(work: Path) -> list[Row]:
    """One rank and two, each with 32 texts a step and one thread, in turns: tokens/s by the clock on the wall."""
    pairs, tokens, rows = work / "small" / "pairs", work / "small" / "tokens", []
    for turn, (size, count) in itertools.product(range(2), itertools.product(("tiny", "mini"), (1, 2))):
        out = work / f"ranks-{size}-{count}-{turn}"
        keys = [f"pretrain.pairs={pairs}", f"pretrain.tokens={tokens}", f"pretrain.encoder.size={size}"]
        keys += ["pretrain.training.steps=40", f"pretrain.training.batch_size={32 * count}"]
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "-m"]
        command += ["bertctl", "pretrain", "--out", str(out), *(f"--set={key}" for key in keys)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
        found = json.loads((out / "result.json").read_text(encoding="utf-8"))
        rows.append({"what": size, "data": f"{count} ranks", "tokens_per_second": found["tokens_per_second"]})
        say(str(rows[-1]))
    return rows


def table(rows: list[Row]) -> str:
    """A line a measure."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in rows:
        cells = [row.get(name, "") for name in names]
        told = [
            f"{cell:,.4g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell
            for cell in cells
        ]
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("corpus", "steps", "ranks"))
    parser.add_argument("work", type=Path, help="where data and results go")
    options = parser.parse_args()
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    rows = {"corpus": corpus, "steps": steps, "ranks": ranks}[options.what](work)
    (work / f"{options.what}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        memory.settle([json.loads(sys.argv[2])["name"]])  # as the command does
        print(json.dumps(do(json.loads(sys.argv[2]))))
    else:
        main()
