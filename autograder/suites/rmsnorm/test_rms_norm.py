"""Hidden tests of `rms_norm(x, weight, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

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
    positive_weight,
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


@pytest.mark.points(1)
def test_one_vector(student, rng):
    """A single vector gets the mean square one, and keeps its mean"""
    x, weight = rows(rng, 6), torch.ones(6)
    want = exact(reference.rms_norm, x, weight, EPS)
    expect(student.rms_norm(x, weight, EPS), want, **share(want, 2e-3))


@pytest.mark.points(1)
def test_each_vector_on_its_own(student, rng):
    """In a batch, every vector along the last axis is divided by its own root mean square"""
    # As many vectors as features: statistics that lost their axis broadcast without an error.
    square = rows(rng, WIDTH, WIDTH)
    for x in (square, rows(rng, 3, 5, WIDTH), square[7:8]):
        want = exact(reference.rms_norm, x, ONES, EPS)
        expect(student.rms_norm(x, ONES, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.5)
def test_any_number_of_axes(student, rng):
    """x may have one axis, four axes, or axes of length 1"""
    for shape in ((WIDTH,), (2, 3, 4, WIDTH), (2, 1, 1, WIDTH)):
        x = rows(rng, *shape)
        want = exact(reference.rms_norm, x, ONES, EPS)
        what = f"the output for an x with {len(shape)} axes"
        expect(student.rms_norm(x, ONES, EPS), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.5)
def test_weight(student, rng):
    """The normalized x is multiplied by weight, feature by feature"""
    x, weight = rows(rng, 5, WIDTH), signed(rng, WIDTH)
    weight[2] = 0.0
    want = exact(reference.rms_norm, x, weight, EPS)
    expect(student.rms_norm(x, weight, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is the argument, and is added to the mean square under the root"""
    # Sizes and eps such that for each eps some rows are ruled by it and some hardly see it.
    x = scales(rng, WIDTH, 3.0, 1e-1, 1e-3, 1e-5, 1e-6)
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = exact(reference.rms_norm, x, ONES, eps)
        atol = 2e-3 * float(want.abs().max())
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        expect(student.rms_norm(x, ONES, eps), want, rtol=LOOSE, atol=atol, what=what)


@pytest.mark.points(0.25)
def test_vector_of_zeros(student, rng):
    """A vector of zeros gives zeros, not NaN"""
    x, weight = rows(rng, 6, WIDTH), signed(rng, WIDTH)
    x[1], x[4] = 0.0, 0.0
    want = exact(reference.rms_norm, x, weight, EPS)
    expect(student.rms_norm(x, weight, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many features"""
    for d in (7, 8, 768, 2, 1):
        x, weight = rows(rng, 3, d), signed(rng, d)
        x[2] = 3e-3 * normal(rng, d)  # a vector that eps rules
        want = exact(reference.rms_norm, x, weight, 0.02)
        expect(student.rms_norm(x, weight, 0.02), want, **share(want, STRICT))


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtype of x"""
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (2e4 * normal(rng, 4, WIDTH)).clamp(-6e4, 6e4).half()
    # Squares of these numbers are below the smallest number of float16, and so is 1e-9.
    tiny = (1e-4 * (1 + normal(rng, 4, WIDTH))).half()
    # The dtype of x decides, whatever that of weight.
    for x, weight, eps in (
        (rows(rng, 4, WIDTH, dtype=torch.bfloat16), signed(rng, WIDTH, torch.bfloat16), EPS),
        (huge, signed(rng, WIDTH), EPS),
        (tiny, signed(rng, WIDTH, torch.float16), 1e-9),
    ):
        want = exact(reference.rms_norm, x, weight, eps)
        expect_half(student.rms_norm(x, weight, eps), want, LOOSE)


@pytest.mark.points(0.25)
def test_half_types_rounded_once(student, rng):
    """float16 and bfloat16: rounded once, after weight"""
    half, bfloat = torch.float16, torch.bfloat16
    for dtype, of_weight in ((half, half), (bfloat, bfloat), (half, torch.float32)):
        x, weight = rows(rng, 8, WIDTH, dtype=dtype), signed(rng, WIDTH, of_weight)
        want = exact(reference.rms_norm, x.float(), weight, 1e-5)
        expect_rounded_once(student.rms_norm(x, weight, 1e-5), want, dtype)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    x, weight = rows(rng, 4, 9, dtype=torch.float64), signed(rng, 9, torch.float64)
    x[3] = 3e-3 * normal(rng, 9)  # a vector that eps rules
    want = exact(reference.rms_norm, x, weight, 0.02)
    expect(student.rms_norm(x, weight, 0.02), want, **share(want, 1e-12))


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """x and weight are not modified"""
    x, weight = rows(rng, 5, WIDTH), signed(rng, WIDTH)
    before = [x.clone(), weight.clone()]
    want = exact(reference.rms_norm, x, weight, EPS)
    expect(student.rms_norm(x, weight, EPS), want, **share(want, LOOSE))
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_strided_inputs(student, rng):
    """Transposed, sliced and expanded inputs give the same as a copy of them"""
    weight = signed(rng, 2 * WIDTH)[::2]
    transposed = rows(rng, 5, WIDTH).t().contiguous().t()
    sliced = rows(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    expanded = rows(rng, 1, WIDTH).expand(3, WIDTH)
    for kind, x in (("a transposed", transposed), ("a sliced", sliced), ("an expanded", expanded)):
        want = exact(reference.rms_norm, x, weight, EPS)
        got = student.rms_norm(x, weight, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradients through your function, through the divisor too"""
    x, weight = rows(rng, 2, 3, WIDTH), signed(rng, WIDTH)
    g = upstream(rng, x)
    want = exact(reference.rms_norm, x, weight, EPS)
    for_x, for_weight = gradients(lambda x, w: reference.rms_norm(x, w, EPS), g, x, weight)
    y, vjp = student.vjp("rms_norm", x, weight, EPS)
    expect(y, want, **share(want, LOOSE))
    found = vjp(g)
    expect(reaches(found, x, weight), [True] * 2, what=REACHES.format("x and weight"))
    expect(found[1], for_weight, **share(for_weight, LOOSE), what="the gradient for weight")
    expect(found[0], for_x, **share(for_x, LOOSE), what="the gradient for x")


@pytest.mark.points(0.25)
def test_gradient_flows_in_bfloat16(student, rng):
    """Autograd finds its way through your function in bfloat16, too"""
    dtype = torch.bfloat16
    # Of one sign, mostly: with both, what flows through the divisor is sometimes hardly seen.
    x, weight = rows(rng, 2, 3, WIDTH, dtype=dtype), positive_weight(rng, WIDTH, dtype)
    g = upstream(rng, x, dtype)
    want = exact(reference.rms_norm, x, weight, EPS)
    right = gradients(lambda x, w: reference.rms_norm(x, w, EPS), g, x, weight)
    y, vjp = student.vjp("rms_norm", x, weight, EPS)
    expect_bfloat16_output(y, want)
    expect_bfloat16_gradients(vjp(g), right, "x", "weight")
