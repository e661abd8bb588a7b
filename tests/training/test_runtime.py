"""What torchrun tells a process."""

import os
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from bertctl.errors import BertctlError, WorkerLost
from bertctl.training import runtime
from bertctl.training.runtime import lost_worker


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


@pytest.mark.parametrize(("here", "elsewhere"), [(5, 5), (5, 0), (0, 5)])
def test_ranks_that_disagree_stop(here, elsewhere, monkeypatch):
    def with_the_other_rank(tensor, op):
        assert op == runtime.dist.ReduceOp.MAX
        tensor.copy_(torch.maximum(tensor, torch.tensor([elsewhere, -elsewhere])))

    monkeypatch.setattr(runtime.dist, "all_reduce", with_the_other_rank)
    alone = runtime.Runtime(torch.device("cpu"), torch.float32)
    assert alone.agreed(here, "the step") == here
    two = replace(alone, world_size=2)
    if here == elsewhere:
        assert two.agreed(here, "the step") == here
    else:
        with pytest.raises(WorkerLost, match=f"disagree on the step: got {here} on this one, and 0 to 5 on all"):
            two.agreed(here, "the step")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234", WorkerLost),
        ("NCCL communicator was aborted on rank 1", WorkerLost),
        ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", RuntimeError),
    ],
)
def test_only_a_lost_peer_is_a_lost_peer_in_a_backward_pass(message, expected):
    with pytest.raises(expected) as raised, lost_worker(only_exchange=True):
        raise RuntimeError(message)
    assert type(raised.value) is expected


TWO_STAGES = """
import os, time, torch
from torch import distributed
from bertctl.training import runtime
leave = distributed.destroy_process_group
if os.environ["RANK"] == "0":
    distributed.destroy_process_group = lambda: (time.sleep(1), leave())
for stage in range(2):
    with runtime.start("float32") as ranks:
        assert float(ranks.sum(torch.ones(1))) == 2.0
"""


def test_several_stages_in_a_process_share_their_ranks():
    """As `bertctl run` under torchrun; it had waited for ever if the first rank was the last to leave a stage."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    command = [sys.executable, "-c", TWO_STAGES]
    ranks = [
        subprocess.Popen(
            command, env=os.environ | place | {"RANK": r, "LOCAL_RANK": r}, stderr=subprocess.PIPE, text=True
        )
        for r in ("0", "1")
    ]
    try:
        told = [rank.communicate(timeout=120)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], told
