"""Hidden tests of the module `RMSNorm(d_model, eps=1e-6)`, simplest first.

They forgive most of what the tests of `rms_norm` have counted already, since the module calls it.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

import solutions.rmsnorm.rmsnorm as reference
from autograder.suites.rmsnorm.inputs import (
    LOOSE,
    STRICT,
    WIDTH,
    exact,
    expect_bfloat16_gradients,
    gradients,
    positive_weight,
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
ONES = torch.ones(WIDTH)


@pytest.mark.points(0.75)
def test_parameters(student, rng):
    """weight is the only parameter, trainable, one number per feature, and starts as ones"""
    m = student.RMSNorm(WIDTH)
    x = rows(rng, 4, WIDTH)
    want = exact(reference.rms_norm, x, ONES, DEFAULT_EPS)
    expect(m(x), want, **share(want, LOOSE), what="the output of a fresh module")
    expect(m.state(), {"weight": ONES}, rtol=0, atol=0, what="the state_dict")
    trained = text_list(m.parameters())
    expect(trained, ["weight"], what="the list of trainable parameters")


@pytest.mark.points(0.5)
def test_fresh_module(student, rng):
    """A fresh module normalizes every vector of its input, for any number of axes"""
    m = student.RMSNorm(WIDTH)
    for shape in ((4, WIDTH), (2, 5, WIDTH), (WIDTH,), (2, 3, 2, WIDTH)):
        x = rows(rng, *shape)
        want = exact(reference.rms_norm, x, ONES, DEFAULT_EPS)
        what = f"the output of a fresh module for an x with {len(shape)} axes"
        expect(m(x), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.5)
def test_loaded_parameters_are_used(student, rng):
    """After load_state_dict the output uses the loaded weight"""
    m = student.RMSNorm(WIDTH)
    x, weight = rows(rng, 4, WIDTH), signed(rng, WIDTH)
    want = exact(reference.rms_norm, x, weight, DEFAULT_EPS)
    m.load({"weight": weight})
    expect(m(x), want, **share(want, LOOSE))
    expect(m.state(), {"weight": weight}, rtol=0, atol=0, what="the state_dict after loading")


@pytest.mark.points(0.5)
def test_eps_argument(student, rng):
    """The eps given to the module is the eps used, by position and by name"""
    x = scales(rng, WIDTH, 2.0, 1.0, 0.1, 3e-3)
    for eps, m in ((4.0, student.RMSNorm(WIDTH, 4.0)), (0.5, student.RMSNorm(WIDTH, eps=0.5))):
        want = exact(reference.rms_norm, x, ONES, eps)
        expect(m(x), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_default_eps(student, rng):
    """Without an argument eps is the one of the docstring"""
    # Sizes around the root of 1e-6, where a tenfold other eps changes everything.
    x = scales(rng, WIDTH, 3e-3, 1e-3, 1e-3, 3e-7)
    want = exact(reference.rms_norm, x, ONES, DEFAULT_EPS)
    expect(student.RMSNorm(WIDTH)(x), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_no_memory(student, rng):
    """Earlier inputs, train() and eval() make no difference"""
    m = student.RMSNorm(WIDTH)
    x, other = rows(rng, 4, WIDTH), rows(rng, 4, WIDTH)
    want = exact(reference.rms_norm, x, ONES, DEFAULT_EPS)
    m.train()
    m(other)
    expect(m(x), want, **share(want, LOOSE), what="the output in training, after another input")
    m.eval()
    expect(m(x), want, **share(want, LOOSE), what="the output in evaluation")
    expect(m.state(), {"weight": ONES}, rtol=0, atol=0, what="the state_dict after calls")


@pytest.mark.points(0.25)
def test_gradients(student, rng):
    """Gradients reach x and weight, and are right"""
    m = student.RMSNorm(WIDTH)
    x, weight = rows(rng, 2, 3, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    want = exact(reference.rms_norm, x, weight, DEFAULT_EPS)
    for_x, for_weight = gradients(lambda x, w: reference.rms_norm(x, w, DEFAULT_EPS), g, x, weight)
    m.load({"weight": weight})
    y, vjp = m.vjp(x)
    expect(y, want, **share(want, LOOSE))
    inputs, parameters = vjp(g)
    found = gathered(inputs, 1, parameters, ["weight"])
    expect(reaches(found, x, weight), [True] * 2, what=REACHES.format("x and weight"))
    expect(found[1], for_weight, **share(for_weight, LOOSE), what="the gradient for weight")
    expect(found[0], for_x, **share(for_x, LOOSE), what="the gradient for x")


@pytest.mark.points(0.25)
def test_gradients_in_bfloat16(student, rng):
    """In a module moved to bfloat16, too, gradients reach x and weight"""
    m, dtype = student.RMSNorm(WIDTH), torch.bfloat16
    x, weight = rows(rng, 2, 3, WIDTH, dtype=dtype), positive_weight(rng, WIDTH, dtype)
    g = upstream(rng, x, dtype)
    want = exact(reference.rms_norm, x, weight, DEFAULT_EPS)
    right = gradients(lambda x, w: reference.rms_norm(x, w, DEFAULT_EPS), g, x, weight)
    m.to(dtype)
    m.load({"weight": weight})
    y, vjp = m.vjp(x)
    expect_bfloat16_output(y, want)
    inputs, parameters = vjp(g)
    found = gathered(inputs, 1, parameters, ["weight"])
    expect_bfloat16_gradients(found, right, "x", "weight")


@pytest.mark.points(0.5)
def test_dtypes(student, rng):
    """The output has the dtype of x, for a weight in float32 and in another dtype"""
    m = student.RMSNorm(WIDTH)
    for dtype in (torch.bfloat16, torch.float16):
        x = rows(rng, 4, WIDTH).to(dtype)
        want = exact(reference.rms_norm, x, ONES, DEFAULT_EPS)
        expect_half(m(x), want, LOOSE, f"the output for a {str(dtype)[6:]} x")
    m.to(torch.float64)
    x = rows(rng, 4, WIDTH, dtype=torch.float64)
    want = exact(reference.rms_norm, x, ONES, DEFAULT_EPS)
    expect(m(x), want, **share(want, LOOSE), what="the output after moving to float64")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision"""
    for d, eps in ((7, 0.02), (768, 0.3)):
        x, weight = rows(rng, 3, d), signed(rng, d)
        x[2] = 3e-3 * normal(rng, d)  # a vector that eps rules
        want = exact(reference.rms_norm, x, weight, eps)
        m = student.RMSNorm(d, eps)
        m.load({"weight": weight})
        expect(m(x), want, **share(want, STRICT))
