"""Work in processes: the same results in the same order, and nothing left behind, however it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

from bertctl import signals, workers
from bertctl.errors import EnvironmentFault, NonFinite, Stopped
from bertctl.workers import FEW_ITEMS, in_order
from tests.processes import children_of

DOING = "counting"
PROCESS = "__import__('os').getpid()"
SLEEP = "__import__('time').sleep(60)"


@pytest.fixture(autouse=True)
def nothing_left():
    before = children_of(os.getpid())
    yield
    signals.clear()
    assert children_of(os.getpid()) == before


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(count):
    assert list(in_order(str.upper, "abcdefghijk", doing=DOING, workers=count)) == list("ABCDEFGHIJK")


def test_every_worker_works_and_this_process_does_not():
    found = list(in_order(eval, [PROCESS] * 12, doing=DOING, workers=3))
    assert len(set(found)) == 3
    assert os.getpid() not in found


@pytest.mark.parametrize(("items", "count"), [(FEW_ITEMS, 3), (12, 1), (0, 3)])
def test_few_items_or_one_core_need_no_other_process(items, count):
    assert list(in_order(eval, [PROCESS] * items, doing=DOING, workers=count)) == [os.getpid()] * items


def test_cores_are_those_that_this_process_may_use():
    code = "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])\n"
    code += "from bertctl.workers import cores; print(cores())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert workers.cores() == len(os.sched_getaffinity(0))


def test_items_are_taken_as_they_are_needed():
    taken = []

    def items():
        for number in range(40):
            taken.append(number)
            yield str(number)

    for got in in_order(int, items(), doing=DOING, workers=2):
        assert len(taken) <= max(got + 4, FEW_ITEMS + 1)  # one with each worker, one on its way, one to come
    assert len(taken) == 40


def test_an_error_of_the_work_is_raised_where_its_result_would_be():
    results = in_order(int, [*"012345x78"], doing=DOING, workers=2)
    assert [next(results) for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="'x'"):
        next(results)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("__import__('os')._exit(3)", "a process that helped with counting ended with 3"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "was killed; too little memory for 2 of them"),
    ],
)
def test_a_worker_that_ends_is_told_of_with_a_way_out(end, told):
    with pytest.raises(EnvironmentFault, match=told) as caught:
        list(in_order(eval, ["1", "2", "3", "4", end, "6", "7"], doing=DOING, workers=2))
    assert caught.value.exit_code == 3
    assert "taskset" in str(caught.value.hint)


def test_an_error_keeps_its_kind_its_hint_and_where_it_was():
    fault = "exec('from bertctl.errors import NonFinite; raise NonFinite(\\'a\\', \\'b\\', hint=\\'c\\')')"
    with pytest.raises(NonFinite) as known:
        list(in_order(eval, ["1"] * 6 + [fault], doing=DOING, workers=2))
    assert known.value.lines() == ["error: a", "error: b", "hint: c"]
    with pytest.raises(ZeroDivisionError) as ordinary:
        list(in_order(eval, ["1"] * 6 + ["1/0"], doing=DOING, workers=2))
    assert "in _outcome" in ordinary.value.__notes__[0]


def test_what_the_other_side_cannot_know_is_an_error_with_its_traceback():
    item = "exec('class Own(BaseException): pass\\nraise Own(7)')"  # as a panic of a library in Rust
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*Own: 7"):
        list(in_order(eval, ["1"] * 6 + [item], doing=DOING, workers=2))


def test_a_result_that_cannot_travel_says_so():
    with pytest.raises((RuntimeError, AttributeError), match=r"(?i)can't pickle.*<lambda>"):
        list(in_order(eval, ["1"] * 6 + ["lambda: 7"], doing=DOING, workers=2))


def test_a_system_that_starts_no_more_processes_is_an_environment_fault(monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(workers.subprocess, "Popen", refuse)
    with pytest.raises(EnvironmentFault, match="helps with counting: Resource temporarily unavailable"):
        list(in_order(int, "1234567", doing=DOING, workers=2))


def test_a_path_may_hold_a_colon(tmp_path):
    (tmp_path / "a:b").mkdir()
    (tmp_path / "a:b" / "only_there.py").write_text("def double(x):\n    return 2 * x\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from only_there import double\n"
    code += "from bertctl.workers import in_order; print(*in_order(double, range(8), doing='x', workers=2))"
    command = [sys.executable, "-c", code, str(tmp_path / "a:b")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0 2 4 6 8 10 12 14\n", "")


def test_no_item_is_kept():
    given = []

    def items():
        for number in range(30):
            item = {number}
            given.append(weakref.ref(item))
            yield item

    for number, _ in enumerate(in_order(len, items(), doing=DOING, workers=2)):
        alive = sum(item() is not None for item in given)
        assert alive <= max(FEW_ITEMS - number, 2)


def test_a_signal_does_not_wait_for_the_workers():
    timer = threading.Timer(1.0, signals.request, [signal.SIGTERM])
    timer.start()
    began = time.monotonic()
    with pytest.raises(Stopped, match="while counting"):
        list(in_order(eval, [SLEEP] * 8, doing=DOING, workers=2))
    assert time.monotonic() - began < 20


def test_leaving_early_ends_the_workers():
    results = in_order(eval, ["1"] * 6 + [SLEEP] * 6, doing=DOING, workers=2)
    assert next(results) == 1
    results.close()


PROGRAM = f"""
from bertctl.workers import in_order
if __name__ == "__main__":
    print(*in_order(eval, ["{PROCESS}"] * 6, doing="x", workers=2))
    for pid in in_order(eval, ["{PROCESS}"] * 6 + ["{SLEEP}"] * 6, doing="x", workers=2):
        print(pid, flush=True)
"""


def test_workers_end_with_a_process_that_is_killed(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("sleep(60)", "sleep(3)"), encoding="utf-8")
    command = [sys.executable, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout is not None
        program.stdout.readline()
        pids = {int(program.stdout.readline()) for _ in range(4)}
        assert len(pids) == 2
        program.kill()
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def alive(pid):
    """Whether there is such a process, and not only what its parent has yet to ask about."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
