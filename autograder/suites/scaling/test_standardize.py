"""Hidden tests of `standardize(x, dim, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.scaling.inputs import (
    EPS,
    LENGTH,
    LOOSE,
    STRICT,
    expect_half,
    share,
    slices,
    standardized,
)
from autograder.testing.compare import expect


@pytest.mark.points(0.75)
def test_one_slice(student, rng):
    """A single vector gets mean 0 and (biased) variance 1"""
    # n - 1 instead of n changes the result by 10 % here; a misplaced eps of 1e-3 by 0.04 %.
    x = slices(rng, 6, dim=0)
    want = standardized(x, 0, EPS)
    expect(student.standardize(x, 0, EPS), want, **share(want, 2e-3))


@pytest.mark.points(1)
def test_along_dim(student, rng):
    """Every slice along dim is standardized by itself, whichever axis dim is"""
    # As many rows as columns: statistics that lost their axis broadcast without an error.
    for shape, dim in (((LENGTH, LENGTH), 1), ((LENGTH, 7), 0), ((5, LENGTH), 1)):
        x = slices(rng, *shape, dim=dim)
        want = standardized(x, dim, EPS)
        what = f"the output for dim={dim} of two"
        expect(student.standardize(x, dim, EPS), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.5)
def test_any_number_of_axes(student, rng):
    """Three and four axes, axes of length 1, and dim counted from the end"""
    cases = (
        ((3, LENGTH, 4), 1), ((3, 4, LENGTH), -1), ((LENGTH, 2, 3), -3), ((2, LENGTH, 3, 4), -3),
        ((2, 1, LENGTH, 1), 2),
    )  # fmt: skip
    for shape, dim in cases:
        x = slices(rng, *shape, dim=dim)
        want = standardized(x, dim, EPS)
        what = f"the output for an x with {len(shape)} axes and dim={dim}"
        expect(student.standardize(x, dim, EPS), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    spread = torch.tensor([3.0, 1e-1, 1e-3, 1e-5, 1e-6], dtype=torch.float64)
    noise = torch.randn(LENGTH, 5, generator=rng, dtype=torch.float64)
    x = (spread * (1 + noise)).float()
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = standardized(x, 0, eps)
        got = student.standardize(x, 0, eps)
        atol = 2e-3 * float(want.abs().max())
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        expect(got, want, rtol=LOOSE, atol=atol, what=what)


@pytest.mark.points(0.25)
def test_equal_numbers(student, rng):
    """A slice of equal numbers gives zeros, not NaN"""
    x = slices(rng, LENGTH, 6, dim=0)
    # Numbers whose sums and means are exact, so that the deviations are exactly 0.
    x[:, 1], x[:, 3], x[:, 4] = 0.0, 7.25, -1024.0
    want = standardized(x, 0, EPS)
    expect(student.standardize(x, 0, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula in float32 and float64, for few and for many numbers"""
    for n in (7, 500, 2, 1):
        x = slices(rng, n, 3, dim=0)
        x[:, 2] = 3e-3 * torch.randn(n, generator=rng)  # a slice that eps rules
        want = standardized(x, 0, 0.02)
        expect(student.standardize(x, 0, 0.02), want, **share(want, STRICT))
    x = slices(rng, 4, 9, dim=1, dtype=torch.float64)
    want = standardized(x, 1, 0.02)
    expect(student.standardize(x, 1, 0.02), want, **share(want, 1e-12))


@pytest.mark.points(0.25)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    x = 1e4 + torch.randn(768, 4, generator=rng)
    want = standardized(x, 0, 1e-5)
    expect(student.standardize(x, 0, 1e-5), want, **share(want, 1e-2))


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtype of x"""
    # bfloat16 steps by 1 at 200: a mean kept in it is off by up to a quarter of the spread.
    coarse = (200 + 2 * torch.randn(LENGTH, 4, generator=rng)).bfloat16()
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (2e4 * torch.randn(LENGTH, 4, generator=rng)).clamp(-6e4, 6e4).half()
    for x in (coarse, huge):
        want = standardized(x, 0, EPS)
        expect_half(student.standardize(x, 0, EPS), want, LOOSE)


@pytest.mark.points(0.25)
def test_inputs(student, rng):
    """x is not modified, and may be transposed, sliced or expanded"""
    transposed = slices(rng, 5, LENGTH, dim=0).t()
    sliced = slices(rng, 6, 2 * LENGTH, dim=1)[1:4, ::2]
    expanded = slices(rng, 1, LENGTH, dim=1).expand(3, LENGTH)
    for kind, x in (("a transposed", transposed), ("a sliced", sliced), ("an expanded", expanded)):
        want, before = standardized(x, 1, EPS), x.clone()
        got = student.standardize(x, 1, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
