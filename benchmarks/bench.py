"""bertctl beside its peers: the same work, data, batch, precision and threads, in turns (A B A B), medians, as ratios.

    make bench            short, under five minutes: tiny, half of the texts, every side once
    make bench FULL=1     all sizes, all texts, twice
    python benchmarks/bench.py --smoke    tiny pretraining once, on few documents: whether this works at all

Every measurement is a process of its own (`benchmarks/sides/`), which reports its rate and its peak memory. Machines
are noisy and shared: only the ratios within one run mean something. Writes OUT/bench.json and OUT/bench.md.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SIDES = Path(__file__).parent / "sides"
FORMS = {
    "smoke": {"documents": 400, "labelled": 512},
    "short": {"documents": 14_000, "labelled": 512},  # 8 MB
    "full": {"documents": 100_000, "labelled": 1024},  # all there are: 13 MB
}
"""How much text each form prepares; what one prepared is not what another measures."""


@dataclass(frozen=True)
class Case:
    """One comparison: `work` is a function of sides/ours.py and `peers` are functions of sides/theirs.py."""

    name: str
    work: str
    peers: tuple[str, ...]
    options: dict[str, object]
    full: bool = False
    """Only with --full."""


CASES = (
    *(
        Case(f"pretrain {size}", "pretrain", ("trainer_pretrain",), {"size": size, "steps": steps}, full)
        for size, steps, full in (("tiny", 12, False), ("mini", 10, True), ("small", 10, True), ("base", 6, True))
    ),
    Case("finetune mini, variable lengths", "finetune", ("trainer_padded", "trainer_grouped"), {"size": "mini"}),
    Case("label texts, sorted", "label", ("pipeline_label",), {"order": "sorted"}, full=True),
    Case("label texts, mixed", "label", ("pipeline_label",), {"order": "mixed"}),
    Case("embed texts, sorted", "embed", ("sentence_transformers_embed",), {"order": "sorted"}),
    Case("tokenize", "tokenize", ("tokenizers_raw", "datasets_map"), {}),
    Case("build examples", "build_pairs", ("datasets_group",), {"second_segment": "none"}),
    Case("start-up, --help", "start_up", ("transformers_start_up",), {}),
)


def measure(file: str, function: str, options: dict[str, object], work: Path) -> dict[str, float]:
    """One run in a fresh process; its last line is the result."""
    command = [sys.executable, str(SIDES / f"{file}.py"), function, json.dumps(options), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{function} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(case: Case, work: Path, repeats: int) -> dict[str, object]:
    """Ours and every peer in turns; medians, and ours over theirs."""
    sides = [("ours", case.work), *(("theirs", peer) for peer in case.peers)]
    runs: dict[str, list[dict[str, float]]] = {}
    for turn in range(repeats):
        for file, function in sides:
            print(f"{case.name}: {function}, {turn + 1} of {repeats}", file=sys.stderr, flush=True)
            runs.setdefault(function, []).append(measure(file, function, case.options, work))
    rate = {name: statistics.median(run["rate"] for run in found) for name, found in runs.items()}
    peak = {name: statistics.median(run["peak_mib"] for run in found) for name, found in runs.items()}
    ours = case.work
    return {
        "case": case.name,
        "unit": next(iter(runs.values()))[0]["unit"],
        "rate": rate,
        "peak_mib": peak,
        "speed_ratio": {peer: rate[ours] / rate[peer] for peer in case.peers},
        "memory_ratio": {peer: peak[ours] / peak[peer] for peer in case.peers},
        "runs": runs,
    }


def table(rows: list[dict[str, object]]) -> str:
    """One line a comparison."""
    lines = [
        "| work | peer | ours / theirs, speed | ours | theirs | ours / theirs, peak memory |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        for peer, ratio in row["speed_ratio"].items():
            ours = next(name for name in row["rate"] if name not in row["speed_ratio"])
            rates = [f"{row['rate'][name]:,.0f} {row['unit']}" for name in (ours, peer)]
            mfu = row["runs"][ours][0].get("mfu")
            share = f" ({100 * mfu:.0f}% of the measured matrix-product peak)" if mfu else ""
            lines.append(
                f"| {row['case']} | {peer.replace('_', ' ')} | **{ratio:.2f}** | {rates[0]}{share} | {rates[1]} | "
                f"{row['memory_ratio'][peer]:.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all sizes")
    parser.add_argument("--smoke", action="store_true", help="tiny pretraining only, once, on few documents")
    parser.add_argument("--only", help="only cases whose name begins so")
    parser.add_argument("--repeats", type=int, help="turns of every side; once, or twice with --full")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    options = parser.parse_args()
    form = "smoke" if options.smoke else "full" if options.full else "short"
    data = options.out / f"data-{form}"
    options.out.mkdir(parents=True, exist_ok=True)
    if not data.is_dir():
        print("preparing data", file=sys.stderr)
        measure("ours", "prepare", dict(FORMS[form]), data)
    only = "pretrain tiny" if options.smoke else options.only or ""
    chosen = [c for c in CASES if (options.full or not c.full) and c.name.startswith(only)]
    rows = []
    for case in chosen:
        rows.append(compare(case, data, options.repeats or 1 + options.full))
        (options.out / "bench.json").write_text(json.dumps(rows, indent=2) + "\n")
        (options.out / "bench.md").write_text(table(rows))
    print(table(rows), end="")


if __name__ == "__main__":
    main()
