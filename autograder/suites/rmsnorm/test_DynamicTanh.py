"""Hidden tests of the module `DynamicTanh(d_model, alpha=0.5)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import solutions.rmsnorm.rmsnorm as reference
from autograder.suites.rmsnorm.inputs import (
    LOOSE,
    STRICT,
    WIDTH,
    expect_bfloat16_gradients,
    expect_rounded_once,
    gradients,
    rows,
    signed,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    expect_bfloat16_output,
    gathered,
    normal,
    reaches,
    share,
    text_list,
)
from autograder.testing.compare import expect

NAMES = ["alpha", "bias", "weight"]


def _state(alpha: float | Tensor, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    alpha = alpha if isinstance(alpha, Tensor) else torch.tensor([alpha], dtype=weight.dtype)
    return {"alpha": alpha, "weight": weight, "bias": bias}


def _fresh(alpha: float = 0.5) -> dict[str, Tensor]:
    return _state(alpha, torch.ones(WIDTH), torch.zeros(WIDTH))


def _random(rng: torch.Generator, d: int = WIDTH) -> dict[str, Tensor]:
    return _state(0.2, signed(rng, d), signed(rng, d, low=1.0))


def _forward(x: Tensor, alpha: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The reference as a function of everything that gradients may reach."""
    m = reference.DynamicTanh(x.shape[-1]).double()
    return functional_call(m, _state(alpha, weight, bias), (x,))


def _want(x: Tensor, state: dict[str, Tensor]) -> Tensor:
    wide = [t.double() for t in (x, *state.values())]
    return _forward(*wide).detach().to(x.dtype)


@pytest.mark.points(1)
def test_parameters(student, rng):
    """alpha, weight and bias are trainable parameters: names, shapes, first values"""
    m = student.DynamicTanh(WIDTH)
    expect(m.state(), _fresh(), rtol=0, atol=0, what="the state_dict")
    trained = text_list(m.parameters())
    expect(trained, NAMES, what="the list of trainable parameters, sorted")
    x = rows(rng, 4, WIDTH)
    want = _want(x, _fresh())
    expect(m(x), want, **share(want, LOOSE), what="the output of a fresh module")


@pytest.mark.points(0.75)
def test_fresh_module(student, rng):
    """A fresh module bends every number by itself, for any number of axes"""
    m = student.DynamicTanh(WIDTH)
    for shape in ((4, WIDTH), (2, 5, WIDTH), (WIDTH,), (2, 3, 2, WIDTH)):
        x = rows(rng, *shape)
        want = _want(x, _fresh())
        what = f"the output of a fresh module for an x with {len(shape)} axes"
        expect(m(x), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.75)
def test_loaded_parameters_are_used(student, rng):
    """After load_state_dict the output uses the loaded alpha, weight and bias"""
    m = student.DynamicTanh(WIDTH)
    x, state = rows(rng, 4, WIDTH), _random(rng)
    want = _want(x, state)
    m.load(state)
    expect(m(x), want, **share(want, LOOSE))
    expect(m.state(), state, rtol=0, atol=0, what="the state_dict after loading")


@pytest.mark.points(0.5)
def test_alpha_argument(student, rng):
    """The argument alpha is the first value of the parameter alpha, by position and by name"""
    x = rows(rng, 4, WIDTH)
    for alpha, m in (
        (0.125, student.DynamicTanh(WIDTH, 0.125)),
        (2.0, student.DynamicTanh(WIDTH, alpha=2.0)),
    ):
        want = _want(x, _fresh(alpha))
        expect(m.state(), _fresh(alpha), rtol=0, atol=0, what="the state_dict")
        expect(m(x), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_gradients(student, rng):
    """Gradients reach x, alpha, weight and bias, and are right"""
    m = student.DynamicTanh(WIDTH)
    x, state = rows(rng, 2, 3, WIDTH), _random(rng)
    g = upstream(rng, x)
    want = _want(x, state)
    exact = gradients(_forward, g, x, *state.values())
    m.load(state)
    y, vjp = m.vjp(x)
    expect(y, want, **share(want, LOOSE))
    inputs, parameters = vjp(g)
    found = gathered(inputs, 1, parameters, list(state))
    what = REACHES.format("x, alpha, weight and bias")
    expect(reaches(found, x, *state.values()), [True] * 4, what=what)
    for i, name in ((3, "bias"), (2, "weight"), (1, "alpha"), (0, "x")):
        part = {"what": f"the gradient for {name}", **share(exact[i], LOOSE)}
        expect(found[i], exact[i], **part)


@pytest.mark.points(0.25)
def test_gradients_in_bfloat16(student, rng):
    """In a module moved to bfloat16, too, gradients reach x, alpha, weight and bias"""
    m, dtype = student.DynamicTanh(WIDTH), torch.bfloat16
    x, state = rows(rng, 2, 3, WIDTH, dtype=dtype), _random(rng)
    state = {name: t.to(dtype) for name, t in state.items()}
    # With signs such that the gradient for alpha is no difference of large numbers.
    g = (x * state["weight"]).sign() * upstream(rng, x, dtype).abs()
    want, right = _want(x, state), gradients(_forward, g, x, *state.values())
    m.to(dtype)
    m.load(state)
    y, vjp = m.vjp(x)
    expect_bfloat16_output(y, want)
    inputs, parameters = vjp(g)
    found = gathered(inputs, 1, parameters, list(state))
    expect_bfloat16_gradients(found, right, "x", *state)


@pytest.mark.points(0.25)
def test_dtypes(student, rng):
    """The output has the dtype of x; half types are computed in float32 and rounded once"""
    m, state = student.DynamicTanh(WIDTH), _random(rng)
    m.load(state)
    for dtype in (torch.bfloat16, torch.float16):
        x = rows(rng, 4, WIDTH, dtype=dtype)
        want = _want(x.float(), state)
        expect_rounded_once(m(x), want, dtype)
    for dtype in (torch.bfloat16, torch.float16):  # parameters of a half type, too
        half = {name: t.to(dtype) for name, t in state.items()}
        m.to(dtype)
        m.load(half)
        x = rows(rng, 4, WIDTH, dtype=dtype)
        want = _want(x.float(), half)
        expect_rounded_once(m(x), want, dtype)
    # The same product alpha * x, but an x that does not fit into float16.
    m.to(torch.bfloat16)
    half = {name: t.bfloat16() for name, t in state.items()}
    half["alpha"] = 2**-17 * half["alpha"]
    m.load(half)
    x = 2**17 * rows(rng, 4, WIDTH, dtype=torch.bfloat16)
    want = _want(x.float(), half)
    expect_rounded_once(m(x), want, torch.bfloat16)
    m.to(torch.float64)
    m.load({name: t.double() for name, t in state.items()})
    x = rows(rng, 4, WIDTH, dtype=torch.float64)
    want = _want(x, state)
    expect(m(x), want, **share(want, 1e-10), what="the output after moving to float64")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, and small inputs pass almost unbent"""
    for d in (7, 768):
        x, state = rows(rng, 3, d), _random(rng, d)
        x[2] = 1e-2 * normal(rng, d)
        state["bias"] = torch.zeros(d)
        want = _want(x, state)
        m = student.DynamicTanh(d)
        m.load(state)
        expect(m(x), want, rtol=STRICT, atol=1e-6)
