"""The benchmark beside transformers' Trainer in its shortest form: that it runs, and that we are not slower."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "benchmarks" / "bench.py"


def test_tiny_pretraining_is_not_slower_than_the_trainer(tmp_path):
    done = subprocess.run(
        [sys.executable, str(BENCH), "--smoke", "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (row,) = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert row["case"] == "pretrain tiny"
    assert row["speed_ratio"]["trainer_pretrain"] > 1
    assert "trainer pretrain" in (tmp_path / "bench.md").read_text(encoding="utf-8")
