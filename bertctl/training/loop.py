"""The training loop: a generator that yields once a step. pretrain, finetune and distill are its consumers.

It owns accumulation, precision, clipping, schedule and timing. It knows nothing of logging, evaluation, files or tasks:
its caller's `for` body does those.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bertctl.errors import NonFinite
from bertctl.training.batching import Batch, mix, real_tokens
from bertctl.training.optim import set_lr
from bertctl.training.runtime import Runtime

SUMMED_AT_ONCE = 1 << 20
"""Squares of gradients that are added in float32, and their sums in float64. PyTorch's own norm of BERT-base's 110
million is wrong by 0.1% and takes 43 ms on two cores; added so it is wrong by 0.001% and takes 30."""


class Objective(Protocol):
    """What is minimised: a module whose call returns *summed* losses by term, and `counts`, what each is divided by.

    `weights` multiplies each term in the total. Because sums and counts are kept apart, a step cut into micro-batches
    or spread over ranks has the loss and the gradient of the whole step, whatever the lengths.
    """

    weights: dict[str, float]

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Divisor of each term for this batch, as scalar tensors."""
        ...

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Summed loss of each term, as scalar tensors."""
        ...


@dataclass(frozen=True)
class Step:
    """One optimizer update: `losses` are means over the whole step by term, `loss` their weighted sum, `tokens` the
    real tokens on all ranks, `seconds` the time from asking for the batch to the end of the update."""

    number: int
    losses: dict[str, float]
    loss: float
    grad_norm: float
    lr: float
    tokens: int
    seconds: float


def fit(
    objective: Any,
    micro_batches: Callable[[int], Sequence[Batch]],
    *,
    optimizer: torch.optim.Optimizer,
    schedule: Callable[[int], float],
    start: int,
    steps: int,
    runtime: Runtime,
    max_grad_norm: float,
    seed: int,
) -> Iterator[Step]:
    """Train from step `start` + 1 to `steps`, yielding after each update.

    `micro_batches(n)` are this rank's parts of step n, as many on every rank. `schedule(n)` is the learning rate as a
    share of its peak. Dropout at each micro-batch is a pure function of (seed, step, micro-batch, rank), so resuming
    needs no generator's state, and evaluation between steps changes nothing.
    Errors: NonFinite if the loss or the gradient is not finite on any rank; the weights are those of the last step.
    """
    trained = runtime.wrap(objective)
    parameters = [p for p in objective.parameters() if p.requires_grad]
    for number in range(start + 1, steps + 1):
        began = time.perf_counter()
        objective.train()
        batches = [_move(batch, runtime.device) for batch in micro_batches(number)]
        counts, tokens = _total_counts(objective, batches, runtime)
        lr = set_lr(optimizer, schedule(number))
        sums = _accumulate(trained, objective.weights, batches, counts, runtime, (seed, number))
        norm = _clip(parameters, max_grad_norm)
        losses = {term: float(total / _divisor(counts[term])) for term, total in _sum_over_ranks(sums, runtime).items()}
        _check_finite(number, losses, float(norm))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = sum(objective.weights[term] * value for term, value in losses.items())
        yield Step(number, losses, loss, float(norm), lr, int(tokens), time.perf_counter() - began)


def _clip(parameters: Sequence[nn.Parameter], most: float) -> Tensor:
    """Scale the gradients to a norm of at most `most`; returns what it was. Those below are left alone, which saves a
    pass over all of them."""
    norm = _total_norm([p.grad for p in parameters if p.grad is not None])
    if not norm <= most:  # NaN too
        nn.utils.clip_grads_with_norm_(parameters, most, norm)
    return norm


def _total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The 2-norm of all gradients."""
    plain = [g for g in gradients if type(g) is Tensor and g.device.type == "cpu" and g.dtype == torch.float32]
    if not plain or len(plain) < len(gradients):
        return nn.utils.get_total_norm(gradients)
    pieces = [piece for gradient in gradients for piece in torch.split(gradient.reshape(-1), SUMMED_AT_ONCE)]
    return torch.stack([torch.dot(piece, piece) for piece in pieces]).double().sum().sqrt().float()


def _move(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    return {name: tensor.pin_memory().to(device, non_blocking=True) for name, tensor in batch.items()}


def _total_counts(objective: Objective, batches: Sequence[Batch], runtime: Runtime) -> tuple[dict[str, Tensor], float]:
    """Divisor of each term over the whole step, and its real tokens."""
    totals: dict[str, Tensor] = {}
    for batch in batches:
        for term, count in (objective.counts(batch) | {"tokens": real_tokens(batch)}).items():
            totals[term] = totals.get(term, 0.0) + count.double()
    summed = _sum_over_ranks(totals, runtime)
    return summed, float(summed.pop("tokens"))


def _accumulate(
    trained: nn.Module,
    weights: dict[str, float],
    batches: Sequence[Batch],
    counts: dict[str, Tensor],
    runtime: Runtime,
    where: tuple[int, int],
) -> dict[str, Tensor]:
    """Backward passes of all micro-batches; returns this rank's summed losses by term."""
    sums: dict[str, Tensor] = {}
    for micro, batch in enumerate(batches):
        torch.manual_seed(mix(*where, micro, runtime.rank))
        # gradients travel between ranks once a step, with the last micro-batch
        exchange = nullcontext() if micro == len(batches) - 1 else runtime.local_only(trained)
        with exchange, runtime.autocast():
            losses = trained(batch)
            parts = [weights[term] * loss / _divisor(counts[term]) for term, loss in losses.items()]
            # ranks' gradients are averaged in the backward pass, but this loss is already a share of the whole step
            total = torch.stack([part.float() for part in parts]).sum() * runtime.world_size
            with runtime.exchanging():
                total.backward()  # type: ignore[no-untyped-call]
        for term, loss in losses.items():
            sums[term] = sums.get(term, 0.0) + loss.detach().double()
    return sums


def _divisor(count: Tensor) -> Tensor:
    """`count`, which may be a sum of weights below 1; 1 where nothing is counted, as the sum is then 0."""
    return torch.where(count > 0, count, 1.0)


def _sum_over_ranks(values: dict[str, Tensor], runtime: Runtime) -> dict[str, Tensor]:
    """Sum scalars over ranks, in one exchange."""
    names = sorted(values)
    summed = runtime.sum(torch.stack([values[name] for name in names]))
    return dict(zip(names, summed, strict=True))


def _check_finite(number: int, losses: dict[str, float], norm: float) -> None:
    """Sums over ranks carry a NaN of any rank to all of them, so all stop at the same step."""
    values = {**{f"loss {term}": value for term, value in losses.items()}, "gradient norm": norm}
    bad = [f"{name} is {value}" for name, value in values.items() if not torch.isfinite(torch.tensor(value))]
    if bad:
        raise NonFinite(
            f"step {number}: {', '.join(bad)}; the weights were not updated",
            hint="lower optimizer.lr or lengthen the warm-up, then start again from the last checkpoint",
        )
