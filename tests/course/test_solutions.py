"""The reference solutions agree with torch: values and gradients, odd shapes, every dtype."""

import copy

import pytest
import torch
from torch.nn import functional

from solutions.layernorm.layernorm import LayerNorm, layer_norm, layer_norm_backward

SHAPES = [(7,), (1,), (3, 1), (5, 5), (2, 3, 11), (2, 1, 3, 4), (0, 6), (2, 0, 6), (1, 1000)]
EPS = [1e-5, 1e-12, 0.3]
HALF = [torch.float16, torch.bfloat16]


def draw(shape, dtype=torch.float64, seed=0):
    """x far from mean 0, weight and bias far from 1 and 0, and an upstream gradient."""
    rng = torch.Generator().manual_seed(seed)
    x = 3 + 2 * torch.randn(shape, generator=rng, dtype=torch.float64)
    weight = 0.5 + torch.rand(shape[-1], generator=rng, dtype=torch.float64)
    bias = torch.randn(shape[-1], generator=rng, dtype=torch.float64)
    grad_out = torch.randn(shape, generator=rng, dtype=torch.float64)
    return tuple(t.to(dtype) for t in (x, weight, bias, grad_out))


def torch_gradients(grad_out, x, weight, bias, eps):
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    y = functional.layer_norm(leaves[0], weight.shape, leaves[1], leaves[2], eps)
    return torch.autograd.grad(y, leaves, grad_out)


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm_equals_torch_in_float64(shape, eps):
    x, weight, bias, _ = draw(shape)
    want = functional.layer_norm(x, weight.shape, weight, bias, eps)
    torch.testing.assert_close(layer_norm(x, weight, bias, eps), want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm_backward_equals_autograd_in_float64(shape, eps):
    x, weight, bias, grad_out = draw(shape)
    want = torch_gradients(grad_out, x, weight, bias, eps)
    got = layer_norm_backward(grad_out, x, weight, eps)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_layer_norm_is_differentiable_with_the_gradients_of_its_own_backward():
    x, weight, bias, grad_out = draw((2, 3, 5))
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    by_autograd = torch.autograd.grad(layer_norm(*leaves, 0.1), leaves, grad_out)
    torch.testing.assert_close(layer_norm_backward(grad_out, x, weight, 0.1), by_autograd)


def test_strided_inputs_give_the_values_of_contiguous_ones():
    x, weight, bias, grad_out = draw((4, 6, 5))
    x_t, g_t = x.transpose(0, 1), grad_out.transpose(0, 1)
    got = layer_norm(x_t, weight, bias, 1e-5)
    torch.testing.assert_close(got, layer_norm(x, weight, bias, 1e-5).transpose(0, 1))
    got_x, got_weight, _ = layer_norm_backward(g_t, x_t, weight, 1e-5)
    want_x, want_weight, _ = layer_norm_backward(grad_out, x, weight, 1e-5)
    torch.testing.assert_close(got_x, want_x.transpose(0, 1))
    torch.testing.assert_close(got_weight, want_weight)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("parameter_dtype", [None, torch.float32], ids=["same", "float32"])
def test_half_precision_is_computed_in_float32_and_rounded_once(dtype, parameter_dtype):
    x, weight, bias, grad_out = draw((9, 300), dtype)
    weight, bias = weight.to(parameter_dtype or dtype), bias.to(parameter_dtype or dtype)
    full = [t.float() for t in (x, weight, bias)]
    assert torch.equal(layer_norm(x, weight, bias, 1e-5), layer_norm(*full, 1e-5).to(dtype))
    got = layer_norm_backward(grad_out, x, weight, 1e-5)
    want = layer_norm_backward(grad_out.float(), full[0], full[1], 1e-5)
    assert [g.dtype for g in got] == [dtype, weight.dtype, weight.dtype]
    for g, w in zip(got, want, strict=True):
        assert torch.equal(g, w.to(g.dtype))


def test_inputs_are_not_modified():
    tensors = draw((3, 4))
    before = copy.deepcopy(tensors)
    x, weight, bias, grad_out = tensors
    layer_norm(x, weight, bias, 1e-5)
    layer_norm_backward(grad_out, x, weight, 1e-5)
    assert all(torch.equal(t, b) for t, b in zip(tensors, before, strict=True))


def test_module_has_the_parameters_of_torch_and_computes_the_same():
    ours, theirs = LayerNorm(6, eps=0.2), torch.nn.LayerNorm(6, eps=0.2)
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["weight", "bias"]
    assert all(
        torch.equal(p, q) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True)
    )
    _, weight, bias, _ = draw((6,), torch.float32)
    for module in (ours, theirs):
        module.load_state_dict({"weight": weight, "bias": bias})
    x = draw((2, 3, 6), torch.float32, seed=1)[0]
    torch.testing.assert_close(ours(x), theirs(x))
    assert torch.equal(ours.eval()(x), ours.train()(x))
    assert LayerNorm(6).eps == torch.nn.LayerNorm(6).eps == 1e-5


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64], ids=str)
def test_module_with_float32_parameters_keeps_the_dtype_of_the_input(dtype):
    assert LayerNorm(6)(draw((2, 6), dtype)[0]).dtype == dtype
