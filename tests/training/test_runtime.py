"""What torchrun tells a process."""

import pytest

from bertctl.errors import BertctlError
from bertctl.training import runtime


@pytest.mark.parametrize(("rank", "world_size"), [("0", "0"), ("2", "2"), ("-1", "2"), ("0", "two"), ("", "1")])
def test_a_place_that_cannot_be_is_refused(rank, world_size, monkeypatch):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world_size)
    with pytest.raises(BertctlError, match=f"RANK={rank} and WORLD_SIZE={world_size}"), runtime.start("float32"):
        pass


def test_a_process_on_its_own_is_the_first_of_one(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert runtime.place() == (0, 1)
