"""Notes and progress: who tells them."""

import sys

import pytest

from bertctl.console import PLAIN_INTERVAL_SECONDS, Progress, note, warn


@pytest.mark.parametrize(("rank", "lines"), [(None, 3), ("0", 3), ("1", 0)])
def test_of_several_ranks_the_first_one_speaks(rank, lines, monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    note("begun")
    warn("slow")
    with Progress("train", "steps", 2) as progress:
        progress.update(2)
    assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize(
    ("count", "seconds", "rate"),
    [(1_651_133, 10, "165,113"), (725, 100, "7.2"), (1, 21.4, "0.047"), (1, 1, "1.0"), (99, 1, "99.0"), (1, 0, "0.0")],
)
def test_a_rate_has_the_digits_that_say_something(count, seconds, rate):
    progress = Progress("train", "steps", clock=lambda: 0.0)
    progress.count = count
    assert progress.line(seconds) == f"train  {count:,} steps  {rate} steps/s"


@pytest.mark.parametrize(("extra", "lines"), [("", 1), ("loss 2", 2)])
def test_a_log_has_the_last_line_once(extra, lines, capsys):
    clock = iter([0.0, PLAIN_INTERVAL_SECONDS, PLAIN_INTERVAL_SECONDS, 11.0])
    with Progress("train", "steps", 2, clock=lambda: next(clock)) as progress:
        progress.update(2)
        progress.update(2, extra)
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_note_takes_the_place_of_a_line_that_is_drawn_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("train", "steps", 4, clock=lambda: 0.0) as progress:
        progress.update(2)
        note("held out")
    lines = capsys.readouterr().err.split("\n")
    assert [line.rpartition("\x1b[2K")[2] for line in lines[:2]] == ["held out", "train  2/4 steps  0.0 steps/s"]
    assert lines[1].startswith("train")  # nothing is left to be cleared
