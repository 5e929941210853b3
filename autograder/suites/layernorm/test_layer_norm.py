"""Hidden tests of `layer_norm(x, weight, bias, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.layernorm.inputs import (
    EPS,
    LOOSE,
    STRICT,
    WIDTH,
    expect_bfloat16_gradients,
    expect_near,
    gradients,
    normalized,
    positive_weight,
    rows,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    affine,
    expect_bfloat16_output,
    expect_half,
    plain,
    reaches,
    share,
)
from autograder.testing.compare import ROUNDED_ONCE, expect


@pytest.mark.points(1)
def test_one_vector(student, rng):
    """A single vector gets mean 0 and (biased) variance 1"""
    # D - 1 instead of D changes the result by 10 % here; a misplaced eps of 1e-3 by 0.04 %.
    x, (weight, bias) = rows(rng, 6), plain(6)
    want = normalized(x, weight, bias, EPS)
    expect(student.layer_norm(x, weight, bias, EPS), want, **share(want, 2e-3))


@pytest.mark.points(1)
def test_each_vector_on_its_own(student, rng):
    """In a batch, every vector along the last axis is normalized by itself"""
    weight, bias = plain(WIDTH)
    # As many vectors as features: statistics that lost their axis broadcast without an error.
    square = rows(rng, WIDTH, WIDTH)
    want = normalized(square, weight, bias, EPS)
    expect(student.layer_norm(square, weight, bias, EPS), want, **share(want, LOOSE))
    batch = rows(rng, 3, 5, WIDTH)
    want = normalized(batch, weight, bias, EPS)
    expect(student.layer_norm(batch, weight, bias, EPS), want, **share(want, LOOSE))
    alone = square[7:8]
    want = normalized(alone, weight, bias, EPS)
    got = student.layer_norm(alone, weight, bias, EPS)
    expect(got, want, **share(want, LOOSE), what="the output for a batch of one")


@pytest.mark.points(0.5)
def test_any_number_of_axes(student, rng):
    """x may have one axis, four axes, or axes of length 1"""
    weight, bias = plain(WIDTH)
    for shape in ((WIDTH,), (2, 3, 4, WIDTH), (2, 1, 1, WIDTH)):
        x = rows(rng, *shape)
        want = normalized(x, weight, bias, EPS)
        got = student.layer_norm(x, weight, bias, EPS)
        what = f"the output for an x with {len(shape)} axes"
        expect(got, want, **share(want, LOOSE), what=what)


@pytest.mark.points(1)
def test_weight_and_bias(student, rng):
    """The normalized x is multiplied by weight, then bias is added, feature by feature"""
    x, (weight, bias) = rows(rng, 5, WIDTH), affine(rng, WIDTH)
    weight[2], bias[5] = 0.0, 0.0
    want = normalized(x, weight, bias, EPS)
    expect(student.layer_norm(x, weight, bias, EPS), want, **share(want, LOOSE))


@pytest.mark.points(1)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    # Spreads and eps such that for each eps some rows are ruled by it and some hardly see it.
    spread = torch.tensor([3.0, 1e-1, 1e-3, 1e-5, 1e-6], dtype=torch.float64)[:, None]
    noise = torch.randn(5, WIDTH, generator=rng, dtype=torch.float64)
    x, (weight, bias) = (spread * (1 + noise)).float(), plain(WIDTH)
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = normalized(x, weight, bias, eps)
        got = student.layer_norm(x, weight, bias, eps)
        atol = 2e-3 * float(want.abs().max())
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        expect(got, want, rtol=LOOSE, atol=atol, what=what)


@pytest.mark.points(0.5)
def test_equal_numbers(student, rng):
    """A vector of equal numbers gives the bias, not NaN"""
    x, (weight, bias) = rows(rng, 6, WIDTH), affine(rng, WIDTH)
    # Numbers whose sums and means are exact, so that the deviations are exactly 0.
    x[1], x[3], x[4] = 0.0, 7.25, -1024.0
    want = normalized(x, weight, bias, EPS)
    expect(student.layer_norm(x, weight, bias, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.5)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many features"""
    for d in (7, 8, 768, 2, 1):
        x, (weight, bias) = rows(rng, 3, d), affine(rng, d)
        x[2] = 3e-3 * torch.randn(d, generator=rng)  # a vector that eps rules
        want = normalized(x, weight, bias, 0.02)
        got = student.layer_norm(x, weight, bias, 0.02)
        expect(got, want, **share(want, STRICT))


