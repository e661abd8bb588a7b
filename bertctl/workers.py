"""Work on many items in processes of their own: what Python does holds one core, however many there are.

Results come in the order of the items, so nothing depends on how many processes there are. They end with this one,
however it ends, because their pipes do. Threads that a library has of its own are no reason for this; where most of the
time is Python's, they wait for each other.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, Self, TypeVar

from bertctl import signals
from bertctl.errors import BertctlError, EnvironmentFault

Item = TypeVar("Item")
Made = TypeVar("Made")
FEW_ITEMS = 4
"""So many are worked on here: a process takes some 0.4 s of its core to begin."""
MOST_WORKERS = 8
POLL_SECONDS = 0.2
LAST_SECONDS = 5.0
SERVE = """import json, sys
sys.path[:] = json.loads(sys.argv[2])
from bertctl.workers import serve
serve(int(sys.argv[1]))"""
READY = None
FEWER = "with fewer cores there are fewer of them: taskset -c 0 bertctl ..."


def cores() -> int:
    """Cores that this process may use, and `taskset` or a batch system may have made fewer."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    work: Callable[[Item], Made], items: Iterable[Item], *, doing: str, workers: int | None = None
) -> Iterator[Made]:
    """`work` of each item, in order, by a process for each core, eight at most; by this one if there is one core or few
    items. `work`, items and results travel between processes. At most one item a worker is on its way.

    Errors: those of `work`; Stopped, which says what it was `doing`; EnvironmentFault if a worker was killed.
    """
    count = min(cores(), MOST_WORKERS) if workers is None else workers
    items = iter(items)
    first = deque(islice(items, FEW_ITEMS + 1)) if count > 1 else deque()
    few, every = len(first) <= FEW_ITEMS, _emptied(first, items)
    if few:
        yield from map(work, every)
    else:
        with _Team(work, count, doing) as team:
            team.start()
            yield from team.results(every)


def _emptied(first: deque[Item], rest: Iterator[Item]) -> Iterator[Item]:
    """The first items, which nobody keeps, and the rest."""
    while first:
        yield first.popleft()
    yield from rest


@dataclass(frozen=True)
class _Worker:
    process: "subprocess.Popen[bytes]"
    pipe: Connection


class _Team:
    """Processes that wait for items, each at the other end of a pipe."""

    def __init__(self, work: Callable[[Any], Any], count: int, doing: str) -> None:
        self.work, self.count, self.doing = work, count, doing
        self.workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.pipe.close()
            if kind is not None:
                worker.process.kill()  # it may be in the middle of an item
        for worker in self.workers:
            worker.process.wait()

    def start(self) -> None:
        """Start all and tell them what they will do."""
        try:
            with _signals_blocked():
                for _ in range(self.count):
                    ours, theirs = Pipe()
                    with theirs:  # open here it would stay open when the worker is gone
                        self.workers.append(_Worker(_started(theirs), ours))
        except OSError as error:
            problem = f"no process could be started that helps with {self.doing}: {error.strerror or error}"
            raise EnvironmentFault(problem, hint=FEWER) from error
        for worker in self.workers:
            self.receive(worker)  # READY: from now on it reads what is sent
            self.send(worker, self.work)

    def results(self, items: Iterable[Any]) -> Iterator[Any]:
        """What the workers make of the items, the oldest first."""
        free, busy = deque(self.workers), deque[_Worker]()
        for item in items:
            made, have = None, not free
            if have:
                made = self.receive(busy[0])
                free.append(busy.popleft())
            busy.append(free.popleft())
            self.send(busy[-1], item)
            if have:
                yield made
        while busy:
            yield self.receive(busy.popleft())

    def send(self, worker: _Worker, item: Any) -> None:
        """Give a worker that waits for one its next item."""
        with self.lost(worker):
            worker.pipe.send(item)

    def receive(self, worker: _Worker) -> Any:
        """What a worker has made, or raise what went wrong."""
        with self.lost(worker):
            while not worker.pipe.poll(POLL_SECONDS):
                signals.check(self.doing)
            made, error = worker.pipe.recv()
        if error is not None:
            raise error
        return made

    @contextlib.contextmanager
    def lost(self, worker: _Worker) -> Iterator[None]:
        """Say it for people when the other end of a pipe is gone."""
        try:
            yield
        except (EOFError, OSError) as error:
            told = f"a process that helped with {self.doing} {self.end_of(worker)}"
            raise EnvironmentFault(told, hint=FEWER) from error

    def end_of(self, worker: _Worker) -> str:
        """How a worker ended that nobody told to."""
        try:
            status = worker.process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            return "does not answer"
        if status == -signal.SIGKILL:
            return f"was killed; too little memory for {self.count} of them?"
        return f"ended with {status}"


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """What is started within never sees the signals that this process watches: it decides for all."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals.WATCHED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(pipe: Connection) -> "subprocess.Popen[bytes]":
    """A worker at the other end of a pipe. Not by `multiprocessing`, whose processes run the program's main file once
    more, and whose start waits for ever if one of them dies before it has read what it shall do (Python 3.11)."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE, str(pipe.fileno()), json.dumps(sys.path)],
        env=os.environ | {"TOKENIZERS_PARALLELISM": "false"},  # the cores are taken already
        pass_fds=[pipe.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # results are the other process's to tell
    )


def serve(descriptor: int) -> None:
    """A worker's life: until nobody is at the other end of its pipe."""
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):
        pipe.send((READY, None))
        work = pipe.recv()
        while True:
            item = pipe.recv()
            pipe.send_bytes(_outcome(work, item))


def _outcome(work: Callable[[Any], Any], item: Any) -> Any:
    """What is sent back: (result, None), or (None, what is raised in its place)."""
    try:
        return ForkingPickler.dumps((work(item), None))
    except BaseException as error:  # noqa: BLE001 - a panic of a library too; raised where the result is waited for
        told = traceback.format_exc()
        if type(error).__module__ not in ("builtins", BertctlError.__module__):
            error = RuntimeError(told)  # the other side may not know the class, or not make it from what travels
        elif not isinstance(error, BertctlError):
            error.add_note(told)
        return ForkingPickler.dumps((None, error))
