"""Hidden tests of `rms_norm_backward(grad_out, x, weight, eps)`, simplest first.

They need nothing from the learner's `rms_norm`.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import solutions.rmsnorm.rmsnorm as reference
from autograder.suites.rmsnorm.inputs import (
    EPS,
    HALF,
    LOOSE,
    STRICT,
    WIDTH,
    gradients,
    positive_weight,
    rows,
    scales,
    upstream,
)
from autograder.suites.vocabulary import expect_half, normal, share
from autograder.testing.compare import expect
from autograder.testing.later import later

NAMES = ("grad_x", "grad_weight")


def _want(grad_out: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, ...]:
    """The right gradients, by autograd through the forward pass in float64."""
    return gradients(lambda x, w: reference.rms_norm(x, w, eps), grad_out, x, weight)


@later
def _two(got: Any) -> Any:
    """`got`, once it is known to be two values."""
    assert isinstance(got, (tuple, list)) and len(got) == 2, (
        "The result is not two values; return grad_x, grad_weight."
    )
    return got


def _expect_both(got: Any, want: tuple[Tensor, ...], part: float, where: str = "") -> None:
    # The simpler one first, so that the first message is about it.
    for i in (1, 0):
        if want[i].dtype in HALF:
            expect_half(_two(got)[i], want[i], part, NAMES[i] + where)
        else:
            expect(_two(got)[i], want[i], **share(want[i], part), what=NAMES[i] + where)


@pytest.mark.points(1)
def test_grad_weight(student, rng):
    """grad_weight: what each weight gets from all the outputs it took part in"""
    x, weight = rows(rng, 6, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    want = _want(g, x, weight, EPS)[1]
    got = student.rms_norm_backward(g, x, weight, EPS)
    expect(_two(got)[1], want, **share(want, LOOSE), what="grad_weight")


@pytest.mark.points(1)
def test_grad_x_with_plain_weight(student, rng):
    """grad_x when every weight is 1: both paths from x to the output"""
    x, weight = rows(rng, 6, WIDTH), torch.ones(WIDTH)
    g = upstream(rng, x)
    want = _want(g, x, weight, EPS)[0]
    got = student.rms_norm_backward(g, x, weight, EPS)
    expect(_two(got)[0], want, **share(want, LOOSE), what="grad_x")


@pytest.mark.points(1)
def test_grad_x_with_weight(student, rng):
    """grad_x for any weight, a weight of 0 included"""
    x, weight = rows(rng, 6, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    want = _want(g, x, weight, EPS)[0]
    got = student.rms_norm_backward(g, x, weight, EPS)
    expect(_two(got)[0], want, **share(want, LOOSE), what="grad_x")


@pytest.mark.points(0.5)
def test_any_number_of_axes(student, rng):
    """Both gradients for one, three and four axes"""
    for shape in ((2, 3, WIDTH), (2, 1, 3, WIDTH), (WIDTH,)):
        x, weight = rows(rng, *shape), positive_weight(rng, WIDTH)
        g = upstream(rng, x)
        want = _want(g, x, weight, EPS)
        got = student.rms_norm_backward(g, x, weight, EPS)
        _expect_both(got, want, LOOSE, f" for an x with {len(shape)} axes")


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps enters as in the forward pass, also for vectors of zeros"""
    x, weight = scales(rng, WIDTH, 3.0, 1e-1, 1e-3, 0.0), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    for eps in (10.0, 1e-2, 1e-6):
        want = _want(g, x, weight, eps)
        got = student.rms_norm_backward(g, x, weight, eps)
        _expect_both(got, want, LOOSE, " for a large eps" if eps > 1 else " for a small eps")


@pytest.mark.points(0.5)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many features"""
    for d in (7, 8, 768, 2, 1):
        x, weight = rows(rng, 3, d), positive_weight(rng, d)
        x[2] = 3e-3 * normal(rng, d)  # a vector that eps rules
        g = upstream(rng, x)
        want = _want(g, x, weight, 0.02)
        got = student.rms_norm_backward(g, x, weight, 0.02)
        expect(_two(got)[1], want[1], **share(want[1], STRICT), what=NAMES[1])
        # With one feature the two terms of grad_x cancel, so their size is the scale;
        # rstd is at most 1 / sqrt(0.02) = 7.
        atol = STRICT * 7 * float((g * weight).abs().max())
        expect(_two(got)[0], want[0], rtol=0, atol=atol, what=NAMES[0])


@pytest.mark.points(0.5)
def test_slope(student, rng):
    """In float64, the gradients are the slopes of the forward pass"""
    step = 1e-4
    x, weight = rows(rng, 6, WIDTH, dtype=torch.float64), positive_weight(rng, WIDTH, torch.float64)
    g, u = upstream(rng, x, torch.float64), normal(rng, 6, WIDTH) + 0.5
    ahead = reference.rms_norm(x + step * u, weight, EPS)
    behind = reference.rms_norm(x - step * u, weight, EPS)
    slope = (g * (ahead - behind)).sum(-1) / (2 * step)
    per_weight = (g * reference.rms_norm(x, torch.ones_like(weight), EPS)).sum(0)
    want = _want(g, x, weight, EPS)[0]
    got = _two(student.rms_norm_backward(g, x, weight, EPS))
    # Forgives no float32 in between.
    expect(got[1], per_weight, **share(per_weight, 1e-10), what="grad_weight in float64")
    # The form of grad_x first: it comes from the learner's code, and is multiplied below.
    expect(got[0], want, rtol=0, atol=1e3, what="grad_x in float64")
    expect((got[0] * u).sum(-1), slope, **share(slope, 1e-6), what="the slope along grad_x")


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """grad_out, x and weight are not modified"""
    x, weight = rows(rng, 6, WIDTH), positive_weight(rng, WIDTH)
    g = upstream(rng, x)
    before = [g.clone(), x.clone(), weight.clone()]
    want = _want(g, x, weight, EPS)
    _expect_both(student.rms_norm_backward(g, x, weight, EPS), want, LOOSE)
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
        want = _want(grad_out, x, weight, EPS)
        _expect_both(student.rms_norm_backward(grad_out, x, weight, EPS), want, LOOSE, where)


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtypes of x and weight"""
    # Squares of these numbers do not fit into float16 (at most 65504).
    x = (1000 * normal(rng, 5, WIDTH)).half()
    # Scaled so that grad_x, about grad_out / 1000, keeps its digits in float16.
    weight, g = positive_weight(rng, WIDTH, torch.float16), 64 * upstream(rng, x, torch.float16)
    want = _want(g, x, weight, EPS)
    _expect_both(student.rms_norm_backward(g, x, weight, EPS), want, LOOSE, " in float16")
    x = rows(rng, 300, WIDTH, dtype=torch.bfloat16)
    for weight_dtype in (torch.bfloat16, torch.float32):
        # A power of two: nothing is rounded, but most of these weights do not fit into float16.
        weight = 2**17 * positive_weight(rng, WIDTH, weight_dtype)
        g = (1e6 * upstream(rng, x)).bfloat16()
        want = _want(g, x, weight, EPS)
        got = student.rms_norm_backward(g, x, weight, EPS)
        _expect_both(got, want, LOOSE, " in bfloat16")
    # With a float32 weight the sum keeps what bfloat16 would round away.
    what = "grad_weight for bfloat16 gradients and a float32 weight"
    expect(got[1], want[1], **share(want[1], STRICT), what=what)
