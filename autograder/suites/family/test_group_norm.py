"""Hidden tests of `group_norm(x, num_groups, weight, bias, eps)`, simplest first.

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
from autograder.testing.verdict import LearnerError


def _check(student, x, groups, parameters, eps=EPS, part=LOOSE, what="the output"):
    want = wanted("group_norm", x, groups, *parameters, eps)
    got = student.group_norm(x, groups, *parameters, eps)
    expect(got, want, **share(want, part), what=what)


@pytest.mark.points(0.5)
def test_a_small_group(student, rng):
    """A few channels and positions get mean 0 and (biased) variance 1 together"""
    # n - 1 instead of n changes the result by 10 % here; a misplaced eps of 1e-3 by 0.04 %.
    for shape in ((3, 6), (2, 4, 3), (2, 4, 1, 3)):
        _check(student, images(rng, *shape), 2, plain(shape[1]), part=4e-3)


@pytest.mark.points(1.25)
def test_neighbours_form_a_group(student, rng):
    """Groups are neighbouring channels; each group of each sample has statistics of its own"""
    # Six channels in two or three groups: two kinds of cut, and G differs from C/G.
    for shape, groups in (
        ((3, 6, 8, 8), 2),
        ((3, 6, 8, 8), 3),
        ((8, 8, 8, 8), 2),
        ((1, 12, 8, 8), 4),
    ):
        x = images(rng, *shape)
        x = x + 3 * torch.arange(shape[-1])  # so that each column has another mean
        what = f"the output for {groups} groups of {shape[1]} channels"
        _check(student, x, groups, plain(shape[1]), what=what)


@pytest.mark.points(0.75)
def test_the_two_ends(student, rng):
    """With one group all channels share statistics, with C groups each has its own"""
    for shape in ((3, 6, 8, 8), (6, 6, 8, 9), (2, 5, MANY)):
        for groups in (1, shape[1]):
            what = "the output for one group" if groups == 1 else "the output for C groups"
            _check(student, images(rng, *shape), groups, plain(shape[1]), what=what)


@pytest.mark.points(0.5)
def test_any_number_of_axes(student, rng):
    """x may have no positions at all (N, C), or be a sequence or a volume"""
    for shape, groups in (
        ((4, 2 * MANY), 2),
        ((MANY, 3 * MANY), 3),
        ((2, 6, MANY), 3),
        ((2, 4, 3, 4, 5), 2),
        ((2, 4 * MANY, 1, 1), 4),
    ):
        what = f"the output for an x with {len(shape)} axes"
        _check(student, images(rng, *shape), groups, plain(shape[1]), what=what)


@pytest.mark.points(0.75)
def test_weight_and_bias(student, rng):
    """The normalized x is multiplied by weight, then bias is added, channel by channel"""
    for shape, groups in (
        ((3, 8, 8, 8), 2),
        ((2, 8, 4, 4), 4),
        ((2, MANY, MANY), 4),
        ((3, 4 * MANY), 2),
    ):
        weight, bias = affine(rng, shape[1])
        weight[2], bias[1] = 0.0, 0.0
        _check(student, images(rng, *shape), groups, (weight, bias), part=0.04)


@pytest.mark.points(0.25)
def test_groups_that_do_not_fit(student, rng):
    """A number of groups that does not divide C is refused with a ValueError"""
    for shape, groups in (((2, 6, MANY), 4), ((2, 6), 5), ((2, 4, 8, 8), 8)):
        refused = False
        try:
            student.group_norm(images(rng, *shape), groups, *plain(shape[1]), EPS)
        except LearnerError as error:
            if error.kind not in ("ValueError", "RuntimeError", "AssertionError"):
                raise
            refused = error.kind == "ValueError"
        what = "the answer to whether groups that do not fit raise a ValueError"
        expect(refused, True, what=what)
    _check(student, images(rng, 2, 6, MANY), 2, plain(6))


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    x = spread_rows(rng, 2 * 8 * 8).reshape(1, 10, 8, 8)
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = wanted("group_norm", x, 5, *plain(10), eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        got = student.group_norm(x, 5, *plain(10), eps)
        expect(got, want, rtol=LOOSE, atol=2e-3 * float(want.abs().max()), what=what)


@pytest.mark.points(0.25)
def test_equal_numbers(student, rng):
    """A group of equal numbers gives the bias, not NaN"""
    x = images(rng, 2, 6, 8, 8)
    # Numbers whose sums and means are exact, so that the deviations are exactly 0.
    x[0, :3], x[1, 3:] = 0.0, -1024.0
    _check(student, x, 2, affine(rng, 6))
    _check(student, images(rng, 3, 5), 5, affine(rng, 5), what="the output for groups of one value")


@pytest.mark.points(0.25)
def test_precision(student, rng):
    """Agrees with the formula to float32 and float64 precision, and for a large mean"""
    for shape, groups in (((2, 6, 7), 3), ((2, 4, 9, 5), 2), ((2, 768), 2), ((3, 4), 2)):
        x = images(rng, *shape)
        x[1] = 3e-3 * torch.randn(x[1].shape, generator=rng)  # a sample that eps rules
        _check(student, x, groups, affine(rng, shape[1]), 0.02, STRICT)
        wide = affine(rng, shape[1], torch.float64)
        _check(student, x.double(), groups, wide, 0.02, 1e-12, "the output in float64")
    # E[x²] - E[x]² is off by up to 8 where 1 is right.
    x = 1e4 + torch.randn(2, 4, 24, 32, generator=rng)
    _check(student, x, 2, affine(rng, 4), 1e-5, 1e-2, "the output for a large mean")


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, after weight and bias"""
    half, bfloat = torch.float16, torch.bfloat16
    # The dtype of x decides, whatever that of weight and bias.
    for x, parameters in (
        (coarse(rng, 2, 4, 8, 8), affine(rng, 4, bfloat)),
        (huge(rng, 2, 4, 8, 8), affine(rng, 4)),
    ):
        want = wanted("group_norm", x, 2, *parameters, EPS)
        expect_half(student.group_norm(x, 2, *parameters, EPS), want, LOOSE, "the output")
    for dtype, of_weight in ((half, half), (bfloat, bfloat), (half, torch.float32)):
        x, parameters = images(rng, 2, 4, 8, 8, dtype=dtype), affine(rng, 4, of_weight)
        want = wanted("group_norm", x.float(), 2, *parameters, 1e-5)
        expect_rounded_once(student.group_norm(x, 2, *parameters, 1e-5), want, dtype)


@pytest.mark.points(0.25)
def test_inputs_unchanged_and_strided(student, rng):
    """Channels-last, sliced and expanded inputs work, and nothing is modified"""
    weight, bias = (t[::2] for t in affine(rng, 12))
    channels_last = images(rng, 2, 6, 8, 9).contiguous(memory_format=torch.channels_last)
    sliced = images(rng, 2, 12, 8, 16)[:, ::2, :, ::2]
    expanded = images(rng, 1, 6, MANY).expand(3, 6, MANY)
    for kind, x in (
        ("a channels-last", channels_last),
        ("a sliced", sliced),
        ("an expanded", expanded),
    ):
        before = [x.clone(), weight.clone(), bias.clone()]
        _check(student, x, 3, (weight, bias), what=f"the output for {kind} x")
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradients, through mean and variance too"""
    for shape in ((3, 4, 8, 8), (2, 6, MANY)):
        x, parameters = images(rng, *shape), affine(rng, shape[1])
        expect_gradients(student, rng, "group_norm", x, 2, *parameters, EPS)
    x, parameters = images(rng, 3, 4, 8, 8), affine(rng, 4)
    expect_bfloat16_gradients(student, rng, "group_norm", x, 2, *parameters, EPS)
