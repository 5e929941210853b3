"""Hidden tests of `layer_norm_backward(grad_out, x, weight, eps)`, simplest first.

They need nothing from the learner's `layer_norm`.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import solutions.layernorm.layernorm as reference
from autograder.suites.layernorm.inputs import (
    EPS,
    STRICT,
    WIDTH,
    expect_slope,
    gradients,
    positive_weight,
    rows,
    upstream,
)
from autograder.suites.vocabulary import expect_half, share
from autograder.testing.compare import expect
from autograder.testing.later import later

# An unbiased variance changes grad_x by up to 1.6 % at D = WIDTH; a wrong term by 10 % and more.
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
    x, weight = rows(rng, 6, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[2]
    got = student.layer_norm_backward(g, x, weight, EPS)
    expect(_three(got)[2], want, **share(want, STRICT), what="grad_bias")


@pytest.mark.points(1)
def test_grad_weight(student, rng):
    """grad_weight: what each weight gets from all the outputs it took part in"""
    x, weight = rows(rng, 6, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[1]
    got = student.layer_norm_backward(g, x, weight, EPS)
    expect(_three(got)[1], want, **share(want, LOOSE), what="grad_weight")


@pytest.mark.points(1)
def test_grad_x_with_plain_weight(student, rng):
    """grad_x when every weight is 1: all three paths from x to the output"""
    x, weight = rows(rng, 6, WIDTH), torch.ones(WIDTH)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[0]
    got = student.layer_norm_backward(g, x, weight, EPS)
    expect(_three(got)[0], want, **share(want, LOOSE), what="grad_x")


@pytest.mark.points(1)
def test_grad_x_with_weight(student, rng):
    """grad_x for any weight, a weight of 0 included"""
    x, weight = rows(rng, 6, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    want = gradients(g, x, weight, EPS)[0]
    got = student.layer_norm_backward(g, x, weight, EPS)
    expect(_three(got)[0], want, **share(want, LOOSE), what="grad_x")


@pytest.mark.points(0.5)
def test_any_number_of_axes(student, rng):
    """All three gradients for one, three and four axes"""
    for shape in ((2, 3, WIDTH), (2, 1, 3, WIDTH), (WIDTH,)):
        x, weight = rows(rng, *shape), positive_weight(rng, WIDTH)
        g = upstream(rng, x)
        want = gradients(g, x, weight, EPS)
        got = student.layer_norm_backward(g, x, weight, EPS)
        _expect_all(got, want, LOOSE, f" for an x with {len(shape)} axes")


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps enters as in the forward pass, also for vectors of equal numbers"""
    spread = torch.tensor([3.0, 1e-1, 1e-3, 0.0], dtype=torch.float64)[:, None]
    noise = torch.randn(4, WIDTH, generator=rng, dtype=torch.float64)
    x, weight = (0.5 + spread * noise).float(), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    for eps in (10.0, 1e-2, 1e-6):
        want = gradients(g, x, weight, eps)
        got = student.layer_norm_backward(g, x, weight, eps)
        _expect_all(got, want, LOOSE, " for a large eps" if eps > 1 else " for a small eps")


