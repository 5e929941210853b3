"""Hidden tests of `instance_norm(x, weight, bias, eps)`, simplest first.

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
    affine,
    coarse,
    expect_bfloat16_gradients,
    expect_gradients,
    expect_rounded_once,
    images,
    plain,
    spread_rows,
    wanted,
)
from autograder.suites.vocabulary import expect_half, huge, share
from autograder.testing.compare import expect


def _check(student, x, parameters, eps=EPS, part=LOOSE, what="the output"):
    want = wanted("instance_norm", x, *parameters, eps)
    got = student.instance_norm(x, *parameters, eps)
    expect(got, want, **share(want, part), what=what)


@pytest.mark.points(0.5)
def test_few_positions(student, rng):
    """Each channel of each sample gets mean 0 and (biased) variance 1"""
    # n - 1 instead of n changes the result by 10 % here; a misplaced eps of 1e-3 by 0.04 %.
    for shape in ((3, 4, 1, 6), (2, 3, 2, 3)):
        _check(student, images(rng, *shape), plain(shape[1]), part=2e-3)


@pytest.mark.points(1)
def test_each_image_and_channel_on_its_own(student, rng):
    """Statistics go over the positions, not over the batch and not over the channels"""
    # As many samples as channels as rows: statistics of other axes broadcast without an error.
    for shape in ((8, 8, 8, 8), (3, 5, 8, 9), (1, 4, 8, 8), (3, 1, 9, 8)):
        x = images(rng, *shape)
        x = x + 3 * torch.arange(shape[-1])  # so that each column has another mean
        _check(student, x, plain(shape[1]))


@pytest.mark.points(0.5)
def test_any_number_of_positions_axes(student, rng):
    """Sequences (N, C, L) and volumes (N, C, D, H, W) work like images"""
    for shape in ((2, 3, 4, 4, 5), (3, 4, MANY), (MANY, 4, MANY), (2, 3, 1, MANY, 1)):
        what = f"the output for an x with {len(shape)} axes"
        _check(student, images(rng, *shape), plain(shape[1]), what=what)


@pytest.mark.points(0.5)
def test_weight_and_bias(student, rng):
    """The normalized x is multiplied by weight, then bias is added, channel by channel"""
    for shape in ((3, 8, 8, 8), (2, MANY, MANY), (2, 5, 4, 4, 5)):
        weight, bias = affine(rng, shape[1])
        weight[2], bias[1] = 0.0, 0.0
        _check(student, images(rng, *shape), (weight, bias))


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    x = spread_rows(rng, 8 * 8).reshape(1, 5, 8, 8)
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = wanted("instance_norm", x, *plain(5), eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        got = student.instance_norm(x, *plain(5), eps)
        expect(got, want, rtol=LOOSE, atol=2e-3 * float(want.abs().max()), what=what)


@pytest.mark.points(0.25)
def test_equal_numbers(student, rng):
    """A channel of equal numbers, or a single position, gives the bias, not NaN"""
    x = images(rng, 2, 5, 8, 8)
    # Numbers whose sums and means are exact, so that the deviations are exactly 0.
    x[0, 1], x[0, 3], x[1, 4] = 0.0, 7.25, -1024.0
    _check(student, x, affine(rng, 5))
    _check(student, images(rng, 3, 5, 1, 1), affine(rng, 5), what="the output for one position")


@pytest.mark.points(0.25)
def test_precision(student, rng):
    """Agrees with the formula to float32 and float64 precision, and for a large mean"""
    for shape in ((2, 3, 7), (2, 3, 9, 5), (2, 3, 768), (3, 2, 2)):
        x = images(rng, *shape)
        x[1] = 3e-3 * torch.randn(x[1].shape, generator=rng)  # a sample that eps rules
        _check(student, x, affine(rng, shape[1]), 0.02, STRICT)
        wide = affine(rng, shape[1], torch.float64)
        _check(student, x.double(), wide, 0.02, 1e-12, "the output in float64")
    # E[x²] - E[x]² is off by up to 8 where 1 is right.
    x = 1e4 + torch.randn(2, 4, 24, 32, generator=rng)
    _check(student, x, affine(rng, 4), 1e-5, 1e-2, "the output for a large mean")


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, after weight and bias"""
    half, bfloat = torch.float16, torch.bfloat16
    # The dtype of x decides, whatever that of weight and bias.
    for x, parameters in (
        (coarse(rng, 2, 4, 8, 8), affine(rng, 4, bfloat)),
        (huge(rng, 2, 4, 8, 8), affine(rng, 4)),
    ):
        want = wanted("instance_norm", x, *parameters, EPS)
        got = student.instance_norm(x, *parameters, EPS)
        expect_half(got, want, LOOSE, "the output")
    for dtype, of_weight in ((half, half), (bfloat, bfloat), (half, torch.float32)):
        x, parameters = images(rng, 2, 4, 8, 8, dtype=dtype), affine(rng, 4, of_weight)
        want = wanted("instance_norm", x.float(), *parameters, 1e-5)
        expect_rounded_once(student.instance_norm(x, *parameters, 1e-5), want, dtype)


@pytest.mark.points(0.25)
def test_inputs_unchanged_and_strided(student, rng):
    """Channels-last, sliced and expanded inputs work, and nothing is modified"""
    weight, bias = (t[::2] for t in affine(rng, 10))
    channels_last = images(rng, 2, 5, 8, 9).contiguous(memory_format=torch.channels_last)
    sliced = images(rng, 2, 10, 8, 16)[:, ::2, :, ::2]
    expanded = images(rng, 1, 5, MANY).expand(3, 5, MANY)
    for kind, x in (
        ("a channels-last", channels_last),
        ("a sliced", sliced),
        ("an expanded", expanded),
    ):
        before = [x.clone(), weight.clone(), bias.clone()]
        _check(student, x, (weight, bias), what=f"the output for {kind} x")
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradients, through mean and variance too"""
    for shape in ((3, 4, 8, 8), (2, 5, MANY)):
        x, parameters = images(rng, *shape), affine(rng, shape[1])
        expect_gradients(student, rng, "instance_norm", x, *parameters, EPS)
    x, parameters = images(rng, 3, 5, 8, 8), affine(rng, 5)
    expect_bfloat16_gradients(student, rng, "instance_norm", x, *parameters, EPS)
