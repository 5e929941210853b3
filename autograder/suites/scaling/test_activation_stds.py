"""Hidden tests of `activation_stds(depth, width, gain, seed)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

import solutions.scaling.scaling as reference
from autograder.suites.scaling.inputs import form
from autograder.testing.compare import expect

# Forgives an unbiased deviation of at least 128 * 16 numbers, and nothing about the network.
LOOSE = 1e-3


def seeds(rng: torch.Generator, count: int) -> list[int]:
    return torch.randint(1000, 100_000, (count,), generator=rng).tolist()


@pytest.mark.points(1)
def test_growth_per_layer(student, rng):
    """The deviation grows or shrinks per layer as the gain says, for random weights"""
    # Whatever is drawn, the deviation of layer k is the expected one times exp(0.05 k) or so.
    room = 0.1 + 0.12 * torch.arange(1, 10, dtype=torch.float64)
    for gain, seed in zip((0.7, 2**0.5, 2.5), seeds(rng, 3), strict=True):
        want = reference.activation_stds(9, 160, gain, seed)
        got = student.activation_stds(9, 160, gain, seed)
        form(got, want)
        other = student.activation_stds(9, 160, gain, seed + 1)
        form(other, want)
        off = (got / want).log() / room
        expect(off, torch.zeros_like(off), rtol=0, atol=1, what="the growth of the deviations")
        assert not torch.equal(got, other), "Another seed gives the same numbers."


@pytest.mark.points(2)
def test_the_network_of_the_docstring(student, rng):
    """Input, weights and layers are drawn and computed as the docstring says"""
    for depth, width, gain, seed in zip(
        (6, 3, 8), (40, 16, 25), (1.4, 0.5, 1.9), seeds(rng, 3), strict=True
    ):
        want = reference.activation_stds(depth, width, gain, seed)
        got = student.activation_stds(depth, width, gain, seed)
        expect(got, want, rtol=LOOSE, atol=0, what="the deviations")


@pytest.mark.points(0.5)
def test_seed(student, rng):
    """The same seed gives the same numbers, also after other calls"""
    first, second = seeds(rng, 2)
    for seed in (first, second, first, first):
        want = reference.activation_stds(4, 20, 1.2, seed)
        got = student.activation_stds(4, 20, 1.2, seed)
        expect(got, want, rtol=LOOSE, atol=0, what="the deviations")


@pytest.mark.points(0.5)
def test_deep_networks(student, rng):
    """Fifty layers that fade or explode, one layer, and one unit"""
    cases = ((50, 16, 0.4), (50, 16, 4.2), (1, 30, 1.0), (3, 30, 0.0))
    for (depth, width, gain), seed in zip(cases, seeds(rng, 4), strict=True):
        want = reference.activation_stds(depth, width, gain, seed)
        got = student.activation_stds(depth, width, gain, seed)
        what = f"the deviations of {depth} layer" + "s" * (depth > 1)
        expect(got, want, rtol=LOOSE, atol=0, what=what)
    want = reference.activation_stds(1, 1, 1.5, 7)
    got = student.activation_stds(1, 1, 1.5, 7)
    expect(got, want, rtol=0.01, atol=0, what="the deviation of a single unit")


@pytest.mark.points(1)
def test_to_the_last_digits(student, rng):
    """Agrees in float64: the deviation of all entries together, dividing by their number"""
    for depth, width, gain, seed in zip(
        (5, 2, 4), (30, 2, 7), (1.4, 1.0, 1.7), seeds(rng, 3), strict=True
    ):
        want = reference.activation_stds(depth, width, gain, seed)
        got = student.activation_stds(depth, width, gain, seed)
        expect(got, want, rtol=1e-10, atol=0, what="the deviations")
