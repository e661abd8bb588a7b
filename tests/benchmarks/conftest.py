"""The benchmarks are scripts beside the package; these tests read them from their folder."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    """The folder, on the path as it is when a script of it runs."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield ROOT / "benchmarks"
    for name in ("clock", "equal_time", "real_text", "time_to_quality"):
        sys.modules.pop(name, None)
