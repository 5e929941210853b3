"""Hidden tests of `batch_norm_backward(grad_out, x, weight, eps)`, simplest first.

They need nothing from the learner's `batch_norm`.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.suites.batchnorm.inputs import (
    EPS,
    MANY,
    STRICT,
    C,
    after,
    along,
    batch,
    fresh,
    gradients,
    others,
    plain,
    positive_weight,
    upstream,
)
from autograder.suites.vocabulary import expect_half, share
from autograder.testing.compare import expect
from autograder.testing.later import later

# An unbiased variance changes grad_x by up to 1.6 % at MANY values; a wrong term by 10 % and more.
LOOSE = 0.04
NAMES = ("grad_x", "grad_weight", "grad_bias")


@later
def _three(got: Any) -> Any:
    """`got`, once it is known to be three values."""
    assert isinstance(got, (tuple, list)) and len(got) == 3, (
        "The result is not three values; return grad_x, grad_weight, grad_bias."
    )
    return got


def _expect_all(got: Any, want: tuple[Tensor, ...], part: float, where: str = "") -> None:
    # From the simplest to the hardest, so that the first message is about the simplest.
    for i in (2, 1, 0):
        if want[i].dtype in (torch.float16, torch.bfloat16):
            expect_half(_three(got)[i], want[i], part, NAMES[i] + where)
        else:
            expect(_three(got)[i], want[i], **share(want[i], part), what=NAMES[i] + where)


@pytest.mark.points(0.75)
def test_grad_bias(student, rng):
    """grad_bias: what each bias gets from all the outputs it was added to"""
    x, weight = batch(rng, MANY, C), positive_weight(rng)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[2]
    got = student.batch_norm_backward(g, x, weight, EPS)
    expect(_three(got)[2], want, **share(want, STRICT), what="grad_bias")


@pytest.mark.points(1)
def test_grad_weight(student, rng):
    """grad_weight: what each weight gets from all the outputs it took part in"""
    x, weight = batch(rng, MANY, C), positive_weight(rng)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[1]
    got = student.batch_norm_backward(g, x, weight, EPS)
    expect(_three(got)[1], want, **share(want, LOOSE), what="grad_weight")


@pytest.mark.points(1.25)
def test_grad_x_with_plain_weight(student, rng):
    """grad_x when every weight is 1: all three paths from x to the output"""
    x, weight = batch(rng, MANY, C), torch.ones(C)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[0]
    got = student.batch_norm_backward(g, x, weight, EPS)
    expect(_three(got)[0], want, **share(want, LOOSE), what="grad_x")


@pytest.mark.points(0.75)
def test_grad_x_with_weight(student, rng):
    """grad_x for any weight, a weight of 0 included"""
    # As many samples as channels: a weight on the wrong axis broadcasts without an error.
    x, weight = batch(rng, MANY, MANY), positive_weight(rng, MANY)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[0]
    got = student.batch_norm_backward(g, x, weight, EPS)
    expect(_three(got)[0], want, **share(want, LOOSE), what="grad_x")


@pytest.mark.points(0.75)
def test_sequences_and_images(student, rng):
    """All three gradients for three, four and five axes"""
    for shape in ((13, C, 6), (4, 4, 4, 4), (3, C, 4, 6), (2, C, 2, 3, 6)):
        x, weight = batch(rng, *shape), positive_weight(rng, shape[1])
        g = upstream(rng, x)
        want = gradients(g, x, weight, EPS)
        got = student.batch_norm_backward(g, x, weight, EPS)
        _expect_all(got, want, LOOSE, f" for an x with {len(shape)} axes")


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps enters as in the forward pass, also for channels of equal numbers"""
    spread = torch.tensor([3.0, 1e-1, 1e-3, 1e-3, 0.0], dtype=torch.float64)
    noise = torch.randn(MANY, C, generator=rng, dtype=torch.float64)
    x, weight = (0.5 + spread * noise).float(), positive_weight(rng)
    g = upstream(rng, x)
    for eps in (10.0, 1e-2, 1e-6):
        want = gradients(g, x, weight, eps)
        got = student.batch_norm_backward(g, x, weight, eps)
        _expect_all(got, want, LOOSE, " for a large eps" if eps > 1 else " for a small eps")


