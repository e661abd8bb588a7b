"""Every kernel against the plain arithmetic, over kinds of attention, positions, precisions and padding patterns."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertctl.encoder import blocks
from bertctl.encoder.attention import Attention
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.kernels import KERNELS, KERNELS_OF, choose_kernel, reference
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.positions import build_position
from bertctl.encoder.scope import Scope

B, H, T, D = 3, 2, 11, 4
FULL = Pattern()
PATTERNS = [
    FULL,
    Pattern("causal"),
    Pattern("local", window_tokens=4),
    Pattern("local_global", window_tokens=4),
    Pattern("local_global", window_tokens=2, global_every_tokens=5),
    Pattern("linear"),
    Pattern("causal_linear"),
]
PRECISIONS = {torch.float32: 1e-6, torch.float16: 5e-3, torch.bfloat16: 4e-2}  # and how near the reference each comes
CASES = [(kernel, pattern) for pattern in PATTERNS for kernel in KERNELS_OF[pattern.kind]]
MASKS = {
    "none": None,
    "ragged": [[1] * 11, [1] * 6 + [0] * 5, [1] + [0] * 10],
    "inner gap": [[1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1], [1] * 10 + [0], [0] * 10 + [1]],
    "empty row": [[0] * 11, [1] * 4 + [0] * 7, [1] * 11],
    "left": [[0] * 5 + [1] * 6, [0] * 10 + [1], [1] * 11],
}
POSITIONS = {
    "none": {"position": "none"},
    "rotary": {"position": "rotary", "local_rope_theta": 100.0},
    "bucketed": {
        "position": "none",
        "relative_position": "bucketed",
        "relative_buckets": 8,
        "relative_max_distance": 9,
    },
    "disentangled": {
        "position": "rotary",
        "relative_position": "disentangled",
        "relative_buckets": 4,
        "relative_max_distance": 9,
    },
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """So that 11 tokens are several blocks."""
    monkeypatch.setattr(blocks, "SMALLEST_BLOCK_TOKENS", 3)
    monkeypatch.setattr(blocks, "STRETCH_TOKENS", 9)


def inputs(dtype):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(B, H, T, D, generator=generator).to(dtype).requires_grad_() for _ in range(3)]


def mask_of(name):
    return None if MASKS[name] is None else torch.tensor(MASKS[name], dtype=torch.bool)


def may_look(pattern, i, j):
    """The window's meaning word by word, for one query and one key."""
    if "causal" in pattern.kind:
        return j <= i
    if pattern.kind in ("full", "linear"):
        return True
    every = pattern.global_every_tokens
    spots = {0, *range(0, T, every)} if every else {0}
    globally = pattern.kind == "local_global" and (i in spots or j in spots)
    return abs(i - j) <= pattern.window_tokens // 2 or globally


def phi(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def attention_row_by_row(q, k, v, mask, pattern):
    """Equation 1 of arXiv:1706.03762, or equation 4 of arXiv:2006.16236 with elu + 1, in numpy float64, row by row over
    the keys that may be seen."""
    q, k, v = (x.detach().double().numpy() for x in (q, k, v))
    context = np.zeros_like(q)
    for b, h, t in np.ndindex(B, H, T):
        keys = [j for j in range(T) if may_look(pattern, t, j) and (mask is None or mask[b, j])]
        if "linear" in pattern.kind:
            weights = phi(k[b, h, keys]) @ phi(q[b, h, t])
        else:
            scores = k[b, h, keys] @ q[b, h, t] / np.sqrt(D)
            weights = np.exp(scores - scores.max(initial=-np.inf))
        if keys:
            context[b, h, t] = weights / weights.sum() @ v[b, h, keys]
    return context


@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_reference_is_the_formula(pattern, padding):
    q, k, v = inputs(torch.float64)
    mask = mask_of(padding)
    context, weights = reference(q, k, v, Scope(mask, pattern))
    tolerance = 1e-6 if pattern.is_linear else 1e-12  # feature maps are float32 in every precision
    np.testing.assert_allclose(context.detach(), attention_row_by_row(q, k, v, mask, pattern), atol=tolerance)
    looks = torch.tensor([[may_look(pattern, i, j) for j in range(T)] for i in range(T)])
    sees = (looks & (torch.ones(B, 1, T, dtype=torch.bool) if mask is None else mask[:, None])).any(dim=-1)
    torch.testing.assert_close(weights.double().sum(-1), sees[:, None].expand(B, H, T).double(), atol=1e-6, rtol=0)


def layer(position, dtype, dropout=0.0):
    torch.manual_seed(3)
    config = EncoderConfig(
        vocab_size=9,
        hidden_size=H * D,
        num_hidden_layers=1,
        num_attention_heads=H,
        intermediate_size=8,
        max_position_embeddings=T,
        hidden_dropout_prob=0.0,
        **POSITIONS[position],
    )
    place, attention = build_position(config), Attention(H * D, H, dropout, True)
    for parameter in place.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return place.to(dtype), attention.to(dtype)


@pytest.mark.parametrize(("kernel", "pattern"), CASES, ids=str)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS.items(), ids=str)
def test_kernels_agree_with_the_reference(kernel, pattern, position, dtype, tolerance):
    if pattern.is_linear and position in ("bucketed", "disentangled"):
        with pytest.raises(ValueError, match="no scores to bias"):
            KERNELS[kernel](*inputs(dtype), Scope(None, pattern, lambda q, k, away: q))
        return
    for padding in MASKS:
        results = []
        for choice, precision in ((KERNELS[kernel], dtype), (reference, torch.float32)):
            place, attention = layer(position, precision)
            given = inputs(precision)
            q, k = place.rotate(given[0], given[1], pattern.is_local)
            bias = place.score_bias(attention.queries, attention.keys)
            context = choice(q, k, given[2], Scope(mask_of(padding), pattern, bias))
            context = context[0] if isinstance(context, tuple) else context
            context.float().square().sum().backward()
            trained = [*given, *place.parameters()]
            assert all(torch.isfinite(x.grad).all() for x in trained), padding
            results.append([context, *(x.grad for x in trained)])
        for got, want in zip(*results, strict=True):
            bound = tolerance if got is results[0][0] else 10 * tolerance
            torch.testing.assert_close(got.float(), want, atol=bound, rtol=bound, msg=lambda m, p=padding: f"{p}: {m}")


