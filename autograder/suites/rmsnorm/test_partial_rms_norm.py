"""Hidden tests of `partial_rms_norm(x, weight, fraction, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import solutions.rmsnorm.rmsnorm as reference
from autograder.suites.rmsnorm.inputs import (
    EPS,
    LOOSE,
    STRICT,
    WIDTH,
    exact,
    expect_bfloat16_gradients,
    expect_rounded_once,
    gradients,
    rows,
    scales,
    signed,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    expect_bfloat16_output,
    expect_half,
    normal,
    reaches,
    share,
)
from autograder.testing.compare import expect

ONES = torch.ones(WIDTH)


def uneven(x: Tensor) -> Tensor:
    """x with features that grow from the first to the last, so that it matters which are measured.

    No other group of features has the root mean square of the first ones.
    """
    return x * torch.linspace(1, 4, x.shape[-1], dtype=x.dtype)


def want_for(x: Tensor, weight: Tensor, fraction: float, eps: float) -> Tensor:
    return exact(reference.partial_rms_norm, x, weight, fraction, eps)


@pytest.mark.points(1)
def test_first_features_decide(student, rng):
    """All features are divided by the root mean square of the first ones"""
    for fraction in (0.25, 0.5):
        for x in (uneven(rows(rng, WIDTH, WIDTH)), uneven(rows(rng, 2, 3, WIDTH))):
            want = want_for(x, ONES, fraction, EPS)
            got = student.partial_rms_norm(x, ONES, fraction, EPS)
            expect(got, want, **share(want, LOOSE))


@pytest.mark.points(0.75)
def test_how_many_features(student, rng):
    """The number of measured features is rounded down, but at least one"""
    # 4, 2.5, 3.5, 2.75, 0.5 and 5 features; these fractions are exact in binary.
    for d, fraction in ((8, 0.5), (10, 0.25), (7, 0.5), (11, 0.25), (8, 0.0625), (5, 1.0)):
        x, ones = uneven(rows(rng, 4, d)), torch.ones(d)
        x[:, 0] = x[:, 0].abs() + 1  # no tiny divisor, which would hide all other errors
        want = want_for(x, ones, fraction, EPS)
        got = student.partial_rms_norm(x, ones, fraction, EPS)
        where = "less than one feature" if fraction < 0.1 else f"a fraction of {d} features"
        expect(got, want, **share(want, LOOSE), what=f"the output for {where}")


@pytest.mark.points(0.25)
def test_any_number_of_axes(student, rng):
    """x may have one axis, four axes, or axes of length 1"""
    for shape in ((WIDTH,), (2, 3, 4, WIDTH), (2, 1, 1, WIDTH)):
        x = uneven(rows(rng, *shape))
        want = want_for(x, ONES, 0.25, EPS)
        got = student.partial_rms_norm(x, ONES, 0.25, EPS)
        what = f"the output for an x with {len(shape)} axes"
        expect(got, want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.25)
def test_weight(student, rng):
    """The normalized x is multiplied by weight, feature by feature"""
    x, weight = uneven(rows(rng, 5, WIDTH)), signed(rng, WIDTH)
    want = want_for(x, weight, 0.25, EPS)
    got = student.partial_rms_norm(x, weight, 0.25, EPS)
    expect(got, want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """eps is the argument, and is added to the mean square under the root"""
    x = scales(rng, WIDTH, 3.0, 1e-1, 1e-3, 0.0)
    for eps in (10.0, 1e-2, 1e-6):
        want = want_for(x, ONES, 0.25, eps)
        got = student.partial_rms_norm(x, ONES, 0.25, eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        expect(got, want, rtol=LOOSE, atol=2e-3 * float(want.abs().max()), what=what)


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many features"""
    for d, fraction in ((8, 0.5), (768, 0.0625), (12, 0.75), (2, 1.0), (1, 1.0)):
        x, weight = uneven(rows(rng, 3, d)), signed(rng, d)
        x[2] = 3e-3 * normal(rng, d)  # a vector that eps rules
        want = want_for(x, weight, fraction, 0.02)
        got = student.partial_rms_norm(x, weight, fraction, 0.02)
        expect(got, want, **share(want, STRICT))


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, in the dtype of x"""
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (8e3 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half()
    want = want_for(huge, ONES, 0.25, EPS)
    expect_half(student.partial_rms_norm(huge, ONES, 0.25, EPS), want, LOOSE)
    for dtype, of_weight in (
        (torch.float16, torch.float32),
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.bfloat16),
    ):
        x, weight = rows(rng, 8, WIDTH, dtype=dtype), signed(rng, WIDTH, of_weight)
        want = want_for(x.float(), weight, 0.25, 1e-5)
        expect_rounded_once(student.partial_rms_norm(x, weight, 0.25, 1e-5), want, dtype)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    x, weight = rows(rng, 4, 12, dtype=torch.float64), signed(rng, 12, torch.float64)
    want = want_for(x, weight, 0.25, 0.02)
    got = student.partial_rms_norm(x, weight, 0.25, 0.02)
    expect(got, want, **share(want, 1e-12))


@pytest.mark.points(0.25)
def test_inputs_and_strides(student, rng):
    """Transposed and sliced inputs give the same as a copy of them, and are not modified"""
    weight = signed(rng, 2 * WIDTH)[::2]
    transposed = uneven(rows(rng, 5, WIDTH)).t().contiguous().t()
    sliced = uneven(rows(rng, 2, 4, 2 * WIDTH))[:, 1:3, ::2]
    for kind, x in (("a transposed", transposed), ("a sliced", sliced)):
        before = [x.clone(), weight.clone()]
        want = want_for(x, weight, 0.25, EPS)
        got = student.partial_rms_norm(x, weight, 0.25, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradients through your function, through the divisor too"""
    x, weight = uneven(rows(rng, 2, 3, WIDTH)), signed(rng, WIDTH)
    g = upstream(rng, x)
    want = want_for(x, weight, 0.25, EPS)
    for_x, for_weight = gradients(
        lambda x, w: reference.partial_rms_norm(x, w, 0.25, EPS), g, x, weight
    )
    y, vjp = student.vjp("partial_rms_norm", x, weight, 0.25, EPS)
    expect(y, want, **share(want, LOOSE))
    found = vjp(g)
    expect(reaches(found, x, weight), [True] * 2, what=REACHES.format("x and weight"))
    expect(found[1], for_weight, **share(for_weight, LOOSE), what="the gradient for weight")
    expect(found[0], for_x, **share(for_x, LOOSE), what="the gradient for x")


@pytest.mark.points(0.25)
def test_gradient_flows_in_bfloat16(student, rng):
    """Autograd finds its way through your function in bfloat16, too"""
    dtype = torch.bfloat16
    x, weight = uneven(rows(rng, 2, 3, WIDTH, dtype=dtype)), signed(rng, WIDTH, dtype)
    g = upstream(rng, x, dtype)
    want = want_for(x, weight, 0.25, EPS)
    right = gradients(lambda x, w: reference.partial_rms_norm(x, w, 0.25, EPS), g, x, weight)
    y, vjp = student.vjp("partial_rms_norm", x, weight, 0.25, EPS)
    expect_bfloat16_output(y, want)
    expect_bfloat16_gradients(vjp(g), right, "x", "weight")
