"""Hidden tests of `running_stat_distance(batches)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.sequences.inputs import (
    LOOSE,
    MANY,
    STRICT,
    coarse,
    expect_pair,
    refuses,
    sentences,
    wanted_statistics,
)
from autograder.suites.vocabulary import huge
from autograder.testing.compare import expect

MEANS = (LOOSE, None)  # the variances are left to other tests
NAMES = ("the distances of the means", "the distances of the variances")


def _batches(rng, *sizes, d=6, dtype=torch.float32):
    """One batch for each size, a number of tokens or a shape; every batch has its own means."""
    shapes = [(n,) if isinstance(n, int) else n for n in sizes]
    return [sentences(rng, *shape, d, dtype=dtype) for shape in shapes]


def _check(student, batches, parts=(LOOSE, LOOSE), names=NAMES):
    want = wanted_statistics("running_stat_distance", batches)
    expect_pair(student.running_stat_distance(batches), want, parts, names)


@pytest.mark.points(1)
def test_two_batches(student, rng):
    """The distance of the means of two batches: the length of the difference, divided by D"""
    # Not a square number of features, nor one: the root of D, D and D² differ.
    for d in (6, 2, 11):
        _check(student, _batches(rng, MANY, MANY, d=d), MEANS)


@pytest.mark.points(0.75)
def test_two_variances(student, rng):
    """The distance of the variances of two batches, in the same measure"""
    for d in (6, 2, 11):
        _check(student, _batches(rng, MANY, MANY, d=d), (None, LOOSE))


@pytest.mark.points(0.75)
def test_running_statistics_follow(student, rng):
    """Nine tenths of the running statistics and one tenth of the batch, in every step"""
    for count in (3, 8):
        _check(student, _batches(rng, *[MANY] * count), MEANS)


@pytest.mark.points(0.5)
def test_compared_before_taken_in(student, rng):
    """Each batch is compared with the statistics before it; the first only starts them"""
    # The same batch until the last one: all distances but the last are 0.
    one, other = _batches(rng, MANY, MANY)
    _check(student, [one, one, one, other], MEANS)
    _check(student, [one, other, other], MEANS)


@pytest.mark.points(0.25)
def test_which_variance(student, rng):
    """The variance is the biased one, also for batches of few tokens"""
    _check(student, _batches(rng, 3, 5, 4, 3), (None, 1e-3))


@pytest.mark.points(0.75)
def test_sentences(student, rng):
    """The tokens of all sentences count together; batches may differ in size and rank"""
    _check(student, _batches(rng, (8, 8), (8, 8), (8, 8), d=8), MEANS)
    _check(student, _batches(rng, (4, 30), (70, 2), (100,), (3, 5, 7)), MEANS)


@pytest.mark.points(0.25)
def test_fewer_than_two_batches(student, rng):
    """Fewer than two batches are refused with a ValueError"""
    (only,) = _batches(rng, MANY)
    for batches in ([], [only]):
        refused = refuses(lambda b=batches: student.running_stat_distance(b))
        what = "the answer to whether fewer than two batches raise a ValueError"
        expect(refused, True, what=what)
    _check(student, _batches(rng, MANY, MANY), MEANS)


@pytest.mark.points(0.5)
def test_precision(student, rng):
    """Agrees with the formula to float32 and float64 precision, and for a large mean"""
    batches = _batches(rng, 7, 12, 9, 30)
    _check(student, batches, (STRICT, STRICT))
    _check(student, [b.double() for b in batches], (1e-12, 1e-12))
    # Variances of 1 and 9 far away from 0: E[x²] - E[x]² is off by up to 8.
    far = [1e4 + s * torch.randn(600, 3, generator=rng) for s in (1, 3, 1)]
    _check(student, far, (0.2, 1e-2))


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed and returned in float32"""
    steps = [coarse(rng, MANY, 4) + m for m in (0.0, 1.0, 3.0)]
    large = [huge(rng, MANY, 4) / s for s in (1.0, 2.0, 1.0)]
    for batches in (steps, large):
        _check(student, batches)
