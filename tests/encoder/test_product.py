"""Linear layers with a backward pass of their own, against PyTorch's."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bertctl.encoder import product
from bertctl.encoder.product import project, turned, weight_gradient

needed = pytest.mark.skipif(not product.HAS_BIASED_PRODUCT, reason="oneDNN does not compute bf16 on this processor")

SHAPES = [  # inputs, outputs of each layer: each way to a weight's gradient, one and several layers
    (512, (512,)),
    (512, (2048,)),
    (2048, (512,)),
    (768, (768, 768, 768)),
]


def layers_of(inputs, outputs, *, bias=True):
    torch.manual_seed(0)
    return nn.ModuleList(nn.Linear(inputs, size, bias=bias) for size in outputs)


def gradients(layers, x, how):
    """Output and all gradients under autocast to bf16; upstream gradients are random and the same for every `how`."""
    layers, x = copy.deepcopy(layers), x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = how(x, layers)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype))
    return [y, x.grad, *(parameter.grad for parameter in layers.parameters())]


def plain(x, layers):
    return torch.cat([layer(x) for layer in layers], dim=-1)


@needed
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_output_and_gradients_are_those_of_float64(inputs, outputs, bias, monkeypatch):
    layers, x = layers_of(inputs, outputs, bias=bias), torch.randn(2, 33, inputs)
    called = []
    own = product._Product.apply
    monkeypatch.setattr(product._Product, "apply", lambda *given: called.append(1) or own(*given))
    found = gradients(layers, x, project)
    assert called
    theirs = gradients(layers, x, plain)
    with torch.autocast("cpu", enabled=False):
        exact_layers, exact_x = copy.deepcopy(layers).double(), x.double().requires_grad_()
        y = plain(exact_x, exact_layers)
        upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).bfloat16().double()
        y.backward(upstream)
    exact = [y, exact_x.grad, *(parameter.grad for parameter in exact_layers.parameters())]
    for ours, other, right in zip(found, theirs, exact, strict=True):
        assert ours.dtype == other.dtype
        assert ours.shape == other.shape
        distance, allowed = (ours - right).abs().max(), (other - right).abs().max()
        assert distance <= 1.5 * allowed + 1e-6


@needed
def test_frozen_parts_get_no_gradient():
    layers, x = layers_of(512, (512, 512)), torch.randn(4, 512)
    layers[0].requires_grad_(False)
    found = gradients(layers, x, project)
    assert found[2] is None
    assert found[3] is None
    assert torch.equal(found[4], gradients(layers_of(512, (512, 512)), x, project)[4])
    for parameter in layers.parameters():
        parameter.requires_grad_(False)
    assert torch.equal(gradients(layers, x, project)[1], found[1])


@needed
@pytest.mark.parametrize("shape", [(33, 512, 2048), (33, 2048, 512), (33, 512, 512)])
def test_a_weights_gradient(shape):
    rows, outputs, inputs = shape
    gradient, x = torch.randn(rows, outputs).bfloat16(), torch.randn(rows, inputs).bfloat16()
    found, right = weight_gradient(gradient, x), gradient.float().t() @ x.float()
    assert found.shape == right.shape
    assert found.is_contiguous()
    torch.testing.assert_close(found, right, rtol=2**-7, atol=0.05)


def test_turned():
    x = torch.randn(300, 7)
    assert torch.equal(turned(x), x.t())
    assert turned(x).is_contiguous()


def test_layers_of_other_kinds_are_called():
    class Twice(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    torch.manual_seed(0)
    first, second, x = Twice(512, 512), nn.Linear(512, 512), torch.randn(3, 512)
    expected = torch.cat([2 * F.linear(x, first.weight, first.bias), second(x)], dim=-1)
    torch.testing.assert_close(project(x, (first, second)), expected)
    torch.testing.assert_close(project(x, (first,)), expected[:, :512])


@pytest.mark.parametrize(("width", "context"), [(256, "autocast"), (512, "none"), (512, "no_grad")])
def test_elsewhere_it_is_pytorchs(width, context, monkeypatch):
    monkeypatch.setattr(product._Product, "apply", lambda *_: pytest.fail("not for this"))
    layers, x = layers_of(width, (512, 512)), torch.randn(3, width)
    with torch.autocast("cpu", torch.bfloat16, enabled=context != "none"), torch.set_grad_enabled(context != "no_grad"):
        assert torch.equal(project(x, layers), plain(x, layers))


@needed
def test_layers_that_share_a_weight_keep_no_copies_of_it():
    layers, x = layers_of(512, (512,)), torch.randn(4, 512, requires_grad=True)
    saved = []
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16),
    ):
        project(project(x, layers), layers)
    weight = layers[0].weight
    assert sum(tensor.data_ptr() == weight.data_ptr() for tensor in saved) == 2
    assert not [tensor for tensor in saved if tensor.shape == weight.shape and tensor.dtype != weight.dtype]


@needed
def test_a_processor_without_bf16_has_pytorchs_product():
    program = """
import torch
from bertctl.encoder import product
with torch.autocast("cpu", torch.bfloat16):
    product.project(torch.randn(7, 512), [torch.nn.Linear(512, 512)])
found = product.biased(torch.randn(7, 8).bfloat16(), torch.randn(3, 8).bfloat16(), None)
print(found.shape, product.HAS_BIASED_PRODUCT)
"""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split("]) ") == ["torch.Size([7, 3", "False\n"], done.stderr
