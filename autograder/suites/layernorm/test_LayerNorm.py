"""Hidden tests of the module `LayerNorm(d_model, eps=1e-5)`, simplest first.

They forgive most of what the tests of `layer_norm` have counted already, since the module calls it.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograder.suites.layernorm.inputs import (
    LOOSE,
    STRICT,
    WIDTH,
    expect_bfloat16_gradients,
    gradients,
    normalized,
    positive_weight,
    rows,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    affine,
    expect_bfloat16_output,
    expect_half,
    plain,
    reaches,
    share,
    text_list,
)
from autograder.testing.compare import expect
from autograder.testing.later import later

DEFAULT_EPS = 1e-5


def _state(weight: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"weight": weight, "bias": bias}


@later
def _found(inputs: list, parameters: dict[str, Any]) -> list[Any]:
    """The gradients of x, weight and bias, where there are any."""
    return [*inputs[:1], parameters.get("weight"), parameters.get("bias")]


@pytest.mark.points(0.75)
def test_parameters(student, rng):
    """weight and bias are trainable parameters: names, shapes, first values"""
    m = student.LayerNorm(WIDTH)
    expect(m.state(), _state(*plain(WIDTH)), rtol=0, atol=0, what="the state_dict")
    trained = text_list(m.parameters())
    expect(trained, ["bias", "weight"], what="the list of trainable parameters, sorted")
    x = rows(rng, 4, WIDTH)
    want = normalized(x, *plain(WIDTH), DEFAULT_EPS)
    expect(m(x), want, **share(want, LOOSE), what="the output of a fresh module")


@pytest.mark.points(0.75)
def test_fresh_module(student, rng):
    """A fresh module normalizes every vector of its input, for any number of axes"""
    m = student.LayerNorm(WIDTH)
    for shape in ((4, WIDTH), (2, 5, WIDTH), (WIDTH,), (2, 3, 2, WIDTH)):
        x = rows(rng, *shape)
        want = normalized(x, *plain(WIDTH), DEFAULT_EPS)
        what = f"the output of a fresh module for an x with {len(shape)} axes"
        expect(m(x), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.75)
def test_loaded_parameters_are_used(student, rng):
    """After load_state_dict the output uses the loaded weight and bias"""
    m = student.LayerNorm(WIDTH)
    x, (weight, bias) = rows(rng, 4, WIDTH), affine(rng, WIDTH)
    want = normalized(x, weight, bias, DEFAULT_EPS)
    m.load(_state(weight, bias))
    expect(m(x), want, **share(want, LOOSE))
    expect(m.state(), _state(weight, bias), rtol=0, atol=0, what="the state_dict after loading")


@pytest.mark.points(0.5)
def test_eps_argument(student, rng):
    """The eps given to the module is the eps used, by position and by name"""
    spread = torch.tensor([2.0, 1.0, 0.1, 3e-3])[:, None]
    x = spread * (0.5 + torch.randn(4, WIDTH, generator=rng))
    for eps, m in ((4.0, student.LayerNorm(WIDTH, 4.0)), (0.5, student.LayerNorm(WIDTH, eps=0.5))):
        want = normalized(x, *plain(WIDTH), eps)
        expect(m(x), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_default_eps(student, rng):
    """Without an argument eps is 1e-5"""
    # Spreads around the root of 1e-5, where a tenfold other eps changes everything.
    spread = torch.tensor([1e-2, 3e-3, 3e-3, 1e-6])[:, None]
    x = spread * (1 + torch.randn(4, WIDTH, generator=rng))
    want = normalized(x, *plain(WIDTH), DEFAULT_EPS)
    expect(student.LayerNorm(WIDTH)(x), want, **share(want, LOOSE))


@pytest.mark.points(0.5)
def test_no_memory(student, rng):
    """Earlier inputs, train() and eval() make no difference"""
    m = student.LayerNorm(WIDTH)
    x, other = rows(rng, 4, WIDTH), rows(rng, 4, WIDTH)
    want = normalized(x, *plain(WIDTH), DEFAULT_EPS)
    m.train()
    m(other)
    expect(m(x), want, **share(want, LOOSE), what="the output in training, after another input")
    m.eval()
    expect(m(x), want, **share(want, LOOSE), what="the output in evaluation")
    expect(m.state(), _state(*plain(WIDTH)), rtol=0, atol=0, what="the state_dict after calls")


@pytest.mark.points(0.5)
def test_gradients(student, rng):
    """Gradients reach x, weight and bias, and are right"""
    m = student.LayerNorm(WIDTH)
    x, weight, (_, bias) = rows(rng, 2, 3, WIDTH), positive_weight(rng, WIDTH), affine(rng, WIDTH)
    g = upstream(rng, x)
    want = normalized(x, weight, bias, DEFAULT_EPS)
    for_x, for_weight, for_bias = gradients(g, x, weight, DEFAULT_EPS)
    m.load(_state(weight, bias))
    y, vjp = m.vjp(x)
    expect(y, want, **share(want, LOOSE))
    inputs, parameters = vjp(g)
    found = _found(inputs, parameters)
    expect(reaches(found, x, weight, bias), [True] * 3, what=REACHES.format("x, weight and bias"))
    # A biased or unbiased variance differs by up to 1.6 % here, a missing term by half and more.
    expect(found[2], for_bias, **share(for_bias, LOOSE), what="the gradient for bias")
    expect(found[1], for_weight, **share(for_weight, 0.04), what="the gradient for weight")
    expect(found[0], for_x, **share(for_x, 0.04), what="the gradient for x")


@pytest.mark.points(0.25)
def test_gradients_in_bfloat16(student, rng):
    """In a module moved to bfloat16, too, gradients reach x, weight and bias"""
    m, dtype = student.LayerNorm(WIDTH), torch.bfloat16
    x, (_, bias) = rows(rng, 2, 3, WIDTH, dtype=dtype), affine(rng, WIDTH, dtype)
    weight, g = positive_weight(rng, WIDTH, dtype), upstream(rng, x, dtype)
    want, exact = normalized(x, weight, bias, DEFAULT_EPS), gradients(g, x, weight, DEFAULT_EPS)
    m.to(dtype)
    m.load(_state(weight, bias))
    y, vjp = m.vjp(x)
    expect_bfloat16_output(y, want)
    expect_bfloat16_gradients(_found(*vjp(g)), exact)


@pytest.mark.points(0.5)
def test_dtypes(student, rng):
    """The output has the dtype of x, for parameters in float32 and in another dtype"""
    m = student.LayerNorm(WIDTH)
    for dtype in (torch.bfloat16, torch.float16):
        x = torch.randn(4, WIDTH, generator=rng).to(dtype)
        want = normalized(x, *plain(WIDTH), DEFAULT_EPS)
        expect_half(m(x), want, LOOSE, f"the output for a {str(dtype)[6:]} x")
    m.to(torch.float64)
    x = rows(rng, 4, WIDTH, dtype=torch.float64)
    want = normalized(x, *plain(WIDTH), DEFAULT_EPS)
    expect(m(x), want, **share(want, LOOSE), what="the output after moving to float64")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision"""
    for d, eps in ((7, 0.02), (768, 0.3)):
        x, (weight, bias) = rows(rng, 3, d), affine(rng, d)
        x[2] = 3e-3 * torch.randn(d, generator=rng)  # a vector that eps rules
        want = normalized(x, weight, bias, eps)
        m = student.LayerNorm(d, eps)
        m.load(_state(weight, bias))
        expect(m(x), want, **share(want, STRICT))
