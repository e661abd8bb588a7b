"""Notes and progress: who tells them."""

import pytest

from bertctl.console import Progress, note, warn


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
