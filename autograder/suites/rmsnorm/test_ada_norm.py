"""Hidden tests of `ada_norm(x, c, k, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import solutions.rmsnorm.rmsnorm as reference
from autograder.suites.rmsnorm.inputs import (
    EPS,
    LOOSE,
    STRICT,
    WIDTH,
    exact,
    expect_bfloat16_gradients,
    expect_rounded_once,
    gradients,
    rows,
    scales,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    expect_bfloat16_output,
    expect_half,
    normal,
    reaches,
    share,
)
from autograder.testing.compare import expect


def want_for(x: Tensor, c: float, k: float, eps: float) -> Tensor:
    return exact(reference.ada_norm, x, c, k, eps)


@pytest.mark.points(0.75)
def test_without_the_factor(student, rng):
    """With c = 1 and k = 0 each vector gets mean 0 and variance 1"""
    for shape in ((WIDTH,), (WIDTH, WIDTH), (2, 3, WIDTH), (2, 1, 3, WIDTH)):
        x = rows(rng, *shape)
        want = want_for(x, 1.0, 0.0, EPS)
        expect(student.ada_norm(x, 1.0, 0.0, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.75)
def test_the_factor(student, rng):
    """The normalized y is multiplied by c (1 - k y), feature by feature"""
    x = rows(rng, 2, 3, WIDTH)
    for c, k in ((1.0, 0.1), (2.5, 0.2), (0.5, -0.4)):
        want = want_for(x, c, k, EPS)
        expect(student.ada_norm(x, c, k, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    x = scales(rng, WIDTH, 3.0, 1e-1, 1e-3, 0.0)
    for eps in (10.0, 1e-2, 1e-6):
        want = want_for(x, 1.5, 0.1, eps)
        got = student.ada_norm(x, 1.5, 0.1, eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        expect(got, want, rtol=LOOSE, atol=4e-3 * float(want.abs().max()), what=what)


@pytest.mark.points(0.5)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many features"""
    for d in (7, 8, 768, 2, 1):
        x = rows(rng, 3, d)
        x[2] = 3e-3 * normal(rng, d)  # a vector that eps rules
        want = want_for(x, 1.5, 0.1, 0.02)
        expect(student.ada_norm(x, 1.5, 0.1, 0.02), want, **share(want, STRICT))


@pytest.mark.points(0.25)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    x = (1e4 + normal(rng, 4, 768)).float()
    want = want_for(x, 1.0, 0.1, 1e-5)
    expect(student.ada_norm(x, 1.0, 0.1, 1e-5), want, **share(want, 1e-2))


@pytest.mark.points(0.5)
def test_the_factor_is_a_constant_for_autograd(student, rng):
    """Gradients flow through y, but not through the factor c (1 - k y)"""
    x = rows(rng, 2, 3, WIDTH)
    g = upstream(rng, x)
    c, k = 1.5, 0.3
    want = want_for(x, c, k, EPS)
    (for_x,) = gradients(lambda x: reference.ada_norm(x, c, k, EPS), g, x)
    y, vjp = student.vjp("ada_norm", x, c, k, EPS)
    expect(y, want, **share(want, LOOSE))
    found = vjp(g)
    expect(reaches(found, x), [True], what=REACHES.format("x"))
    expect(found[0], for_x, **share(for_x, 0.04), what="the gradient for x")


@pytest.mark.points(0.25)
def test_gradient_flows_in_bfloat16(student, rng):
    """Autograd finds its way through your function in bfloat16, too"""
    x = rows(rng, 2, 3, WIDTH, dtype=torch.bfloat16)
    g = upstream(rng, x, torch.bfloat16)
    c, k = 1.5, 0.3
    want = want_for(x, c, k, EPS)
    right = gradients(lambda x: reference.ada_norm(x, c, k, EPS), g, x)
    y, vjp = student.vjp("ada_norm", x, c, k, EPS)
    expect_bfloat16_output(y, want)
    expect_bfloat16_gradients(vjp(g), right, "x")


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, in the dtype of x"""
    # bfloat16 steps by 1 at 200: a mean kept in it is off by up to a quarter of the spread.
    coarse = (200 + 2 * normal(rng, 8, WIDTH)).bfloat16()
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (2e4 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half()
    for x in (coarse, huge):
        want = want_for(x, 1.5, 0.1, EPS)
        expect_half(student.ada_norm(x, 1.5, 0.1, EPS), want, LOOSE)
    for dtype in (torch.float16, torch.bfloat16):
        x = rows(rng, 8, WIDTH, dtype=dtype)
        want = want_for(x.float(), 1.5, 0.1, 1e-5)
        expect_rounded_once(student.ada_norm(x, 1.5, 0.1, 1e-5), want, dtype)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    x = rows(rng, 4, 9, dtype=torch.float64)
    want = want_for(x, 1.5, 0.1, 0.02)
    expect(student.ada_norm(x, 1.5, 0.1, 0.02), want, **share(want, 1e-12))


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed and sliced inputs give the same as a copy of them, and are not modified"""
    transposed = rows(rng, 5, WIDTH).t().contiguous().t()
    sliced = rows(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    for kind, x in (("a transposed", transposed), ("a sliced", sliced)):
        before = [x.clone()]
        want = want_for(x, 1.5, 0.1, EPS)
        got = student.ada_norm(x, 1.5, 0.1, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
