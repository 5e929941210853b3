"""Hidden tests of `welford(x)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.precision.inputs import LOOSE, WIDTH, expect_pair, far, moments, near
from autograder.suites.vocabulary import normal
from autograder.testing.compare import expect


@pytest.mark.points(1)
def test_one_vector(student, rng):
    """Mean and variance of a single vector"""
    for d in (6, 11, 2):
        x = near(rng, d)
        want = moments(x)
        expect_pair(student.welford(x), want, 2e-3)


@pytest.mark.points(0.75)
def test_each_vector_on_its_own(student, rng):
    """In a batch, every vector along the last axis has its own mean and variance"""
    square = near(rng, 24, 24)
    for x in (square, near(rng, 3, 5, 40), square[7:8]):
        want = moments(x)
        expect_pair(student.welford(x), want, 0.06)


@pytest.mark.points(0.25)
def test_any_number_of_axes(student, rng):
    """x may have four axes, or axes of length 1"""
    for shape in ((2, 3, 4, 40), (2, 1, 1, 40), (40,)):
        x = near(rng, *shape)
        want = moments(x)
        expect_pair(student.welford(x), want, 0.06)


@pytest.mark.points(0.25)
def test_one_feature(student, rng):
    """With one feature the mean is the number itself, and the variance 0"""
    for shape in ((5, 1), (1,)):
        x = near(rng, *shape)
        want = moments(x)
        expect_pair(student.welford(x), want, LOOSE)


@pytest.mark.points(1)
def test_large_mean(student, rng):
    """Stays accurate when the mean is thousands of times larger than the spread"""
    for mean, spread, dtype in (
        (1e4, 1.0, torch.float32),
        (100.0, 0.01, torch.float32),
        (1e9, 1.0, torch.float64),
    ):
        x = far(rng, 20, WIDTH, mean, spread, dtype)
        want = moments(x)
        # Welford rounds its mean after every number, and is less exact than two passes.
        expect_pair(student.welford(x), want, 0.06)


@pytest.mark.points(0.5)
def test_to_the_last_digits(student, rng):
    """To the precision of float32, for few and many features"""
    for d in (7, 8, 300, 3):
        x = near(rng, 3, d)
        want = moments(x)
        expect_pair(student.welford(x), want, 1e-4)


@pytest.mark.points(0.75)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, and both results stay in float32"""
    for x in (
        far(rng, 30, WIDTH, 1500.0, 2.0, torch.float16),
        (2e4 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half(),
        (1e-4 * (1 + normal(rng, 4, WIDTH))).half(),
        far(rng, 4, WIDTH, 1000.0, 30.0, torch.bfloat16),
    ):
        want = moments(x)
        expect_pair(student.welford(x), want, 1e-3)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    x = near(rng, 4, 9, dtype=torch.float64)
    want = moments(x)
    expect_pair(student.welford(x), want, 1e-12)


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed and sliced inputs give the same as a copy of them, and are not modified"""
    transposed = near(rng, 5, WIDTH).t().contiguous().t()
    sliced = near(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    for x in (transposed, sliced):
        before, want = x.clone(), moments(x)
        expect_pair(student.welford(x), want, LOOSE)
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
