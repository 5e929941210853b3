"""Hidden tests of `saturated_fraction(z, threshold)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import solutions.scaling.scaling as reference
from autograder.testing.compare import expect


def pre_activations(rng: torch.Generator, shape: tuple[int, ...], scale: float) -> Tensor:
    """Random z with more on the positive side, none of which is near a threshold used here."""
    z = scale * (torch.randn(shape, generator=rng, dtype=torch.float64) + 0.3)
    for threshold in (0.01, 0.001, 0.1, 0.2):
        edge = torch.logit(torch.tensor((1 + (1 - 4 * threshold) ** 0.5) / 2).double())
        near = (z.abs() - edge).abs() < 0.02 * edge
        z = torch.where(near, 1.1 * z, z)
    return z.float()


@pytest.mark.points(0.5)
def test_share_of_the_entries(student, rng):
    """The share of the entries at which the slope is small, for inputs of several scales"""
    for scale in (1.0, 5.0, 20.0):
        z = pre_activations(rng, (40, 25), scale)
        want = reference.saturated_fraction(z, 0.01)
        expect(student.saturated_fraction(z, 0.01), want, rtol=0, atol=1e-6, what="the share")


@pytest.mark.points(0.5)
def test_both_ends(student, rng):
    """Large positive and large negative entries count alike"""
    z = pre_activations(rng, (500,), 4.0).abs()
    z[:100] *= -1
    for sign, what in (
        (1, "the share for mostly positive z"),
        (-1, "the share for their negative"),
    ):
        want = reference.saturated_fraction(sign * z, 0.01)
        got = student.saturated_fraction(sign * z, 0.01)
        expect(got, want, rtol=0, atol=1e-6, what=what)


@pytest.mark.points(0.25)
def test_threshold(student, rng):
    """The threshold is compared with the slope, and only smaller slopes count"""
    z = pre_activations(rng, (30, 20), 3.0)
    for threshold in (0.2, 0.1, 0.001):
        want = reference.saturated_fraction(z, threshold)
        got = student.saturated_fraction(z, threshold)
        expect(got, want, rtol=0, atol=1e-6, what="the share")
    z = torch.tensor([0.0, 0.0, 3.0, -2.0])  # the slope at 0 is 0.25 exactly
    want = reference.saturated_fraction(z, 0.25)
    got = student.saturated_fraction(z, 0.25)
    expect(got, want, rtol=0, atol=1e-6, what="the share for a slope equal to the threshold")


@pytest.mark.points(0.25)
def test_shapes(student, rng):
    """z may have any number of axes, and axes of length 1"""
    for shape in ((70,), (2, 3, 15), (1, 90), (3, 1, 10, 4)):
        z = pre_activations(rng, shape, 6.0)
        want = reference.saturated_fraction(z, 0.01)
        got = student.saturated_fraction(z, 0.01)
        expect(got, want, rtol=0, atol=1e-6, what=f"the share for a z with {len(shape)} axes")


@pytest.mark.points(0.25)
def test_far_out(student, rng):
    """The slope is right where sigmoid rounds to 1, and the same for z and -z"""
    z = 8 + 20 * torch.rand(300, generator=rng)  # slopes from 1e-12 to 3e-4
    z = torch.where((z - 23.0259).abs() < 0.05, z + 0.2, z)  # none near the threshold
    z = torch.cat([z, -z[:100], 0.1 + 0.8 * torch.rand(30, generator=rng)])
    want = reference.saturated_fraction(z, 1e-10)
    got = student.saturated_fraction(z, 1e-10)
    expect(got, want, rtol=0, atol=1e-6, what="the share for large z")


@pytest.mark.points(0.25)
def test_dtypes_and_inputs(student, rng):
    """All floating-point dtypes, strided inputs, and z stays as it was"""
    wide = pre_activations(rng, (60, 50), 3.0)
    for z in (wide.double(), wide.half(), wide.bfloat16(), wide.t(), wide[::2, 1::3]):
        before, want = z.clone(), reference.saturated_fraction(z, 0.1)
        got = student.saturated_fraction(z, 0.1)
        expect(got, want, rtol=0, atol=1e-6, what=f"the share for a {str(z.dtype)[6:]} z")
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
    # Thresholds just above the slope at an entry: a slope rounded to a half type is beyond it.
    z = torch.arange(1, 5, 1 / 16).bfloat16()
    for entry in range(3, 60, 8):
        threshold = 1.0005 * float(_slope(z[entry]))
        want = reference.saturated_fraction(z, threshold)
        got = student.saturated_fraction(z, threshold)
        expect(got, want, rtol=0, atol=1e-6, what="the share for a bfloat16 z, to the last entry")


def _slope(z: Tensor) -> Tensor:
    return torch.sigmoid(z.double()) * torch.sigmoid(-z.double())