@pytest.mark.points(0.75)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many features"""
    for d in (7, 8, 768, 2, 1):
        x, weight = rows(rng, 3, d), positive_weight(rng, d)
        x[2] = 3e-3 * torch.randn(d, generator=rng)  # a vector that eps rules
        g = upstream(rng, x)
        want = gradients(g, x, weight, 0.02)
        got = student.layer_norm_backward(g, x, weight, 0.02)
        for i in (2, 1):
            expect(_three(got)[i], want[i], **share(want[i], STRICT), what=NAMES[i])
        # With one or two features the three terms of grad_x cancel, so their size is the scale;
        # rstd is at most 1 / sqrt(0.02) = 7.
        atol = STRICT * 7 * float((g * weight).abs().max())
        expect(_three(got)[0], want[0], rtol=0, atol=atol, what="grad_x")


@pytest.mark.points(0.25)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    x, weight = 1e4 + torch.randn(4, 768, generator=rng), positive_weight(rng, 768)
    g = upstream(rng, x)
    want = gradients(g, x, weight, 1e-5)
    _expect_all(student.layer_norm_backward(g, x, weight, 1e-5), want, 2e-2)


@pytest.mark.points(0.25)
def test_slope(student, rng):
    """In float64, the gradients are the slopes of the forward pass"""
    step = 1e-4
    x = rows(rng, 6, WIDTH, dtype=torch.float64)
    weight, bias = positive_weight(rng, WIDTH, torch.float64), torch.zeros(WIDTH).double()
    g = upstream(rng, x, torch.float64)
    u = torch.randn(6, WIDTH, generator=rng, dtype=torch.float64) + 0.5
    ahead = reference.layer_norm(x + step * u, weight, bias, EPS)
    behind = reference.layer_norm(x - step * u, weight, bias, EPS)
    slope = (g * (ahead - behind)).sum(-1) / (2 * step)
    per_weight = (g * reference.layer_norm(x, torch.ones_like(weight), bias, EPS)).sum(0)
    per_bias, want = g.sum(0), gradients(g, x, weight, EPS)[0]
    got = _three(student.layer_norm_backward(g, x, weight, EPS))
    # Forgives no float32 in between.
    expect(got[2], per_bias, rtol=0, atol=1e-10, what="grad_bias in float64")
    expect(got[1], per_weight, **share(per_weight, LOOSE), what="grad_weight in float64")
    # The form of grad_x first: it comes from the learner's code, and is multiplied below.
    expect(got[0], want, rtol=0, atol=1e3, what="grad_x in float64")
    expect_slope(got[0], u, slope, 0.06, "the slope along grad_x")


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """grad_out, x and weight are not modified"""
    x, weight = rows(rng, 6, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    before = [g.clone(), x.clone(), weight.clone()]
    want = gradients(g, x, weight, EPS)
    _expect_all(student.layer_norm_backward(g, x, weight, EPS), want, LOOSE)
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_strided_inputs(student, rng):
    """Transposed, sliced and expanded inputs and gradients give the same as a copy of them"""
    weight = positive_weight(rng, 2 * WIDTH)[::2]
    sliced = rows(rng, 6, 2 * WIDTH)[:, ::2]
    transposed = rows(rng, 6, WIDTH).t().contiguous().t()
    g = upstream(rng, sliced)
    cases = (
        (" for an expanded grad_out", g[:1].expand(6, WIDTH), sliced),
        (" for a transposed grad_out", g.t().contiguous().t(), transposed),
    )
    for where, grad_out, x in cases:
        want = gradients(grad_out, x, weight, EPS)
        got = student.layer_norm_backward(grad_out, x, weight, EPS)
        _expect_all(got, want, LOOSE, where)


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtypes of x and weight"""
    x = (200 + 2 * torch.randn(8, WIDTH, generator=rng)).bfloat16()
    for weight_dtype in (torch.bfloat16, torch.float32):
        # A power of two: nothing is rounded, but most of these weights do not fit into float16.
        weight = 2**17 * positive_weight(rng, WIDTH, weight_dtype)
        g = upstream(rng, x, torch.bfloat16)
        want = gradients(g, x, weight, EPS)
        got = student.layer_norm_backward(g, x, weight, EPS)
        _expect_all(got, want, LOOSE, " in bfloat16")
    # With a float32 weight the sums keep what bfloat16 would round away.
    what = "grad_bias for bfloat16 gradients and a float32 weight"
    expect(got[2], want[2], **share(want[2], STRICT), what=what)
    # Squares of these numbers do not fit into float16 (at most 65504).
    x = (1000.0 * torch.randn(8, WIDTH, generator=rng)).half()
    weight, g = positive_weight(rng, WIDTH, torch.float16), upstream(rng, x, torch.float16)
    # Scaled so that grad_x, about grad_out / 1000, keeps its digits in float16.
    g = 64 * g
    want = gradients(g, x, weight, EPS)
    _expect_all(student.layer_norm_backward(g, x, weight, EPS), want, LOOSE, " in float16")
