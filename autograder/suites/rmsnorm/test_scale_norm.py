"""Hidden tests of `scale_norm(x, g, eps)`, simplest first."""

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
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    expect_bfloat16_output,
    expect_half,
    normal,
    reaches,
    share,
    uniform,
)
from autograder.testing.compare import expect


def length(rng: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """g, a tensor with one number from 2 to 4."""
    return uniform(rng, 2, 4).to(dtype)


def want_for(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return exact(reference.scale_norm, x, g, eps)


@pytest.mark.points(0.75)
def test_one_vector(student, rng):
    """A single vector gets the length g and keeps its direction"""
    for d in (6, WIDTH):
        x, g = rows(rng, d), length(rng)
        want = want_for(x, g, EPS)
        expect(student.scale_norm(x, g, EPS), want, **share(want, 2e-3))


@pytest.mark.points(0.5)
def test_each_vector_on_its_own(student, rng):
    """In a batch, every vector along the last axis is divided by its own length"""
    square = rows(rng, WIDTH, WIDTH)
    for x in (square, rows(rng, 3, 5, WIDTH), square[7:8]):
        g = length(rng)
        want = want_for(x, g, EPS)
        expect(student.scale_norm(x, g, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_any_number_of_axes(student, rng):
    """x may have one axis, four axes, or axes of length 1"""
    for shape in ((WIDTH,), (2, 3, 4, WIDTH), (2, 1, 1, WIDTH)):
        x, g = rows(rng, *shape), length(rng)
        want = want_for(x, g, EPS)
        what = f"the output for an x with {len(shape)} axes"
        expect(student.scale_norm(x, g, EPS), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.75)
def test_eps_is_a_lower_limit(student, rng):
    """Vectors longer than eps do not feel it; shorter ones are divided by eps"""
    unit = normal(rng, 6, WIDTH)
    unit = unit / unit.norm(dim=-1, keepdim=True)
    for eps in (0.5, 1e-2, 1e-5):
        lengths = torch.tensor([100.0, 3.0, 1.2, 0.8, 0.1, 1e-6], dtype=torch.float64)[:, None]
        x, g = (eps * lengths * unit).float(), length(rng)
        want = want_for(x, g, eps)
        what = "the output for a large eps" if eps > 0.1 else "the output for a small eps"
        expect(student.scale_norm(x, g, eps), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.25)
def test_vector_of_zeros(student, rng):
    """A vector of zeros gives zeros, not NaN"""
    x, g = rows(rng, 6, WIDTH), length(rng)
    x[1], x[4] = 0.0, 0.0
    want = want_for(x, g, EPS)
    expect(student.scale_norm(x, g, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many features"""
    for d in (7, 8, 768, 2, 1):
        x, g = rows(rng, 3, d), length(rng)
        x[2] = 1e-7 * normal(rng, d)  # a vector shorter than eps
        want = want_for(x, g, 0.02)
        expect(student.scale_norm(x, g, 0.02), want, **share(want, STRICT))


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, in the dtype of x"""
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (2e4 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half()
    g = length(rng)
    want = want_for(huge, g, EPS)
    expect_half(student.scale_norm(huge, g, EPS), want, LOOSE)
    for dtype, of_g in (
        (torch.float16, torch.float32),
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.bfloat16),
    ):
        x, g = rows(rng, 8, WIDTH, dtype=dtype), length(rng, of_g)
        want = want_for(x.float(), g, EPS)
        expect_rounded_once(student.scale_norm(x, g, EPS), want, dtype)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    x, g = rows(rng, 4, 9, dtype=torch.float64), length(rng, torch.float64)
    want = want_for(x, g, 0.02)
    expect(student.scale_norm(x, g, 0.02), want, **share(want, 1e-12))


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed and sliced inputs give the same as a copy of them, and are not modified"""
    transposed = rows(rng, 5, WIDTH).t().contiguous().t()
    sliced = rows(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    for kind, x in (("a transposed", transposed), ("a sliced", sliced)):
        g = length(rng)
        before = [x.clone(), g.clone()]
        want = want_for(x, g, EPS)
        got = student.scale_norm(x, g, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradients for x and for g, above and below the limit"""
    above, g = rows(rng, 3, WIDTH), length(rng)
    below = 1e-8 * rows(rng, 3, WIDTH)
    for x, eps, where in ((above, 0.5, "longer"), (below, 0.5, "shorter")):
        up = upstream(rng, x)
        want = want_for(x, g, eps)
        for_x, for_g = gradients(lambda x, g, eps=eps: reference.scale_norm(x, g, eps), up, x, g)
        y, vjp = student.vjp("scale_norm", x, g, eps)
        expect(y, want, **share(want, LOOSE))
        found = vjp(up)
        expect(reaches(found, x, g), [True] * 2, what=REACHES.format("x and g"))
        expect(found[1], for_g, **share(for_g, LOOSE), what="the gradient for g")
        what = f"the gradient for an x {where} than eps"
        expect(found[0], for_x, **share(for_x, LOOSE), what=what)


@pytest.mark.points(0.25)
def test_gradient_flows_in_bfloat16(student, rng):
    """Autograd finds its way through your function in bfloat16, too"""
    dtype = torch.bfloat16
    x, g = rows(rng, 6, WIDTH, dtype=dtype), length(rng, dtype)
    # With the sign of x, so that the gradient for g is no difference of large numbers.
    up = x.sign() * upstream(rng, x, dtype).abs()
    want = want_for(x, g, EPS)
    right = gradients(lambda x, g: reference.scale_norm(x, g, EPS), up, x, g)
    y, vjp = student.vjp("scale_norm", x, g, EPS)
    expect_bfloat16_output(y, want)
    expect_bfloat16_gradients(vjp(up), right, "x", "g")
