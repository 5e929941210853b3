"""Hidden tests of `standardize_weight(w, eps)`, simplest first.

They need nothing from the learner's other exercises.
"""

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


def _check(student, w, eps=EPS, part=LOOSE, what="the output"):
    want = wanted("standardize_weight", w, eps)
    expect(student.standardize_weight(w, eps), want, **share(want, part), what=what)


@pytest.mark.points(0.5)
def test_few_inputs(student, rng):
    """The weights of each output get mean 0 and (biased) variance 1"""
    # n - 1 instead of n changes the result by 10 % here; a misplaced eps of 1e-3 by 0.04 %.
    for shape in ((3, 2, 3), (4, 6)):
        _check(student, table(rng, *shape), part=2e-3)


@pytest.mark.points(1)
def test_convolutions(student, rng):
    """Inputs and kernel are averaged over together, for each output channel by itself"""
    # Axes of equal length: statistics that lost their place broadcast without an error.
    for shape in (
        (8, 8, 8),
        (8, 8, 8, 8),
        (6, 8, 3, 3),
        (5, 3, 3, 4, 5),
        (1, 8, 3, 3),
        (4, 1, 8, 8),
    ):
        what = f"the output for a w with {len(shape)} axes"
        _check(student, table(rng, *shape), what=what)


@pytest.mark.points(0.5)
def test_linear(student, rng):
    """The weight of a linear layer is standardized row by row"""
    for shape in ((MANY, MANY), (3, MANY), (1, MANY)):
        _check(student, table(rng, *shape))


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    w = spread_rows(rng, 8 * 8).reshape(5, 4, 4, 4)
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = wanted("standardize_weight", w, eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        got = student.standardize_weight(w, eps)
        expect(got, want, rtol=LOOSE, atol=2e-3 * float(want.abs().max()), what=what)


@pytest.mark.points(0.25)
def test_precision(student, rng):
    """Agrees with the formula to the last digits, for equal weights and large ones too"""
    for shape in ((3, 7), (3, 3, 3, 5), (4, 768)):
        w = table(rng, *shape)
        w[1], w[2] = 3e-3 * torch.randn(w[1].shape, generator=rng), 7.25  # eps rules; all equal
        _check(student, w, 0.02, STRICT)
        _check(student, w.double(), 0.02, 1e-12, "the output in float64")
    # E[w²] - E[w]² is off by up to 8 where 1 is right.
    w = 1e4 + torch.randn(2, 4, 9, 9, generator=rng)
    _check(student, w, 1e-5, 1e-2, "the output for a large mean")


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, returned in the dtype of w"""
    for w in (coarse(rng, 4, 8, 3, 3), huge(rng, 4, 8, 3, 3)):
        want = wanted("standardize_weight", w, EPS)
        expect_half(student.standardize_weight(w, EPS), want, LOOSE, "the output")
    for dtype in (torch.float16, torch.bfloat16):
        w = table(rng, 4, 8, 3, 3, dtype=dtype)
        want = wanted("standardize_weight", w.float(), 1e-5)
        expect_rounded_once(student.standardize_weight(w, 1e-5), want, dtype)


@pytest.mark.points(0.25)
def test_gradient_and_inputs(student, rng):
    """The gradient is right, w is not modified, and strided weights work"""
    for w in (table(rng, MANY, 5).t(), table(rng, 4, 16, 8, 4)[:, ::2, ::2]):
        before = w.clone()
        _check(student, w)
        expect(student.inputs(), [before], rtol=0, atol=0, what="w after the call")
    for shape in ((4, MANY), (4, 8, 3, 3)):
        expect_gradients(student, rng, "standardize_weight", table(rng, *shape), EPS)
    expect_bfloat16_gradients(student, rng, "standardize_weight", table(rng, 4, 8, 3, 3), EPS)
