"""Hidden tests of `masked_batch_norm(x, mask, weight, bias, eps)`, simplest first.

They need nothing from the learner's other exercises. Except where padding is the subject, only the
real tokens are looked at, so that padding that is not 0 costs its own tests only.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import solutions.sequences.sequences as reference
from autograder.suites.sequences.inputs import (
    EPS,
    LOOSE,
    MANY,
    STRICT,
    affine,
    coarse,
    expect_bfloat16_gradients,
    expect_bfloat16_output,
    holes,
    littered,
    mask_of,
    padded,
    refuses,
    sentences,
    upstream,
    wanted_norm,
    wide,
)
from autograder.suites.vocabulary import REACHES, expect_half, huge, plain, reaches, share
from autograder.testing.compare import expect
from autograder.testing.later import later


@later
def real(got: Any, mask: Tensor) -> Any:
    """`got` with zeros at the padding if it has the shape for it; else as it is."""
    fits = isinstance(got, Tensor) and got.dim() > 1 and got.shape[:-1] == mask.shape
    return padded(got, mask) if fits else got


def _check(student, x, mask, parameters, eps=EPS, part=LOOSE, what="the output"):
    want = wanted_norm(x, mask, *parameters, eps)
    got = student.masked_batch_norm(x, mask, *parameters, eps)
    expect(real(got, mask), want, **share(want, part), what=what)


def _sentences(rng, *lengths, d=4, dtype=torch.float32):
    """Zero-padded sentences of these lengths, and their mask."""
    mask = mask_of(lengths, max(lengths))
    return padded(sentences(rng, len(lengths), max(lengths), d, dtype=dtype), mask), mask


@pytest.mark.points(1)
def test_two_sentences(student, rng):
    """The real tokens of a small batch get mean 0 and (biased) variance 1"""
    # n - 1 instead of n changes the result by 9 % here; a misplaced eps of 1e-3 by 0.04 %.
    _check(student, *_sentences(rng, 2, 4, d=3), plain(3), part=4e-3)


@pytest.mark.points(1.5)
def test_statistics_of_the_real_tokens(student, rng):
    """Mean and variance are those of all real tokens together; padding does not count"""
    for lengths in ((9, 20, 14, 25), (3, MANY, 17), (MANY, 2)):
        x, mask = _sentences(rng, *lengths, d=6)
        _check(student, x, mask, plain(6))
    x, mask = sentences(rng, 4, 32, 32), mask_of((32, 3, 25, 10), 32)  # features like positions
    _check(student, padded(x, mask), mask, plain(32))


@pytest.mark.points(0.75)
def test_padding_comes_out_as_zero(student, rng):
    """Padding comes out as exactly 0, whatever bias is"""
    x, mask = _sentences(rng, 30, 12, 40)
    x[:, 2:5] = 0.0  # real tokens, though they look like padding
    outside = ~mask.unsqueeze(-1)
    for value in (0.0, float("nan")):
        x, (weight, bias) = littered(x, mask, value), affine(rng, 4)
        want = wanted_norm(x, mask, weight, bias, EPS)
        got = student.masked_batch_norm(x, mask, weight, bias, EPS)
        expect(real(got, mask), want, **share(want, 0.2), what="the output")
        zero = torch.zeros_like(want)
        got = torch.where(outside, got, zero)
        expect(got, zero, rtol=0, atol=0, what="the output at padding")


@pytest.mark.points(0.75)
def test_weight_and_bias(student, rng):
    """The normalized x is multiplied by weight, then bias is added, feature by feature"""
    for lengths, d in (((30, 12, 40), 4), ((MANY, MANY), MANY), ((5, 70), 5)):
        weight, bias = affine(rng, d)
        weight[2], bias[1] = 0.0, 0.0
        _check(student, *_sentences(rng, *lengths, d=d), (weight, bias), part=0.04)


@pytest.mark.points(0.5)
def test_anything_in_the_padding(student, rng):
    """Padding may hold any number, even infinity or NaN, and a real token may be all zeros"""
    x, mask = _sentences(rng, 30, 12, 40)
    x[:, 2:9] = 0.0
    for value in (0.0, 1e4, float("nan"), float("inf")):
        x = littered(x, mask, value) if value else padded(x, mask)
        _check(student, x, mask, affine(rng, 4), part=0.04)


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    spread = torch.tensor([3.0, 1e-1, 1e-3, 1e-5, 1e-6])
    mask = mask_of((90, 50, 128), 128)
    x = padded(spread * (1 + torch.randn(3, 128, 5, generator=rng)), mask)
    for eps in (10.0, 1e-2, 1e-6, 1e-12):
        want = wanted_norm(x, mask, *plain(5), eps)
        what = "the output for a large eps" if eps > 1 else "the output for a small eps"
        got = student.masked_batch_norm(x, mask, *plain(5), eps)
        atol = 2e-3 * float(want.abs().max())
        expect(real(got, mask), want, rtol=LOOSE, atol=atol, what=what)


@pytest.mark.points(0.25)
def test_any_mask_and_any_rank(student, rng):
    """Real tokens may lie anywhere, and x may have any number of axes"""
    for shape in ((6, 40, 3), (2 * MANY, 5), (3, 5, 12, 4)):
        mask = holes(rng, *shape[:-1])
        _check(student, padded(sentences(rng, *shape), mask), mask, plain(shape[-1]))


@pytest.mark.points(0.25)
def test_no_padding(student, rng):
    """Without padding it is the ordinary batch norm; equal numbers give the bias"""
    x, mask = sentences(rng, 4, MANY, 5), torch.ones(4, MANY, dtype=torch.bool)
    # Numbers whose sums and means are exact, so that the deviations are exactly 0.
    x[..., 0], x[..., 3] = 0.0, -1024.0
    _check(student, x, mask, affine(rng, 5), part=0.04)


@pytest.mark.points(0.25)
def test_fewer_than_two_tokens(student, rng):
    """Fewer than two real tokens are refused with a ValueError; two are enough"""
    x = sentences(rng, 2, 3, 4)
    for places in ((), ((1, 0),)):
        mask = torch.zeros(2, 3, dtype=torch.bool)
        for place in places:
            mask[place] = True
        refused = refuses(lambda m=mask: student.masked_batch_norm(x, m, *plain(4), EPS))
        what = "the answer to whether fewer than two real tokens raise a ValueError"
        expect(refused, True, what=what)
    mask = mask_of((2, 0), 3)
    _check(student, padded(x, mask), mask, plain(4), part=0.6)  # an unbiased variance passes


@pytest.mark.points(0.25)
def test_precision(student, rng):
    """Agrees with the formula to float32 and float64 precision, and for a large mean"""
    x, mask = _sentences(rng, 5, 9, 1)
    x[..., 1] = 3e-3 * torch.randn(3, 9, generator=rng)  # a feature that eps rules
    x, parameters = padded(x, mask), affine(rng, 4)
    _check(student, x, mask, parameters, 0.02, STRICT)
    exact = [t.double() for t in parameters]
    _check(student, x.double(), mask, exact, 0.02, 1e-12, "the output in float64")
    # E[x²] - E[x]² is off by up to 8 where 1 is right.
    far, mask = 1e4 + torch.randn(4, 200, 3, generator=rng), mask_of((150, 200, 90, 10), 200)
    _check(student, padded(far, mask), mask, plain(3), 1e-5, 1e-2, "the output for a large mean")


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, rounded once, after weight and bias"""
    half, bfloat = torch.float16, torch.bfloat16
    mask = mask_of((30, 12, 40), 40)
    # The dtype of x decides, whatever that of weight and bias.
    for x, parameters in (
        (coarse(rng, 3, 40, 4), affine(rng, 4, bfloat)),
        (huge(rng, 3, 40, 4), affine(rng, 4)),
    ):
        x = padded(x, mask)
        want = wanted_norm(x, mask, *parameters, EPS)
        got = student.masked_batch_norm(x, mask, *parameters, EPS)
        expect_half(real(got, mask), want, LOOSE, "the output")
    for dtype, of_weight in ((half, half), (bfloat, bfloat), (half, torch.float32)):
        x, mask = _sentences(rng, 30, 12, 40, dtype=dtype)
        parameters = affine(rng, 4, of_weight)
        want = wanted_norm(x.float(), mask, *parameters, 1e-5)
        got = real(student.masked_batch_norm(x, mask, *parameters, 1e-5), mask)
        expect_half(got, want.to(dtype), LOOSE, "the output")
        # Half a step (eps / 2 of the value), and float32's own error around it.
        half_step = 1.02 * torch.finfo(dtype).eps / 2
        expect(got.float(), want, rtol=half_step, atol=2e-5, what="the output's last digit")


