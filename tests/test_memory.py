"""glibc is told how to keep memory before a command computes; what that is for."""

import os
import subprocess
import sys

import pytest

from bertctl import memory
from bertctl.cli.app import COMMANDS

pytestmark = pytest.mark.skipif(not memory.has_glibc(), reason="the C library is not glibc")


def answer(program, *arguments, tunables=""):
    """What a fresh Python with this program prints."""
    command = [sys.executable, "-c", program, *arguments]
    environment = os.environ | {memory.VARIABLE: tunables}
    return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout.split()


SETTLE = """
import os, sys
print("began", flush=True)
from bertctl import memory
memory.settle(sys.argv[1:])
print(os.environ.get(memory.VARIABLE, ""), os.getppid(), *sys.argv[1:])
"""


def test_a_command_that_computes_starts_again_once_and_as_it_was():
    wanted = ":".join(f"{name}={value}" for name, value in memory.TUNABLES.items())
    arguments = ["--quiet", "pretrain", "a recipe.yaml"]
    assert answer(SETTLE, *arguments) == ["began", "began", wanted, str(os.getpid()), *" ".join(arguments).split()]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["tokenize"], ["recipes", "pretrain"]])
def test_other_commands_do_not(arguments):
    assert answer(SETTLE, *arguments, tunables="glibc.malloc.perturb=0")[:2] == ["began", "glibc.malloc.perturb=0"]


def test_what_the_user_set_stays():
    found = answer(SETTLE, "pretrain", tunables="glibc.malloc.tcache_count=3")[2].split(":")
    assert found[0] == "glibc.malloc.tcache_count=3"
    assert [part.split("=")[0] for part in found] == list(memory.TUNABLES)


def test_every_command_that_is_named_exists():
    assert set(COMMANDS) == memory.COMPUTING | {"tokenize", "build-pairs", "describe", "recipes"}  # a new one: decide


def test_a_system_that_forbids_it_goes_on(monkeypatch):
    asked = []

    def refused(*given):
        asked.append(given)
        raise PermissionError

    monkeypatch.setattr(os, "execve", refused)
    monkeypatch.setattr(memory, "can_repeat", lambda: True)
    monkeypatch.setitem(os.environ, memory.VARIABLE, "")
    memory.settle(["pretrain"])
    assert len(asked) == 1


@pytest.mark.parametrize("own", [[], ["pretrain", "nosuch.yaml"]])
def test_a_program_from_standard_input_is_not_lost(own):
    program = "import sys; sys.argv[1:] = ['pretrain', 'nosuch.yaml']; from bertctl.__main__ import main; main()"
    environment = os.environ | {memory.VARIABLE: ""}
    command = [sys.executable, "-", *own]
    done = subprocess.run(command, input=program, env=environment, capture_output=True, check=False, text=True)
    assert (done.returncode, "nosuch.yaml" in done.stderr) == (2, True)


def test_a_wrapper_that_drops_the_variable_is_started_once(tmp_path):
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nunset {memory.VARIABLE}\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    program = f"import sys; sys.executable = {str(wrapper)!r}\n{SETTLE}"
    assert answer(program, "pretrain").count("began") == 2


FAULTS = """
import resource, sys, torch
from bertctl import memory
memory.settle(sys.argv[1:])
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
weight = torch.randn(64, 2048, requires_grad=True)
for turn in range(10):
    if turn == 5: before = faults()
    (torch.ones(6000, 64) @ weight).tanh().sum().backward()  # two blocks of 47 MiB
print(faults() - before)
"""


def test_freed_memory_is_used_again_without_new_pages():
    assert int(answer(FAULTS, "pretrain")[0]) < 0.5 * int(answer(FAULTS, "tokenize")[0])


PEAK = """
import sys, torch
from bertctl import memory
memory.settle(sys.argv[1:])
def peak():  # of this program alone: ru_maxrss holds that of the process that started it, too
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before = peak()
small = []
for step in range(30):
    rows = 2000 + step * 7919 % 1000
    layers = []
    for layer in range(40):
        layers.append(torch.ones(rows * 1000 + layer % 7 * 12288))
        torch.ones(rows * 400)
    small.append([torch.ones(3) for _ in range(20)])
print((peak() - before) // 1024)
"""


def test_steps_of_changing_sizes_find_room_in_what_earlier_ones_freed():
    needed = sum(4 * (2991 * 1000 + layer % 7 * 12288) for layer in range(40)) / 2**20  # of the longest step
    assert 0.9 * needed < int(answer(PEAK, "pretrain")[0]) < 1.1 * needed
    assert int(answer(PEAK, "tokenize")[0]) > 1.2 * needed  # or glibc has learnt better, and this can go
