"""Attention whose cost is linear in the length: weights from a feature map instead of a softmax.

Shapes: B batch, H heads, T tokens, D head size, N chunks of C tokens; q, k, v [B, H, T, D].
"""

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK_TOKENS = 128


def features(x: Tensor) -> Tensor:
    """elu(x) + 1, in float32: positive, so that weights are. Source: arXiv:2006.16236, equation 7."""
    return F.elu(x.float()) + 1.0


def linear(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, *, causal: bool) -> Tensor:
    """phi(q) (phi(k)^T v), divided by the sum of its weights. Source: arXiv:2006.16236, equations 5 and 9.

    Shapes: key_mask [B, T], True = real token, None = all real; returns [B, H, T, D]; a row with nothing to see gives
    zeros. Sums run over thousands of tokens, so they are float32 in every precision. No dropout: the weights are never
    there to be dropped.
    """
    with torch.autocast(q.device.type, enabled=False):
        mapped_q, mapped_k = features(q), features(k)
        if key_mask is not None:
            mapped_k = mapped_k * key_mask[:, None, :, None]
        values = F.pad(v.float(), (0, 1), value=1.0)  # the last column adds up the weights
        sums = _running(mapped_q, mapped_k, values) if causal else mapped_q @ (mapped_k.mT @ values)
        total = sums[..., -1:]
        context = sums[..., :-1] / torch.where(total > 0, total, 1.0)
    return context.to(v.dtype)


def _running(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q_t times the sum of k_s^T v_s over s <= t: whole chunks before by their sums, the own chunk pair by pair."""
    tokens = q.shape[2]
    q, k, v = (_chunks(x) for x in (q, k, v))
    sums = (k.mT @ v).cumsum(dim=2)
    before = F.pad(sums[:, :, :-1], (0, 0, 0, 0, 1, 0))
    within = (q @ k.mT).tril() @ v
    return (q @ before + within).flatten(2, 3)[:, :, :tokens]


def _chunks(x: Tensor) -> Tensor:
    """[B, H, T, D] -> [B, H, N, C, D], the end filled with zeros."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % CHUNK_TOKENS)).unflatten(2, (-1, CHUNK_TOKENS))


def linear_weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """The weights that `linear` never builds, [B, H, T, T]; mask broadcasts to them, True = may look."""
    weights = features(q) @ features(k).mT
    if mask is not None:
        weights = weights * mask
    total = weights.sum(dim=-1, keepdim=True)
    return weights / torch.where(total > 0, total, 1.0)
