"""Every kernel against the plain arithmetic, over precisions and padding patterns."""

import numpy as np
import pytest
import torch

from bertctl.encoder.kernels import KERNELS, reference

B, H, T, D = 3, 2, 7, 4
MASKS = {
    "none": None,
    "ragged": [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]],
    "inner gap": [[1, 0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1]],
    "empty row": [[0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]],
}


def inputs(dtype):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(B, H, T, D, generator=generator).to(dtype).requires_grad_() for _ in range(3)]


def mask_of(name):
    return None if MASKS[name] is None else torch.tensor(MASKS[name], dtype=torch.bool)


def softmax_attention(q, k, v, mask):
    """Equation 1 of arXiv:1706.03762 in numpy float64, row by row, over real keys only."""
    q, k, v = (x.detach().double().numpy() for x in (q, k, v))
    context = np.zeros_like(q)
    for b, h, t in np.ndindex(B, H, T):
        keys = np.arange(T) if mask is None else np.flatnonzero(mask[b].numpy())
        if len(keys):
            scores = k[b, h, keys] @ q[b, h, t] / np.sqrt(D)
            weights = np.exp(scores - scores.max())
            context[b, h, t] = weights / weights.sum() @ v[b, h, keys]
    return context


@pytest.mark.parametrize("pattern", MASKS)
def test_reference_is_the_formula(pattern):
    q, k, v = inputs(torch.float64)
    context, weights = reference(q, k, v, mask_of(pattern), None, 0.0)
    np.testing.assert_allclose(context.detach(), softmax_attention(q, k, v, mask_of(pattern)), atol=1e-12)
    real = torch.ones(B) if mask_of(pattern) is None else mask_of(pattern).any(dim=1).double()
    torch.testing.assert_close(weights.sum(-1), real[:, None, None].expand(B, H, T).double())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("pattern", MASKS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 3e-2)])
def test_kernels_agree_with_the_reference(kernel, pattern, biased, dtype, tolerance):
    bias = torch.randn(1, H, T, T, generator=torch.Generator().manual_seed(1)).to(dtype) if biased else None
    mine, theirs = inputs(dtype), inputs(torch.float32)
    context = KERNELS[kernel](*mine, mask_of(pattern), bias, 0.0)
    expected, _ = reference(*theirs, mask_of(pattern), None if bias is None else bias.float(), 0.0)
    torch.testing.assert_close(context.float(), expected, atol=tolerance, rtol=tolerance)
    context.float().square().sum().backward()
    expected.square().sum().backward()
    for got, want in zip(mine, theirs, strict=True):
        assert torch.isfinite(got.grad).all()
        torch.testing.assert_close(got.grad.float(), want.grad, atol=10 * tolerance, rtol=10 * tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_with_no_key_gives_zeros(kernel):
    context = KERNELS[kernel](*inputs(torch.float32), mask_of("empty row"), None, 0.0)
    assert (context[0] == 0).all()
    assert (context[1] != 0).any()
