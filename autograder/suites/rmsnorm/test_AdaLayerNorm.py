"""Hidden tests of the module `AdaLayerNorm(d_model, d_cond, eps=1e-6)`, simplest first."""

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
    scales,
    signed,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    expect_bfloat16_output,
    expect_half,
    gathered,
    normal,
    reaches,
    share,
    text_list,
)
from autograder.testing.compare import expect

DEFAULT_EPS = 1e-6
COND = 6
NAMES = ["modulation.bias", "modulation.weight"]


def _state(weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    return {"modulation.weight": weight, "modulation.bias": bias}


def _zeros(d: int = WIDTH) -> dict[str, Tensor]:
    return _state(torch.zeros(2 * d, COND), torch.zeros(2 * d))


def _random(
    rng: torch.Generator, d: int = WIDTH, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Another shift and another scale for every feature and every condition."""
    weight = 0.4 * normal(rng, 2 * d, COND)
    return _state(weight.to(dtype), signed(rng, 2 * d, dtype))


def _cond(rng: torch.Generator, b: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Conditions (b, COND) of both signs; silu differs much from the identity there."""
    return (1.5 * normal(rng, b, COND)).to(dtype)


def _forward(x: Tensor, cond: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """The reference as a function of everything that gradients may reach."""
    m = reference.AdaLayerNorm(x.shape[-1], cond.shape[-1], eps).double()
    return functional_call(m, _state(weight, bias), (x, cond))


def _want(x: Tensor, cond: Tensor, state: dict[str, Tensor], eps: float = DEFAULT_EPS) -> Tensor:
    wide = [t.double() for t in (x, cond, *state.values())]
    return _forward(*wide, eps).detach().to(x.dtype)


@pytest.mark.points(1)
def test_parameters(student, rng):
    """The only parameters are those of modulation; they are trainable and start as zeros"""
    m = student.AdaLayerNorm(WIDTH, COND)
    expect(m.state(), _zeros(), rtol=0, atol=0, what="the state_dict")
    trained = text_list(m.parameters())
    expect(trained, NAMES, what="the list of trainable parameters, sorted")
    x, cond = rows(rng, 2, 3, WIDTH), _cond(rng, 2)
    want = _want(x, cond, _zeros())
    expect(m(x, cond), want, **share(want, LOOSE), what="the output of a fresh module")


@pytest.mark.points(1)
def test_fresh_module_is_layer_norm(student, rng):
    """A fresh module gives every token mean 0 and variance 1, whatever the condition"""
    m = student.AdaLayerNorm(WIDTH, COND)
    for b, length in ((3, 5), (1, 4), (2, 1), (4, WIDTH)):
        x, cond = rows(rng, b, length, WIDTH), _cond(rng, b)
        want = _want(x, cond, _zeros())
        expect(m(x, cond), want, **share(want, LOOSE))


@pytest.mark.points(1)
def test_shift_and_scale(student, rng):
    """The first half of modulation's output is the shift, the second half the scale"""
    m = student.AdaLayerNorm(WIDTH, COND)
    x, cond = rows(rng, 3, 5, WIDTH), _cond(rng, 3)
    state = _zeros() | {"modulation.bias": signed(rng, 2 * WIDTH)}
    want = _want(x, cond, state)
    m.load(state)
    expect(m(x, cond), want, **share(want, LOOSE))


@pytest.mark.points(1)
def test_condition(student, rng):
    """Each sequence is shifted and scaled by its own condition, after silu and modulation"""
    m = student.AdaLayerNorm(WIDTH, COND)
    state = _random(rng)
    m.load(state)
    # As many sequences as tokens: a condition lined up with the tokens broadcasts too.
    for b, length in ((4, 4), (3, 5), (1, 2)):
        x, cond = rows(rng, b, length, WIDTH), _cond(rng, b)
        want = _want(x, cond, state)
        expect(m(x, cond), want, **share(want, LOOSE))


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is added to the variance under the root: the argument, or the default"""
    x, cond = scales(rng, WIDTH, 2.0, 1.0, 0.1, 1e-3)[None], _cond(rng, 1)
    for eps, m in (
        (4.0, student.AdaLayerNorm(WIDTH, COND, 4.0)),
        (0.5, student.AdaLayerNorm(WIDTH, COND, eps=0.5)),
        (DEFAULT_EPS, student.AdaLayerNorm(WIDTH, COND)),
    ):
        want = _want(x, cond, _zeros(), eps)
        what = "the output for the default eps" if eps < 0.1 else "the output for a large eps"
        expect(m(x, cond), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.5)
def test_gradients(student, rng):
    """Gradients reach x, the condition and modulation, and are right"""
    m = student.AdaLayerNorm(WIDTH, COND)
    x, cond, state = rows(rng, 2, 3, WIDTH), _cond(rng, 2), _random(rng)
    g = upstream(rng, x)
    want = _want(x, cond, state)
    exact = gradients(lambda *t: _forward(*t, DEFAULT_EPS), g, x, cond, *state.values())
    m.load(state)
    y, vjp = m.vjp(x, cond)
    expect(y, want, **share(want, LOOSE))
    inputs, parameters = vjp(g)
    found = gathered(inputs, 2, parameters, NAMES[::-1])
    what = REACHES.format("x, cond, and weight and bias of modulation")
    expect(reaches(found, x, cond, *state.values()), [True] * 4, what=what)
    for i, name in ((3, "modulation.bias"), (2, "modulation.weight"), (1, "cond"), (0, "x")):
        part = {"what": f"the gradient for {name}", **share(exact[i], 0.04)}
        expect(found[i], exact[i], **part)


@pytest.mark.points(0.25)
def test_gradients_in_bfloat16(student, rng):
    """With a bfloat16 x, too, gradients reach x, the condition and modulation"""
    m, cond, state = student.AdaLayerNorm(WIDTH, COND), _cond(rng, 2), _random(rng)
    x = rows(rng, 2, 3, WIDTH, dtype=torch.bfloat16)
    g = upstream(rng, x, torch.bfloat16)
    want = _want(x, cond, state)
    right = gradients(lambda *t: _forward(*t, DEFAULT_EPS), g, x, cond, *state.values())
    m.load(state)
    y, vjp = m.vjp(x, cond)
    expect_bfloat16_output(y, want)
    inputs, parameters = vjp(g)
    found = gathered(inputs, 2, parameters, NAMES[::-1])
    expect_bfloat16_gradients(found, right, "x", "cond", NAMES[1], NAMES[0])


@pytest.mark.points(0.5)
def test_dtypes(student, rng):
    """The output has the dtype of x; half types are computed in float32 and rounded once"""
    m, state = student.AdaLayerNorm(WIDTH, COND), _random(rng)
    m.load(state)
    for dtype in (torch.bfloat16, torch.float16):
        x, cond = rows(rng, 2, 4, WIDTH, dtype=dtype), _cond(rng, 2)
        want = _want(x.float(), cond, state)
        expect_rounded_once(m(x, cond), want, dtype)
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge, cond = (1e4 * normal(rng, 2, 4, WIDTH)).half(), _cond(rng, 2)
    want = _want(huge, cond, state)
    expect_half(m(huge, cond), want, LOOSE)
    m.to(torch.float64)
    x, cond = rows(rng, 2, 4, WIDTH, dtype=torch.float64), _cond(rng, 2, torch.float64)
    want = _want(x, cond, state)
    expect(m(x, cond), want, **share(want, 1e-10), what="the output after moving to float64")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision"""
    for d, eps in ((7, 0.02), (256, 0.3)):
        x, cond, state = rows(rng, 2, 3, d), _cond(rng, 2), _random(rng, d)
        x[1, 2] = 3e-3 * normal(rng, d)  # a vector that eps rules
        want = _want(x, cond, state, eps)
        m = student.AdaLayerNorm(d, COND, eps)
        m.load(state)
        expect(m(x, cond), want, **share(want, STRICT))
