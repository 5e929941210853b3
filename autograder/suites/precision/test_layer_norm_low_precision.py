"""Hidden tests of `layer_norm_low_precision(x, weight, bias, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.precision.inputs import (
    EPS,
    LOOSE,
    WIDTH,
    expect_half,
    expect_rounded_once,
    far,
    gradients,
    layer_norm,
    near,
    share,
    signed,
    upstream,
)
from autograder.suites.vocabulary import REACHES, normal, reaches
from autograder.testing.compare import expect

HALF = (torch.float16, torch.bfloat16)


@pytest.mark.points(0.5)
def test_one_vector(student, rng):
    """A single float32 vector gets mean zero and variance one"""
    for d in (6, 11):
        x = near(rng, d)
        want = layer_norm(x, None, None, EPS).float()
        got = student.layer_norm_low_precision(x, None, None, EPS)
        expect(got, want, **share(want, 2e-3))


@pytest.mark.points(0.5)
def test_each_vector_on_its_own(student, rng):
    """Any number of axes: every vector along the last one is normalized by itself"""
    square = near(rng, WIDTH, WIDTH)
    for x in (square, near(rng, 3, 5, WIDTH), square[7:8], near(rng, 2, 1, 3, WIDTH), square[0]):
        want = layer_norm(x, None, None, EPS).float()
        got = student.layer_norm_low_precision(x, None, None, EPS)
        expect(got, want, **share(want, LOOSE))


@pytest.mark.points(1)
def test_weight_and_bias(student, rng):
    """Scale and shift, each of which may be None without the other"""
    for dtype in (torch.float32, *HALF):
        x, weight, bias = near(rng, 5, WIDTH, dtype=dtype), signed(rng, WIDTH), signed(rng, WIDTH)
        for w, b, what in (
            (weight, bias, "with weight and bias"),
            (weight, None, "without a bias"),
            (None, bias, "without a weight"),
        ):
            want = layer_norm(x, w, b, EPS).to(dtype)
            got = student.layer_norm_low_precision(x, w, b, EPS)
            expect_half(got, want, LOOSE, f"the output {what}")


@pytest.mark.points(0.75)
def test_large_numbers(student, rng):
    """float16 numbers whose squares or sums do not fit into float16, and large bfloat16 ones"""
    sign = torch.randint(0, 2, (4, WIDTH), generator=rng) * 2.0 - 1
    for x in (
        (1000 * sign).half(),
        (2e4 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half(),
        (55000 + 3000 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half(),
        (1e15 * sign * (1.5 + normal(rng, 4, WIDTH))).bfloat16(),
    ):
        want = layer_norm(x, None, None, EPS).to(x.dtype)
        got = student.layer_norm_low_precision(x, None, None, EPS)
        expect_half(got, want, LOOSE)


@pytest.mark.points(0.75)
def test_small_numbers(student, rng):
    """Squares, and an eps, that are too small for float16; zeros and constants give zeros"""
    x = (2e-4 * (0.5 + normal(rng, 6, WIDTH))).half()
    x[1], x[4] = 0.0, 0.25
    for eps in (1e-7, 1e-8, 1e-12):  # in float16 the first is 1.2e-7, the others are 0
        want = layer_norm(x, None, None, eps).half()
        got = student.layer_norm_low_precision(x, None, None, eps)
        expect_half(got, want, LOOSE, "the output for a tiny eps")


@pytest.mark.points(0.75)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    for x in (
        far(rng, 8, WIDTH, 1500.0, 30.0, torch.float16),
        far(rng, 8, WIDTH, 1000.0, 30.0, torch.bfloat16),
        far(rng, 8, WIDTH, 1e4, 1.0, torch.float32),
        far(rng, 8, WIDTH, 100.0, 0.01, torch.float32),
    ):
        want = layer_norm(x, None, None, EPS).to(x.dtype)
        got = student.layer_norm_low_precision(x, None, None, EPS)
        expect_half(got, want, LOOSE, "the output for a large mean")


@pytest.mark.points(0.75)
def test_rounded_once(student, rng):
    """float16 and bfloat16: rounded once, after scale and shift"""
    for dtype in HALF:
        x = near(rng, 8, WIDTH, dtype=dtype)
        for of_parameters in (torch.float32, dtype):
            weight, bias = signed(rng, WIDTH, of_parameters), signed(rng, WIDTH, of_parameters)
            for w, b in ((weight, bias), (weight, None), (None, bias)):
                want = layer_norm(x, w, b, EPS)
                expect_rounded_once(student.layer_norm_low_precision(x, w, b, EPS), want, dtype)


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    spread = torch.tensor([3.0, 0.1, 1e-3], dtype=torch.float64)[:, None]
    x = (spread * normal(rng, 3, WIDTH)).half()
    for eps in (10.0, 1e-2, 1e-6):
        want = layer_norm(x, None, None, eps).half()
        got = student.layer_norm_low_precision(x, None, None, eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        expect(got, want, rtol=0, atol=float("inf"), what=what)
        expect(
            got.float(), want.float(), rtol=LOOSE, atol=2e-3 * float(want.abs().max()), what=what
        )


@pytest.mark.points(0.25)
def test_float32_to_the_last_digits(student, rng):
    """A float32 x is computed to its last digits: few and many features, a large mean"""
    for d in (7, 8, 768, 2):
        x, weight, bias = near(rng, 3, d), signed(rng, d), signed(rng, d)
        want = layer_norm(x, weight, bias, 0.02).float()
        got = student.layer_norm_low_precision(x, weight, bias, 0.02)
        expect(got, want, **share(want, 2e-5))
    # Mean and deviations of these numbers are exact in float32, and so is a running mean.
    mean = torch.randint(8000, 16000, (8, 1), generator=rng)
    step = torch.randint(1, 33, (8, 32), generator=rng) / 8
    x = torch.stack([mean + step, mean - step], -1).flatten(-2)
    want = layer_norm(x, None, None, EPS).float()
    got = student.layer_norm_low_precision(x, None, None, EPS)
    expect(got, want, **share(want, 2e-5), what="the output for a large mean")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradients for x, weight and bias"""
    single, half = torch.float32, torch.bfloat16
    for dtype, of_parameters in ((single, single), (half, single), (half, half)):
        x = near(rng, 2, 3, WIDTH, dtype=dtype)
        weight, bias = signed(rng, WIDTH, of_parameters), signed(rng, WIDTH, of_parameters)
        g = upstream(rng, x).to(dtype)
        want = layer_norm(x, weight, bias, EPS).to(dtype)
        right = gradients(lambda *a: layer_norm(*a, EPS), g.double(), x, weight, bias)
        y, vjp = student.vjp("layer_norm_low_precision", x, weight, bias, EPS)
        expect_half(y, want, LOOSE)
        found = vjp(g)
        what = REACHES.format("x, weight and bias")
        expect(reaches(found, x, weight, bias), [True] * 3, what=what)
        for i, name in enumerate(("x", "weight", "bias")):
            expect_half(found[i], right[i], LOOSE, f"the gradient for {name}")


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed and sliced inputs give the same as a copy of them, and are not modified"""
    weight, bias = signed(rng, 2 * WIDTH)[::2], signed(rng, 2 * WIDTH)[1::2]
    for dtype in (torch.float32, torch.float16):
        transposed = near(rng, 5, WIDTH, dtype=dtype).t().contiguous().t()
        sliced = near(rng, 2, 4, 2 * WIDTH, dtype=dtype)[:, 1:3, ::2]
        for kind, x in (("a transposed", transposed), ("a sliced", sliced)):
            before = [x.clone(), weight.clone(), bias.clone()]
            want = layer_norm(x, weight, bias, EPS).to(dtype)
            got = student.layer_norm_low_precision(x, weight, bias, EPS)
            expect_half(got, want, LOOSE, f"the output for {kind} x")
            expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
