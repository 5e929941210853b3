"""Hidden tests of `one_pass_var(x)`: right near 0, and wrong where the formula cancels."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from autograder.suites.precision.inputs import LOOSE, STRICT, WIDTH, moments, near, share
from autograder.suites.vocabulary import normal
from autograder.testing.compare import expect

VAR = "the variance"
# The formula in float32 gives exactly this for these numbers, in whatever order they are added.
CANCELLED = [
    (-32.0, (20002.5, 20004.0, 20005.0)),
    (-128.0, (40000.75, 40004.5, 40006.5)),
    (-8.0, (10001.0, 10002.0, 10003.5)),
    (-8.0, (10000.0, 10002.75, 10003.0)),
    (-128.0, (40001.0, 40006.5, 40008.0)),
    (-32.0, (20000.5, 20003.25, 20004.0)),
]
# The same in bfloat16.
CANCELLED_BFLOAT16 = [
    (-256.0, (202.0, 213.0)),
    (-256.0, (203.0, 212.0)),
    (256.0, (204.0, 213.0)),
    (-256.0, (205.0, 210.0)),
]


def cancelled(rng: torch.Generator, rows: list, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The rows in another order, each times a power of two of either sign, and what they give."""
    values, x = torch.tensor([v for v, _ in rows]), torch.tensor([r for _, r in rows])
    n, d = x.shape
    factor = 2.0 ** torch.randint(-3, 4, (n, 1), generator=rng)
    sign = torch.randint(0, 2, (n, 1), generator=rng) * 2 - 1
    order = torch.rand((n, d), generator=rng).argsort(-1)
    x = x.gather(-1, order) * sign * factor
    return x.to(dtype), (values * factor[:, 0] ** 2).to(dtype)


@pytest.mark.points(0.5)
def test_one_vector(student, rng):
    """A single vector of numbers near 0: the mean of the squares minus the square of the mean"""
    for d in (6, 11):
        x = near(rng, d)
        want = moments(x)[1]
        expect(student.one_pass_var(x), want, **share(want, 2e-3), what=VAR)


@pytest.mark.points(0.5)
def test_each_vector_on_its_own(student, rng):
    """In a batch, every vector along the last axis has its own variance"""
    # As many vectors as features: a wrong axis gives the same shape.
    square = near(rng, WIDTH, WIDTH)
    for x in (square, near(rng, 3, 5, WIDTH), square[7:8]):
        want = moments(x)[1]
        expect(student.one_pass_var(x), want, **share(want, LOOSE), what=VAR)


@pytest.mark.points(0.25)
def test_any_number_of_axes(student, rng):
    """x may have one axis, four axes, or axes of length 1"""
    for shape in ((WIDTH,), (2, 3, 4, WIDTH), (2, 1, 1, WIDTH)):
        x = near(rng, *shape)
        want = moments(x)[1]
        what = f"the variance for an x with {len(shape)} axes"
        expect(student.one_pass_var(x), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Numbers near 0: to the precision of float32 and of float64, for few and many features"""
    for d in (7, 8, 768, 2):
        x = near(rng, 3, d)
        want = moments(x)[1]
        # The rounding errors are those of the squares, not of the variance.
        atol = STRICT * float(x.square().mean(-1).max())
        expect(student.one_pass_var(x), want, rtol=0, atol=atol, what=VAR)
    x = near(rng, 3, 9, dtype=torch.float64)
    want = moments(x)[1]
    expect(student.one_pass_var(x), want, rtol=0, atol=1e-11, what=VAR)


@pytest.mark.points(0.75)
def test_cancels_in_float32(student, rng):
    """Numbers far from 0 in float32: as wrong as the formula makes them, and below zero"""
    x, want = cancelled(rng, CANCELLED, torch.float32)
    expect(student.one_pass_var(x), want, rtol=0.3, atol=0, what=VAR)


@pytest.mark.points(0.5)
def test_half_types_are_not_widened(student, rng):
    """float16 and bfloat16: computed and returned as they are, NaN and errors included"""
    x, want = cancelled(rng, CANCELLED_BFLOAT16, torch.bfloat16)
    expect(student.one_pass_var(x), want, rtol=0.3, atol=0, what=VAR)
    # Squares of these numbers do not fit into float16 (at most 65504). In the second the mean of
    # the squares would: it tells whether they were squared in another dtype.
    large = (400 + 5 * normal(rng, 4, 8)).half()
    one_large = torch.cat([large[:, :1], normal(rng, 4, 7).half()], -1)
    for x in (large, one_large):
        want = torch.full((4,), torch.nan).half()
        got = student.one_pass_var(x)
        if isinstance(got, Tensor) and got.is_floating_point():
            got = got.masked_fill(got.isinf(), torch.nan)  # a fused difference is infinite
        expect(got, want, rtol=0, atol=0, what="the float16 variance")
    x = near(rng, 4, WIDTH, dtype=torch.float16)
    want = moments(x)[1].half()
    expect(student.one_pass_var(x), want, **share(want, LOOSE), what="the float16 variance")


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed and sliced inputs give the same as a copy of them, and are not modified"""
    transposed = near(rng, 5, WIDTH).t().contiguous().t()
    sliced = near(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    for kind, x in (("a transposed", transposed), ("a sliced", sliced)):
        before, want = x.clone(), moments(x)[1]
        got = student.one_pass_var(x)
        expect(got, want, **share(want, LOOSE), what=f"the variance for {kind} x")
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