@pytest.mark.points(0.75)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many values"""
    for shape in ((7, 3), (2, C), (300, 2), (3, 2, 7, 5), (1, C), (5, 1)):
        x, weight = batch(rng, *shape), positive_weight(rng, shape[1])
        # A channel that eps rules, beside others.
        x[:, 1:2] = 3e-3 * torch.randn(x[:, 1:2].shape, generator=rng)
        g = upstream(rng, x)
        want = gradients(g, x, weight, 0.02)
        got = student.batch_norm_backward(g, x, weight, 0.02)
        for i in (2, 1):
            expect(_three(got)[i], want[i], **share(want[i], STRICT), what=NAMES[i])
        # With one or two values the three terms of grad_x cancel, so their size is the scale;
        # rstd is at most 1 / sqrt(0.02) = 7.
        atol = STRICT * 7 * float((g * along(x, weight)).abs().max())
        expect(_three(got)[0], want[0], rtol=0, atol=atol, what="grad_x")


@pytest.mark.points(0.25)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    x, weight = 1e4 + torch.randn(768, C, generator=rng), positive_weight(rng)
    g = upstream(rng, x)
    want = gradients(g, x, weight, 1e-5)
    _expect_all(student.batch_norm_backward(g, x, weight, 1e-5), want, 2e-2)


@pytest.mark.points(0.25)
def test_slope(student, rng):
    """In float64, the gradients are the slopes of the forward pass"""
    step, wide = 1e-4, torch.float64
    x, weight = batch(rng, 16, C, 4, dtype=wide), positive_weight(rng, C, wide)
    zeros = torch.zeros(C, dtype=wide)
    g = upstream(rng, x, wide)
    u = torch.randn(x.shape, generator=rng, dtype=wide) + 0.5
    dims = others(x)

    def forward(v: Tensor, w: Tensor) -> Tensor:
        return after(v, (w, zeros), fresh(C, wide), True)[0]

    slope = (g * (forward(x + step * u, weight) - forward(x - step * u, weight))).sum(dims)
    slope = slope / (2 * step)
    per_weight = (g * forward(x, plain(C, wide)[0])).sum(dims)
    per_bias, want = g.sum(dims), gradients(g, x, weight, EPS)[0]
    got = _three(student.batch_norm_backward(g, x, weight, EPS))
    # Forgives no float32 in between.
    expect(got[2], per_bias, rtol=0, atol=1e-10, what="grad_bias in float64")
    expect(got[1], per_weight, **share(per_weight, LOOSE), what="grad_weight in float64")
    # The form of grad_x first: it comes from the learner's code, and is multiplied below.
    expect(got[0], want, rtol=0, atol=1e3, what="grad_x in float64")
    size = float(got[0].square().sum(dims).sqrt().max())
    expect((got[0] * u).sum(dims), slope, rtol=0, atol=0.06 * size, what="the slope along grad_x")


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """grad_out, x and weight are not modified"""
    x, weight = batch(rng, MANY, C), positive_weight(rng)
    g = upstream(rng, x)
    before = [g.clone(), x.clone(), weight.clone()]
    want = gradients(g, x, weight, EPS)
    _expect_all(student.batch_norm_backward(g, x, weight, EPS), want, LOOSE)
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_strided_inputs(student, rng):
    """Transposed, sliced and expanded inputs and gradients give the same as a copy of them"""
    weight = positive_weight(rng, 2 * C)[::2]
    sliced = batch(rng, 9, 2 * C, 16)[:, ::2, ::2]
    last = torch.channels_last
    image = batch(rng, 4, C, 5, 4).contiguous(memory_format=last)
    table = batch(rng, MANY, C).t().contiguous().t()
    cases = (
        (" for an expanded grad_out", upstream(rng, sliced)[:1].expand(9, C, 8), sliced),
        (
            " for a channels-last grad_out",
            upstream(rng, image).contiguous(memory_format=last),
            image,
        ),
        (" for a transposed grad_out", upstream(rng, table).t().contiguous().t(), table),
    )
    for where, grad_out, x in cases:
        want = gradients(grad_out, x, weight, EPS)
        got = student.batch_norm_backward(grad_out, x, weight, EPS)
        _expect_all(got, want, LOOSE, where)


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtypes of x and weight"""
    x = (200 + 2 * torch.randn(MANY, C, generator=rng)).bfloat16()
    for weight_dtype in (torch.bfloat16, torch.float32):
        # A power of two: nothing is rounded, but most of these weights do not fit into float16.
        weight = 2**17 * positive_weight(rng, C, weight_dtype)
        g = upstream(rng, x, torch.bfloat16)
        want = gradients(g, x, weight, EPS)
        got = student.batch_norm_backward(g, x, weight, EPS)
        _expect_all(got, want, LOOSE, " in bfloat16")
    # With a float32 weight the sums keep what bfloat16 would round away.
    what = "grad_bias for bfloat16 gradients and a float32 weight"
    expect(got[2], want[2], **share(want[2], STRICT), what=what)
    # Squares of these numbers do not fit into float16 (at most 65504).
    x = (1000.0 * torch.randn(MANY, C, generator=rng)).half()
    weight, g = positive_weight(rng, C, torch.float16), upstream(rng, x, torch.float16)
    # Scaled so that grad_x, about grad_out / 1000, keeps its digits in float16.
    g = 64 * g
    want = gradients(g, x, weight, EPS)
    _expect_all(student.batch_norm_backward(g, x, weight, EPS), want, LOOSE, " in float16")
