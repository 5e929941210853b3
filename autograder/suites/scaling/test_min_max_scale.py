"""Hidden tests of `min_max_scale(x, dim)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.scaling.inputs import (
    LENGTH,
    STRICT,
    expect_half,
    min_max_scaled,
    share,
    slices,
)
from autograder.testing.compare import expect

LOOSE = 0.01


@pytest.mark.points(0.75)
def test_columns_run_from_0_to_1(student, rng):
    """Every slice along dim runs from exactly 0 to exactly 1"""
    # All negative, all positive, and already inside the range.
    x = slices(rng, LENGTH, 5, dim=0)
    x[:, 1] = -x[:, 1].abs() - 30
    x[:, 2] = x[:, 2].abs() + 30
    x[:, 3] = 0.25 + 0.5 * torch.rand(LENGTH, generator=rng)
    want = min_max_scaled(x, 0)
    got = student.min_max_scale(x, 0)
    expect(got, want, rtol=0, atol=LOOSE)
    ends = torch.stack([torch.zeros(5), torch.ones(5)])
    what = "the smallest and the largest number of the output"
    expect(torch.stack([got.amin(0), got.amax(0)]), ends, rtol=0, atol=1e-6, what=what)


@pytest.mark.points(0.75)
def test_along_any_dim(student, rng):
    """Any number of axes, and dim counted from either end"""
    cases = (
        ((LENGTH,), 0), ((LENGTH, LENGTH), 1), ((3, LENGTH, 4), 1), ((3, 4, LENGTH), -1),
        ((LENGTH, 2, 3), -3), ((2, LENGTH, 3, 4), -3), ((2, 1, LENGTH, 1), 2),
    )  # fmt: skip
    for shape, dim in cases:
        x = slices(rng, *shape, dim=dim)
        want = min_max_scaled(x, dim)
        what = f"the output for an x with {len(shape)} axes and dim={dim}"
        expect(student.min_max_scale(x, dim), want, rtol=0, atol=LOOSE, what=what)


@pytest.mark.points(0.5)
def test_equal_numbers(student, rng):
    """A slice of equal numbers gives zeros, not NaN"""
    x = slices(rng, LENGTH, 6, dim=0)
    x[:, 1], x[:, 3], x[:, 4] = 0.0, 7.3, -1000.0
    want = min_max_scaled(x, 0)
    expect(student.min_max_scale(x, 0), want, rtol=0, atol=LOOSE)
    x = torch.full((1, 3), 2.5)  # one sample: each slice is one number
    want = min_max_scaled(x, 0)
    expect(student.min_max_scale(x, 0), want, rtol=0, atol=LOOSE)


@pytest.mark.points(0.25)
def test_small_and_large_ranges(student, rng):
    """The range may be tiny, or large: nothing is added to it"""
    spread = torch.tensor([1e-12, 1e-7, 1e-3, 1e4, 1e30], dtype=torch.float64)
    x = (spread * torch.randn(LENGTH, 5, generator=rng, dtype=torch.float64)).float()
    want = min_max_scaled(x, 0)
    expect(student.min_max_scale(x, 0), want, rtol=0, atol=LOOSE)


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula in float32 and float64"""
    for n in (7, 500, 2):
        x = slices(rng, n, 3, dim=0)
        want = min_max_scaled(x, 0)
        expect(student.min_max_scale(x, 0), want, **share(want, STRICT))
    x = slices(rng, 4, 9, dim=1, dtype=torch.float64)
    want = min_max_scaled(x, 1)
    expect(student.min_max_scale(x, 1), want, **share(want, 1e-12))


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtype of x"""
    # The range of these numbers does not fit into float16 (at most 65504).
    huge = (6e4 * (2 * torch.rand(LENGTH, 4, generator=rng) - 1)).half()
    # Rounded to bfloat16 after the subtraction as well as after the division, a third is off.
    uneven = (3 + 100 * torch.rand(LENGTH, 4, generator=rng)).bfloat16()
    uneven[0] = 0.2001
    for x in (huge, uneven):
        want = min_max_scaled(x, 0)
        expect_half(student.min_max_scale(x, 0), want, 1e-3)


@pytest.mark.points(0.25)
def test_inputs(student, rng):
    """x is not modified, and may be transposed, sliced or expanded"""
    transposed = slices(rng, 5, LENGTH, dim=0).t()
    sliced = slices(rng, 6, 2 * LENGTH, dim=1)[1:4, ::2]
    expanded = slices(rng, 1, LENGTH, dim=1).expand(3, LENGTH)
    for kind, x in (("a transposed", transposed), ("a sliced", sliced), ("an expanded", expanded)):
        want, before = min_max_scaled(x, 1), x.clone()
        got = student.min_max_scale(x, 1)
        expect(got, want, rtol=0, atol=LOOSE, what=f"the output for {kind} x")
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
