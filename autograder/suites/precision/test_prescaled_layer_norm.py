"""Hidden tests of `prescaled_layer_norm(x, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.precision.inputs import (
    EPS,
    LOOSE,
    WIDTH,
    far,
    gradients,
    layer_norm,
    near,
    share,
    upstream,
)
from autograder.suites.vocabulary import REACHES, normal, reaches, uniform
from autograder.testing.compare import expect

BIG = "the output for numbers near the largest of their dtype"


@pytest.mark.points(0.75)
def test_ordinary_numbers(student, rng):
    """Numbers of ordinary size, with any number of axes: layer norm of each vector"""
    square = near(rng, WIDTH, WIDTH)
    for x in (near(rng, 6), square, near(rng, 3, 5, WIDTH), square[7:8], near(rng, 2, 1, 3, WIDTH)):
        want = layer_norm(x, None, None, EPS).float()
        expect(student.prescaled_layer_norm(x, EPS), want, **share(want, LOOSE))


@pytest.mark.points(1)
def test_eps_is_scaled_along(student, rng):
    """eps counts against the variance of x itself, for vectors of many sizes in one batch"""
    spread = torch.tensor([1e3, 50.0, 3.0, 0.3, 1e-2, 1e-3, 1e-5], dtype=torch.float64)[:, None]
    x = (spread * (uniform(rng, -2, 2, 7, 1) + normal(rng, 7, WIDTH))).float()
    for eps in (1e4, 30.0, 0.1, 1e-5, 1e-9):
        want = layer_norm(x, None, None, eps).float()
        got = student.prescaled_layer_norm(x, eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        expect(got, want, rtol=LOOSE, atol=1e-4 * float(want.abs().max()), what=what)


@pytest.mark.points(0.75)
def test_huge_float32(student, rng):
    """float32 numbers whose squares, or sums, are too large for float32, beside small ones"""
    sizes = torch.tensor([1e-2, 1.0, 1e12, 1e30], dtype=torch.float64)[:, None]
    x = (sizes * (2 + 3 * normal(rng, 4, WIDTH))).float()
    want = layer_norm(x, None, None, EPS).float()
    what = "the output for vectors of very different sizes in one batch"
    expect(student.prescaled_layer_norm(x, EPS), want, **share(want, LOOSE), what=what)
    for size in (1e20, 1e30, 1e37):
        x = (size * (2 + 3 * normal(rng, 4, WIDTH))).float()
        x[::2, ::9] = 0.5  # in a vector of large numbers a few may be small
        want = layer_norm(x, None, None, EPS).float()
        what = "the output for numbers whose squares are too large"
        expect(student.prescaled_layer_norm(x, EPS), want, **share(want, LOOSE), what=what)
    x = (1e38 * uniform(rng, 1, 3.3, 4, WIDTH)).float()
    x[1:] *= (-1) ** torch.arange(3)[:, None]
    want = layer_norm(x, None, None, EPS).float()
    expect(student.prescaled_layer_norm(x, EPS), want, **share(want, LOOSE), what=BIG)


@pytest.mark.points(0.25)
def test_huge_float64(student, rng):
    """The same for float64, where nothing wider is left to go to"""
    for size in (1e160, 5e306):
        unit = (2 + 3 * normal(rng, 4, WIDTH)).clamp(-20, 20)
        want = layer_norm(unit, None, None, 0.0)
        got = student.prescaled_layer_norm(size * unit, EPS)
        expect(got, want, **share(want, 1e-6), what=BIG)
    x = near(rng, 3, 9, dtype=torch.float64)
    want = layer_norm(x, None, None, 0.5)
    expect(student.prescaled_layer_norm(x, 0.5), want, **share(want, 1e-12))


@pytest.mark.points(0.5)
def test_zeros_and_constants(student, rng):
    """Vectors of zeros, of tiny numbers, and of one number repeated give zeros, not NaN"""
    # Few bits, so that their mean is exact, divided by the largest or by a power of two.
    for value in (0.0, 2.0**-100, 0.25, 1024.0, 2.0**70, -(2.0**100), 2.0**127, 3 * 2.0**125):
        x = torch.full((3, 8), value)
        want = torch.zeros(3, 8)
        expect(student.prescaled_layer_norm(x, EPS), want, rtol=0, atol=1e-20)
    x = (1e-25 * normal(rng, 3, WIDTH)).float()
    want = torch.zeros(3, WIDTH)
    expect(student.prescaled_layer_norm(x, EPS), want, rtol=0, atol=1e-15)


@pytest.mark.points(0.25)
def test_large_mean_and_last_digits(student, rng):
    """To the last digits, and accurate when the mean is far larger than the spread"""
    for x, part in (
        (near(rng, 3, 7), 2e-5),
        (near(rng, 3, 768), 2e-5),
        (far(rng, 8, WIDTH, 1e4, 1.0, torch.float32), LOOSE),
    ):
        want = layer_norm(x, None, None, EPS).float()
        expect(student.prescaled_layer_norm(x, EPS), want, **share(want, part))
    x = far(rng, 4, WIDTH, 1e8, 1.0, torch.float64)
    want = layer_norm(x, None, None, EPS)
    expect(student.prescaled_layer_norm(x, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradient for x, of whatever size"""
    for size in (0.01, 1.0, 1e12):
        x = (size * near(rng, 3, WIDTH, dtype=torch.float64)).float()
        g = upstream(rng, x)
        want = layer_norm(x, None, None, EPS).float()
        (for_x,) = gradients(lambda x: layer_norm(x, None, None, EPS), g, x)
        y, vjp = student.vjp("prescaled_layer_norm", x, EPS)
        expect(y, want, **share(want, LOOSE))
        found = vjp(g.float())
        expect(reaches(found, x), [True], what=REACHES.format("x"))
        # In units of its own size, so that a wrong gradient is as visible for large numbers.
        got, right = found[0].double() * size, for_x.double() * size
        expect(got, right, **share(right, LOOSE), what="the gradient for x")


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed and sliced inputs give the same as a copy of them, and are not modified"""
    transposed = near(rng, 5, WIDTH).t().contiguous().t()
    sliced = near(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    for kind, x in (("a transposed", transposed), ("a sliced", sliced)):
        before, want = x.clone(), layer_norm(x, None, None, EPS).float()
        got = student.prescaled_layer_norm(x, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
