"""Work on many items in processes of their own: what Python does holds one core, however many there are.

Results come in the order of the items, so nothing depends on how many processes there are. They end with this one,
however it ends, because their pipes do. Threads that a library has of its own are no reason for this; where most of the
time is Python's, they wait for each other.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, Self, TypeVar

from bertctl import signals
from bertctl.errors import EnvironmentFault

Item = TypeVar("Item")
Made = TypeVar("Made")
FEW_ITEMS = 4
"""So many are worked on here: a process takes some 0.4 s of its core to begin."""
MOST_WORKERS = 8
POLL_SECONDS = 0.2
SERVE = "import sys; from bertctl.workers import serve; serve(int(sys.argv[1]))"


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
    first = list(islice(items, FEW_ITEMS + 1)) if count > 1 else []
    every = chain(first, items)
    if len(first) <= FEW_ITEMS:
        yield from map(work, every)
    else:
        with _Team(work, count, doing) as team:
            team.start()
            yield from team.results(every)


class _Team:
    """Processes that wait for items, each at the other end of a pipe."""

    def __init__(self, work: Callable[[Any], Any], count: int, doing: str) -> None:
        self.work, self.count, self.doing = work, count, doing
        self.pipes: list[Connection] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            if kind is not None:
                process.kill()  # it may be in the middle of an item
            process.wait()

    def start(self) -> None:
        """Start all and tell them what they will do."""
        with _signals_blocked():
            for _ in range(self.count):
                ours, theirs = Pipe()
                self.pipes.append(ours)
                with theirs:  # open here it would stay open when the worker is gone
                    self.processes.append(_started(theirs))
        for pipe in self.pipes:
            self.send(pipe, self.work)

    def results(self, items: Iterable[Any]) -> Iterator[Any]:
        """What the workers make of the items, the oldest first."""
        free, busy = deque(self.pipes), deque[Connection]()
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

    def send(self, pipe: Connection, item: Any) -> None:
        """Give a worker that waits for one its next item."""
        with self.lost():
            pipe.send(item)

    def receive(self, pipe: Connection) -> Any:
        """What a worker has made, or raise what went wrong."""
        with self.lost():
            while not pipe.poll(POLL_SECONDS):
                signals.check(self.doing)
            made, error = pipe.recv()
        if error is not None:
            raise error
        return made

    @contextlib.contextmanager
    def lost(self) -> Iterator[None]:
        """Say it for people when the other end of a pipe is gone."""
        try:
            yield
        except (EOFError, OSError) as error:
            raise EnvironmentFault(
                f"a process that helped with {self.doing} was killed; too little memory for {len(self.pipes)} of them?",
                hint="with fewer cores there are fewer of them: taskset -c 0 bertctl ...",
            ) from error


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
    path = os.pathsep.join(place or os.getcwd() for place in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE, str(pipe.fileno())],
        env=os.environ | {"PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"},  # the cores are taken already
        pass_fds=[pipe.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # results are the other process's to tell
    )


def serve(descriptor: int) -> None:
    """A worker's life: until nobody is at the other end of its pipe."""
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):
        work = pipe.recv()
        while True:
            item = pipe.recv()
            made: Any = None
            fault: Exception | None = None
            try:
                made = work(item)
            except Exception as error:  # noqa: BLE001 - raised again where the result is waited for
                fault = error
            pipe.send((made, fault))
