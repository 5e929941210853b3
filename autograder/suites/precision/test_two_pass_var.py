"""Hidden tests of `two_pass_var(x)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.precision.inputs import (
    LOOSE,
    STRICT,
    WIDTH,
    expect_half,
    far,
    gradients,
    moments,
    near,
    share,
)
from autograder.suites.vocabulary import COARSE, REACHES, in_float32, normal, reaches, uniform
from autograder.testing.compare import expect

VAR = "the variance"


@pytest.mark.points(0.5)
def test_one_vector(student, rng):
    """The mean squared deviation from the mean, of a single vector"""
    for d in (6, 11):
        x = near(rng, d)
        want = moments(x)[1]
        expect(student.two_pass_var(x), want, **share(want, 2e-3), what=VAR)


@pytest.mark.points(0.5)
def test_each_vector_on_its_own(student, rng):
    """In a batch, every vector along the last axis has its own variance"""
    square = near(rng, WIDTH, WIDTH)
    for x in (square, near(rng, 3, 5, WIDTH), square[7:8]):
        want = moments(x)[1]
        expect(student.two_pass_var(x), want, **share(want, LOOSE), what=VAR)


@pytest.mark.points(0.25)
def test_any_number_of_axes(student, rng):
    """x may have one axis, four axes, or axes of length 1"""
    for shape in ((WIDTH,), (2, 3, 4, WIDTH), (2, 1, 1, WIDTH)):
        x = near(rng, *shape)
        want = moments(x)[1]
        what = f"the variance for an x with {len(shape)} axes"
        expect(student.two_pass_var(x), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.5)
def test_large_mean(student, rng):
    """Stays accurate when the mean is thousands of times larger than the spread"""
    for mean, spread, dtype in (
        (1e4, 1.0, torch.float32),
        (100.0, 0.01, torch.float32),
        (1e9, 1.0, torch.float64),
    ):
        x = far(rng, 20, WIDTH, mean, spread, dtype)
        want = moments(x)[1]
        expect(student.two_pass_var(x), want, rtol=LOOSE, atol=0, what=VAR)


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """To the precision of float32 and of float64, for few and many features"""
    for d in (7, 8, 768, 2, 1):
        x = near(rng, 3, d)
        want = moments(x)[1]
        expect(student.two_pass_var(x), want, rtol=STRICT, atol=1e-30, what=VAR)
    x = near(rng, 3, 9, dtype=torch.float64)
    want = moments(x)[1]
    expect(student.two_pass_var(x), want, rtol=1e-12, atol=0, what="the float64 variance")


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, and the variance stays in float32"""
    # Squares of the second do not fit into float16, those of the third are too small for it.
    for x in (
        far(rng, 30, WIDTH, 1500.0, 2.0, torch.float16),
        (2e4 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half(),
        (1e-4 * (1 + normal(rng, 4, WIDTH))).half(),
        far(rng, 4, WIDTH, 1000.0, 30.0, torch.bfloat16),
    ):
        want = moments(x)[1]
        expect(student.two_pass_var(x), want, rtol=1e-4, atol=0, what="the variance of a half type")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradient of the variance"""
    x, g = near(rng, 2, 3, WIDTH), uniform(rng, 0.5, 2, 2, 3)
    leaf = x.double().requires_grad_()
    value = (leaf - leaf.mean(-1, keepdim=True)).square().mean(-1)
    (for_x,) = torch.autograd.grad(value, leaf, g)
    for_x, want = for_x.float(), moments(x)[1]
    y, vjp = student.vjp("two_pass_var", x)
    expect(y, want, **share(want, LOOSE), what=VAR)
    found = vjp(g.float())
    expect(reaches(found, x), [True], what=REACHES.format("x"))
    expect(found[0], for_x, **share(for_x, LOOSE), what="the gradient for x")
    # The variance of a bfloat16 x is float32, and the gradient for x bfloat16 again.
    x, g = near(rng, 2, 3, WIDTH, dtype=torch.bfloat16), uniform(rng, 0.5, 2, 2, 3)
    (for_x,) = gradients(lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1), g, x)
    want = moments(x)[1]
    y, vjp = student.vjp("two_pass_var", x)
    expect(in_float32(y), want, **share(want, COARSE), what="the variance in bfloat16")
    found = vjp(g.float())
    expect(reaches(found, x), [True], what=REACHES.format("x in bfloat16"))
    expect_half(found[0], for_x, COARSE, "the gradient for x in bfloat16")


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed, sliced and expanded inputs give the same as a copy, and are not modified"""
    transposed = near(rng, 5, WIDTH).t().contiguous().t()
    sliced = near(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    expanded = near(rng, 1, WIDTH).expand(3, WIDTH)
    for kind, x in (("a transposed", transposed), ("a sliced", sliced), ("an expanded", expanded)):
        before, want = x.clone(), moments(x)[1]
        got = student.two_pass_var(x)
        expect(got, want, **share(want, LOOSE), what=f"the variance for {kind} x")
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
