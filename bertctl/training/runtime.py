"""Where training runs: device, precision, ranks. The only file that knows torch.distributed."""

import atexit
import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from bertctl import signals
from bertctl.errors import BertctlError, WorkerLost

RANK_TIMEOUT = timedelta(minutes=10)
EXCHANGE = re.compile("gloo|nccl|connection (closed|reset)", re.IGNORECASE)


@dataclass(frozen=True)
class Runtime:
    """A process among `world_size` of them; `dtype` is the arithmetic of the forward pass."""

    device: torch.device
    dtype: torch.dtype
    rank: int = 0
    world_size: int = 1

    def autocast(self) -> AbstractContextManager[object]:
        """Forward passes run under this."""
        if self.dtype == torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def wrap(self, module: nn.Module) -> nn.Module:
        """`module` with gradients averaged over ranks in the backward pass; itself with one rank. A module some of
        whose parameters may get no gradient says so by `trains_all = False`."""
        if self.world_size == 1:
            return module
        partly = not getattr(module, "trains_all", True)
        return nn.parallel.DistributedDataParallel(module, find_unused_parameters=partly)

    def local_only(self, module: nn.Module) -> AbstractContextManager[object]:
        """No exchange of gradients inside: for all micro-batches of a step but the last."""
        if isinstance(module, nn.parallel.DistributedDataParallel):
            return module.no_sync()
        return contextlib.nullcontext()

    def exchanging(self) -> AbstractContextManager[object]:
        """Around a backward pass, which exchanges gradients: a peer that is gone is an error of its own."""
        return lost_worker(only_exchange=True) if self.world_size > 1 else contextlib.nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        """Sum over ranks, on every rank."""
        if self.world_size > 1:
            with lost_worker():
                dist.all_reduce(values)
        return values

    def gather(self, rows: Tensor) -> tuple[Tensor, int]:
        """(the rows of all ranks in the order of the ranks, the place of this rank's first one); gradients flow back to
        the ranks that the rows came from. Shapes: [n, ...], n may differ between ranks -> [sum of n, ...]."""
        if self.world_size == 1:
            return rows, 0
        counts = torch.zeros(self.world_size, dtype=torch.int64, device=rows.device)
        counts[self.rank] = len(rows)
        sizes: list[int] = self.sum(counts).tolist()
        gathered: Tensor = _Gather.apply(rows, sizes, self.rank)  # type: ignore[no-untyped-call]
        return gathered, sum(sizes[: self.rank])

    def agree_on_signal(self) -> int | None:
        """The signal that any rank got, so that all stop at the same step."""
        if self.world_size > 1:
            number = torch.tensor(signals.pending() or 0, device=self.device)
            with lost_worker():
                dist.all_reduce(number, op=dist.ReduceOp.MAX)
            if number.item() and not signals.pending():
                signals.request(int(number.item()))
        return signals.pending()

    def agreed(self, number: int, what: str) -> int:
        """`number`, which is the same on every rank. Errors: WorkerLost if it is not."""
        if self.world_size > 1:
            ends = torch.tensor([number, -number], device=self.device)
            with lost_worker():
                dist.all_reduce(ends, op=dist.ReduceOp.MAX)
            largest, smallest = int(ends[0]), -int(ends[1])
            if smallest != largest:
                problem = f"the ranks disagree on {what}: got {number} on this one, and {smallest} to {largest} on all"
                raise WorkerLost(problem, hint="every rank must see the same files")
        return number

    def barrier(self) -> None:
        """Wait for the other ranks."""
        if self.world_size > 1:
            with lost_worker():
                dist.barrier()


class _Gather(torch.autograd.Function):
    """Concatenated rows of all ranks; backward: the gradients that all ranks have for a rank's rows, summed."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.own = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        with lost_worker():
            dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        total = gradient.contiguous().clone()
        with lost_worker():
            dist.all_reduce(total)
        return total[ctx.own], None, None


@contextlib.contextmanager
def lost_worker(*, only_exchange: bool = False) -> Iterator[None]:
    """torch's errors about a peer that is gone, as ours; with `only_exchange` those that say where they come from."""
    try:
        yield
    except RuntimeError as error:
        if only_exchange and not isinstance(error, dist.DistError) and not EXCHANGE.search(str(error)):
            raise
        raise WorkerLost(f"a distributed worker was lost: {str(error).splitlines()[0]}", hint="add --resume") from error


def supports_bf16(device: torch.device) -> bool:
    """Whether bf16 products are faster than float32 ones here: the processor has instructions for them."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    asks = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # not public API: absent means no
    return bool(asks and asks())


def describe(runtime: Runtime) -> str:
    """One line for the start of a run."""
    precision = str(runtime.dtype).removeprefix("torch.")
    threads = f", {torch.get_num_threads()} threads" if runtime.device.type == "cpu" else ""
    return f"{runtime.device.type}{threads}, {precision}, {runtime.world_size} rank(s), torch {torch.__version__}"


def place() -> tuple[int, int]:
    """This process's rank and the number of ranks, as torchrun tells them. Errors: BertctlError if it cannot be."""
    rank, world_size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if not (rank.isdecimal() and world_size.isdecimal() and int(rank) < int(world_size)):
        problem = f"got RANK={rank} and WORLD_SIZE={world_size}, expected a rank from 0 to the number of ranks minus 1"
        raise BertctlError(problem, hint="unset both, or start with torchrun, which sets them")
    return int(rank), int(world_size)


@contextlib.contextmanager
def start(precision: str) -> Iterator[Runtime]:
    """The runtime of this process: one process, or the one among several that torchrun started."""
    rank, world_size = place()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    bf16 = precision == "bf16" or (precision == "auto" and supports_bf16(device))
    if world_size > 1 and not dist.is_initialized():
        # Once a process, not once a stage: a rank that begins a second group while another is still leaving the first
        # one reads the old addresses, and both wait for ever (seen with gloo under `bertctl run`).
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=RANK_TIMEOUT)
        atexit.register(dist.destroy_process_group)
    yield Runtime(device, torch.bfloat16 if bf16 else torch.float32, rank, world_size)
