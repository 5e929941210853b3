"""Hidden tests of `deepnorm_constants(n_layers)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

import solutions.placement.placement as reference
from autograder.suites.placement.inputs import numbers
from autograder.testing.compare import expect


def _wanted(n):
    return torch.tensor(reference.deepnorm_constants(n), dtype=torch.float64)


def _pair(student, n):
    """The two numbers, once it is clear that there are two."""
    got = numbers(student.deepnorm_constants(n))
    expect(got, _wanted(n), rtol=0, atol=1e9, what="the pair of constants")
    return got


@pytest.mark.points(0.75)
def test_alpha(student, rng):
    """alpha is the factor of the stream and grows with the fourth root of the depth"""
    for n in (8, 1, 24, 500):
        want = _wanted(n)[:1]
        expect(_pair(student, n)[:1], want, rtol=1e-9, atol=0, what="alpha")


@pytest.mark.points(0.75)
def test_beta(student, rng):
    """beta is the factor of the initial weights and shrinks with the fourth root of the depth"""
    for n in (2, 1, 24, 500):
        want = _wanted(n)[1:]
        expect(_pair(student, n)[1:], want, rtol=1e-9, atol=0, what="beta")


@pytest.mark.points(0.5)
def test_any_depth(student, rng):
    """Both agree with the formulas for any number of layers"""
    for n in torch.randint(1, 1001, (8,), generator=rng).tolist():
        want = _wanted(n)
        got = numbers(student.deepnorm_constants(n))
        expect(got, want, rtol=1e-9, atol=0, what="the pair of constants")