@pytest.mark.points(0.25)
def test_inputs_unchanged_and_strided(student, rng):
    """Transposed, sliced and expanded inputs work, and nothing is modified"""
    weight, bias = (t[::2] for t in affine(rng, 8))
    every_other = mask_of((30, 9, 12, 8, 40, 1), 40)[::2]
    mask = mask_of((30, 12, 40), 40)
    for kind, x, real_ones in (
        ("a transposed", sentences(rng, 40, 3, 4).transpose(0, 1), mask),
        ("a sliced", sentences(rng, 3, 80, 8)[:, ::2, ::2], every_other),
        ("an expanded", sentences(rng, 1, 40, 4).expand(3, 40, 4), mask),
    ):
        before = [x.clone(), real_ones.clone(), weight.clone(), bias.clone()]
        _check(student, x, real_ones, (weight, bias), part=0.04, what=f"the output for {kind} x")
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradients through mean and variance, and none at padding"""
    x, mask = _sentences(rng, 30, 12, 40)
    for value in (0.0, float("nan")):
        x, parameters = littered(x, mask, value) if value else x, affine(rng, 4)
        arguments = (x, mask, *parameters, EPS)
        want = wanted_norm(*arguments)
        g = upstream(rng, want).float()
        leaves = [t.double().requires_grad_() for t in (x, *parameters)]
        y = reference.masked_batch_norm(leaves[0], mask, *leaves[1:], EPS)
        right = torch.autograd.grad(y, leaves, wide(g))
        got, vjp = student.vjp("masked_batch_norm", *arguments)
        expect(real(got, mask), want, **share(want, 0.04))
        found, given = vjp(g), [x, *parameters]
        names = ["x", "weight", "bias"]
        what = REACHES.format(" and ".join(names))
        expect(reaches(found, *given), [True] * 3, what=what)
        for i, (exact, of) in enumerate(zip(right, names, strict=True)):
            part = 0.05 if of == "x" else 0.02
            expect(found[i], exact.float(), **share(exact, part), what=f"the gradient for {of}")


@pytest.mark.points(0.25)
def test_gradient_flows_in_bfloat16(student, rng):
    """Autograd finds its way through your function in bfloat16, too"""
    dtype = torch.bfloat16
    x, mask = _sentences(rng, 30, 12, 40, dtype=dtype)
    parameters = affine(rng, 4, dtype)
    want = wanted_norm(x, mask, *parameters, EPS)
    g = upstream(rng, want).to(dtype)
    leaves = [t.double().requires_grad_() for t in (x, *parameters)]
    y = reference.masked_batch_norm(leaves[0], mask, *leaves[1:], EPS)
    right = [t.to(dtype) for t in torch.autograd.grad(y, leaves, g.double())]
    got, vjp = student.vjp("masked_batch_norm", x, mask, *parameters, EPS)
    expect_bfloat16_output(real(got, mask), want)
    expect_bfloat16_gradients(vjp(g), right, "x", "weight", "bias")