@pytest.mark.parametrize("length", [None, 1, 9, 30, 1000])
@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p.is_local], ids=str)
def test_blocks_are_the_same_in_any_stretches(pattern, length, monkeypatch):
    q, k, v = (x.detach() for x in inputs(torch.float32))
    expected = KERNELS["explicit_blocks"](q, k, v, Scope(mask_of("ragged"), pattern))
    monkeypatch.setattr(blocks, "STRETCH_TOKENS", length)
    assert torch.equal(KERNELS["explicit_blocks"](q, k, v, Scope(mask_of("ragged"), pattern)), expected)


@pytest.mark.parametrize(("kernel", "pattern"), CASES, ids=str)
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_a_row_with_no_key_gives_zeros(kernel, pattern, dtype):
    given = inputs(dtype)
    context = KERNELS[kernel](*given, Scope(mask_of("empty row"), pattern))
    context.float().square().sum().backward()
    assert (context[0] == 0).all()
    assert (context[2] != 0).any(dim=-1).all()
    assert all((x.grad[0] == 0).all() for x in given)
    left = KERNELS[kernel](*inputs(dtype), Scope(mask_of("left"), pattern))
    blind = torch.tensor([not any(may_look(pattern, i, j) for j in range(5, T)) for i in range(T)])
    assert ((left[0] == 0).all(dim=-1) == blind).all()


@pytest.mark.parametrize(("kernel", "pattern"), CASES, ids=str)
@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 30.0), (torch.bfloat16, 100.0)], ids=str)
def test_large_scores_stay_finite(kernel, pattern, dtype, size):
    """In float16 as large as they fit: it ends at 65,504."""
    q, k, v = (size * x.detach() for x in inputs(dtype))
    for given in (q, k, v):
        given.requires_grad_()
    context = KERNELS[kernel](q, k, v, Scope(mask_of("left"), pattern))
    context.float().sum().backward()
    assert all(torch.isfinite(x).all() for x in (context, q.grad, k.grad, v.grad))


@pytest.mark.parametrize(("kernel", "pattern"), [c for c in CASES if c[0] != "feature_map"], ids=str)
def test_dropout_leaves_the_mean(kernel, pattern, monkeypatch):
    """The average over many draws is the output without dropout; one draw is not."""
    monkeypatch.setattr(blocks, "STRETCH_TOKENS", None)  # 1,200 texts in one go
    q, k, v = (x.detach() for x in inputs(torch.float32))
    torch.manual_seed(0)
    many = [x.repeat(400, 1, 1, 1) for x in (q, k, v)]
    context = KERNELS[kernel](*many, Scope(None, pattern, dropout=0.3)).unflatten(0, (400, B))
    without = KERNELS[kernel](q, k, v, Scope(None, pattern))
    assert not torch.allclose(context[0], without, atol=1e-2)
    assert (context.mean(dim=0) - without).abs().max() < 0.25


def test_the_choice_is_one_that_can_compute_the_kind():
    everything = itertools.product(("cpu", "cuda"), PRECISIONS, (1, 128, 129, 384, 385, 8192))
    for device, dtype, tokens in everything:
        for pattern in PATTERNS:
            assert choose_kernel(device, dtype, tokens, pattern) in KERNELS_OF[pattern.kind]
            narrow = dataclasses.replace(pattern, window_tokens=2)
            assert choose_kernel(device, dtype, tokens, narrow) in KERNELS_OF[pattern.kind]


def test_full_attention_keeps_its_choices():
    chosen = {
        (dtype, tokens): choose_kernel("cpu", dtype, tokens, FULL)
        for dtype in (torch.float32, torch.bfloat16)
        for tokens in (32, 128, 129, 512)
    }
    explicit = {key for key, kernel in chosen.items() if kernel == "explicit"}
    assert explicit == {(torch.bfloat16, 32), (torch.bfloat16, 128)}
    assert choose_kernel("cuda", torch.bfloat16, 32, FULL) == "fused"


WORK = {  # kinds whose work is counted: the kernel (what the fused ones do is not counted), and its growth
    "full": ("explicit", 4.0),
    "causal": ("explicit", 4.0),
    "local": ("explicit_blocks", 2.0),
    "local_global": ("explicit_blocks", 2.0),
    "linear": ("feature_map", 2.0),
    "causal_linear": ("feature_map", 2.0),
}


@pytest.mark.parametrize("kind", WORK)
def test_the_work_grows_with_the_length_or_with_its_square(kind, monkeypatch):
    """Multiplications and additions of 8192 tokens over those of 4096, forward and backward: counted, not timed. Where
    every pair of tokens has a score, without data."""
    monkeypatch.undo()  # blocks as they are
    kernel, growth = WORK[kind]
    device = "meta" if growth == 4.0 else "cpu"
    counts = []
    for tokens in (4096, 8192):
        q, k, v = (torch.randn(1, 1, tokens, 64, device=device, requires_grad=True) for _ in range(3))
        with FlopCounterMode(display=False) as counter:
            KERNELS[kernel](q, k, v, Scope(None, Pattern(kind))).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[1] / counts[0] == pytest.approx(growth, rel=0.05)