@pytest.mark.points(0.5)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    # In float32 the mean itself is known to about 1e-3 here, and E[x²] - E[x]² is off by up to 8
    # where 1 is right. A loop over elements or Welford's method stays below 5e-3 of the largest.
    x = 1e4 + torch.randn(4, 768, generator=rng)
    weight, bias = affine(rng, 768)
    want = normalized(x, weight, bias, 1e-5)
    expect(student.layer_norm(x, weight, bias, 1e-5), want, **share(want, 1e-2))


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtype of x"""
    # bfloat16 steps by 1 at 200: a mean kept in it is off by up to a quarter of the spread.
    coarse = (200 + 2 * torch.randn(8, WIDTH, generator=rng)).bfloat16()
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (2e4 * torch.randn(4, WIDTH, generator=rng)).clamp(-6e4, 6e4).half()
    huge[1] = 1000.0 * (torch.randint(0, 2, (WIDTH,), generator=rng) * 2 - 1).half()
    # The dtype of x decides, whatever that of weight and bias.
    for x, (weight, bias) in (
        (coarse, affine(rng, WIDTH, torch.bfloat16)),
        (huge, affine(rng, WIDTH)),
    ):
        want = normalized(x, weight, bias, EPS)
        got = student.layer_norm(x, weight, bias, EPS)
        expect_half(got, want, LOOSE, "the output")


@pytest.mark.points(0.25)
def test_half_types_rounded_once(student, rng):
    """float16 and bfloat16: rounded once, after weight and bias"""
    half, bfloat = torch.float16, torch.bfloat16
    for dtype, of_weight in ((half, half), (bfloat, bfloat), (half, torch.float32)):
        x, (weight, bias) = rows(rng, 8, WIDTH, dtype=dtype), affine(rng, WIDTH, of_weight)
        want = normalized(x.float(), weight, bias, 1e-5)
        got = student.layer_norm(x, weight, bias, 1e-5)
        expect_half(got, want.to(dtype), LOOSE, "the output")
        # One rounding: half a step (eps / 2 of the value), and float32's own error around it.
        half_step = 1.02 * torch.finfo(dtype).eps / 2
        expect(got.float(), want, rtol=half_step, atol=2e-5, what=ROUNDED_ONCE)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    x, (weight, bias) = rows(rng, 4, 9, dtype=torch.float64), affine(rng, 9, torch.float64)
    x[3] = 3e-3 * torch.randn(9, generator=rng, dtype=torch.float64)  # a vector that eps rules
    want = normalized(x, weight, bias, 0.02)
    expect(student.layer_norm(x, weight, bias, 0.02), want, **share(want, 1e-12))


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """x, weight and bias are not modified"""
    x, (weight, bias) = rows(rng, 5, WIDTH), affine(rng, WIDTH)
    before = [x.clone(), weight.clone(), bias.clone()]
    want = normalized(x, weight, bias, EPS)
    expect(student.layer_norm(x, weight, bias, EPS), want, **share(want, LOOSE))
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_strided_inputs(student, rng):
    """Transposed, sliced and expanded inputs give the same as a copy of them"""
    weight, bias = affine(rng, 2 * WIDTH)
    weight, bias = weight[::2], bias[::2]
    transposed = rows(rng, 5, WIDTH).t().contiguous().t()
    sliced = rows(rng, 2, 4, 2 * WIDTH)[:, 1:3, ::2]
    expanded = rows(rng, 1, WIDTH).expand(3, WIDTH)
    for kind, x in (("a transposed", transposed), ("a sliced", sliced), ("an expanded", expanded)):
        want = normalized(x, weight, bias, EPS)
        got = student.layer_norm(x, weight, bias, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right slope of your function, through mean and variance too"""
    # The slope of the learner's own function along random directions, by central differences.
    # With a step of 1e-2 in rows of spread 2 and more, both the curvature and float32 rounding
    # stay below 1e-3 of the slope.
    step = 1e-2
    x = rows(rng, 6, WIDTH, dtype=torch.float64)
    weight, bias = affine(rng, WIDTH, torch.float64)
    want = normalized(x, weight, bias, EPS)
    g = upstream(rng, x, torch.float64)
    u = torch.randn(6, WIDTH, generator=rng, dtype=torch.float64) + 0.5
    y, vjp = student.vjp("layer_norm", x, weight, bias, EPS)
    expect(y, want, **share(want, LOOSE))
    found = vjp(g)
    expect(reaches(found, x, weight, bias), [True] * 3, what=REACHES.format("x, weight and bias"))
    ahead = student.layer_norm(x + step * u, weight, bias, EPS)
    expect(ahead, normalized(x + step * u, weight, bias, EPS), **share(want, LOOSE))
    behind = student.layer_norm(x - step * u, weight, bias, EPS)
    expect(behind, normalized(x - step * u, weight, bias, EPS), **share(want, LOOSE))
    slope = ((ahead - behind) * g).sum(-1) / (2 * step)
    along = (found[0] * u).sum(-1)
    size = float(g.norm(dim=-1).max())
    expect(along, slope, rtol=5e-3, atol=5e-3 * size, what="the gradient for x")
    per_weight = ((y - bias) * g / weight).sum(0)
    expect_near(found[1], per_weight, 1e-3, "the gradient for weight")
    expect(found[2], g.sum(0), **share(g.sum(0), 1e-3), what="the gradient for bias")


@pytest.mark.points(0.25)
def test_gradient_flows_in_bfloat16(student, rng):
    """Autograd finds its way through your function in bfloat16, too"""
    dtype = torch.bfloat16
    x, (_, bias) = rows(rng, 6, WIDTH, dtype=dtype), affine(rng, WIDTH, dtype)
    # Of one sign, mostly: with both, what flows through the statistics is sometimes hardly seen.
    weight, g = positive_weight(rng, WIDTH, dtype), upstream(rng, x, dtype)
    want, exact = normalized(x, weight, bias, EPS), gradients(g, x, weight, EPS)
    y, vjp = student.vjp("layer_norm", x, weight, bias, EPS)
    expect_bfloat16_output(y, want)
    expect_bfloat16_gradients(vjp(g), exact)
