"""Hidden tests of `normalize(x, dims, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.family.inputs import (
    EPS,
    LOOSE,
    MANY,
    STRICT,
    coarse,
    expect_bfloat16_gradients,
    expect_gradients,
    expect_rounded_once,
    spread_rows,
    table,
    wanted,
)
from autograder.suites.vocabulary import expect_half, huge, share
from autograder.testing.compare import expect


def _check(student, x, dims, eps=EPS, part=LOOSE, what="the output"):
    want = wanted("normalize", x, dims, eps)
    expect(student.normalize(x, dims, eps), want, **share(want, part), what=what)


@pytest.mark.points(0.5)
def test_one_axis(student, rng):
    """Along one axis of a small table: mean 0 and (biased) variance 1"""
    # n - 1 instead of n changes the result by 10 % here; a misplaced eps of 1e-3 by 0.04 %.
    x = table(rng, 6, 6, 6)
    for dims in (0, 1):
        _check(student, x, dims, part=2e-3)


@pytest.mark.points(1)
def test_each_set_of_axes(student, rng):
    """Whatever axes are named, statistics go over these and no others"""
    # Axes of equal length: statistics that lost their place broadcast without an error.
    x = table(rng, 8, 8, 8, 8)
    for dims in ((1, 2), (2, 3), (1, 2, 3), (0, 2, 3), (0, 3), (0, 1, 2, 3)):
        _check(student, x, dims, what=f"the output for dims={dims}")
    _check(student, table(rng, MANY, 3, MANY), (2,), what="the output for dims=(2,)")


@pytest.mark.points(0.75)
def test_several_axes_together(student, rng):
    """Several axes are averaged over together, not one after the other"""
    # Few values, so that a spread between rows weighs as much as the spread within them.
    for shape, dims in (((4, 3), (0, 1)), ((3, 4, 2, 3), (1, 3)), ((2, 3, 2, 2), (0, 2, 3))):
        _check(student, table(rng, *shape), dims, part=2e-3)


@pytest.mark.points(0.25)
def test_order_and_sign_of_axes(student, rng):
    """Axes may come in any order and may be counted from the end"""
    x = table(rng, 5, 8, 4, MANY)
    for dims in (-1, (3, 1), (-1, 1), (-1, -3), (-2, 0, -1)):
        _check(student, x, dims, what=f"the output for dims={dims}")


@pytest.mark.points(0.25)
def test_any_number_of_axes(student, rng):
    """x may have one axis or five, and axes of length 1"""
    for shape, dims in (((MANY,), 0), ((2, 3, 2, 8, 9), (3, 4)), ((2, 1, MANY, 1), (1, 2, 3))):
        what = f"the output for an x with {len(shape)} axes"
        _check(student, table(rng, *shape), dims, what=what)


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    x = spread_rows(rng, MANY)
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = wanted("normalize", x, 1, eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        atol = 2e-3 * float(want.abs().max())
        expect(student.normalize(x, 1, eps), want, rtol=LOOSE, atol=atol, what=what)


@pytest.mark.points(0.25)
def test_equal_numbers(student, rng):
    """Equal numbers give zeros, not NaN; so does an axis of length 1"""
    x = table(rng, 6, MANY)
    # Numbers whose sums and means are exact, so that the deviations are exactly 0.
    x[1], x[3], x[4] = 0.0, 7.25, -1024.0
    _check(student, x, 1)
    _check(student, x.reshape(6, 1, MANY), 1, what="the output for an axis of length 1")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many values"""
    for shape, dims in (((3, 7), 1), ((2, 3, 9, 5), (0, 2, 3)), ((3, 768), -1), ((4, 2), (0,))):
        x = table(rng, *shape)
        x[-1] = 3e-3 * torch.randn(x[-1].shape, generator=rng)  # values that eps rules
        _check(student, x, dims, 0.02, STRICT)


@pytest.mark.points(0.25)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    # In float32 the mean itself is known to about 1e-3 here, and E[x²] - E[x]² is off by up to 8
    # where 1 is right.
    x = 1e4 + torch.randn(4, 24, 32, generator=rng)
    _check(student, x, (1, 2), 1e-5, 1e-2)


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, returned in the dtype of x"""
    for x in (coarse(rng, 4, 8, 8), huge(rng, 4, 8, 8)):
        want = wanted("normalize", x, (1, 2), EPS)
        expect_half(student.normalize(x, (1, 2), EPS), want, LOOSE, "the output")
    for dtype in (torch.float16, torch.bfloat16):
        x = table(rng, 4, 8, 8, dtype=dtype)
        want = wanted("normalize", x.float(), (1, 2), 1e-5)
        expect_rounded_once(student.normalize(x, (1, 2), 1e-5), want, dtype)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    x = table(rng, 4, 3, 5, dtype=torch.float64)
    x[3] = 3e-3 * torch.randn(3, 5, generator=rng, dtype=torch.float64)  # values that eps rules
    _check(student, x, (1, 2), 0.02, 1e-12)


@pytest.mark.points(0.25)
def test_inputs_unchanged_and_strided(student, rng):
    """Transposed, sliced and expanded inputs work, and x is not modified"""
    sliced = table(rng, 4, 16, 16)[:, ::2, ::2]
    for x in (table(rng, MANY, 5).t(), sliced, table(rng, 3, 1, MANY).expand(3, 4, MANY)):
        before = x.clone()
        _check(student, x, tuple(range(1, x.dim())))
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradient of your function, through mean and variance too"""
    for shape, dims in (((6, MANY), 1), ((4, 4, 4, 5), (0, 2, 3))):
        expect_gradients(student, rng, "normalize", table(rng, *shape), dims, EPS)
    expect_bfloat16_gradients(student, rng, "normalize", table(rng, 4, 8, 9), (0, 2), EPS)
