"""Hidden tests of `masked_mean_var(x, mask)`, simplest first.

They need nothing from the learner's other exercises.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

import solutions.sequences.sequences as reference
from autograder.suites.sequences.inputs import (
    LOOSE,
    MANY,
    STRICT,
    coarse,
    expect_bfloat16_gradients,
    expect_pair,
    holes,
    in_float32,
    kept,
    littered,
    mask_of,
    padded,
    refuses,
    sentences,
    upstream,
    wanted_statistics,
)
from autograder.suites.vocabulary import COARSE, REACHES, huge, reaches, share
from autograder.testing.compare import expect

NAMES = ("the mean", "the variance")


def _check(student, x, mask, parts=(LOOSE, LOOSE), names=NAMES):
    want = wanted_statistics("masked_mean_var", x, mask)
    expect_pair(student.masked_mean_var(x, mask), want, parts, names)


@pytest.mark.points(1)
def test_mean_without_padding(student, rng):
    """The mean is that of the real tokens: padding enters neither the sum nor the count"""
    for lengths, length, value in (((9, 20, 14, 25), 25, 20.0), ((40, 8, 30), 50, 0.0)):
        mask = mask_of(lengths, length)
        x = sentences(rng, len(lengths), length, 5)
        x[:, 2:5] = 0.0  # real tokens, though they look like padding
        x = padded(x, mask, value)
        _check(student, x, mask, (LOOSE, None))


@pytest.mark.points(1)
def test_variance_without_padding(student, rng):
    """The variance is that of the real tokens, and is taken around their mean"""
    for lengths, length, value in (((9, 20, 14, 25), 25, 20.0), ((40, 8, 30), 50, 0.0)):
        mask = mask_of(lengths, length)
        x = sentences(rng, len(lengths), length, 5)
        x[:, 2:5] = 0.0  # real tokens, though they look like padding
        x = padded(x, mask, value)
        _check(student, x, mask, (None, LOOSE))


@pytest.mark.points(0.5)
def test_all_tokens_together(student, rng):
    """Each feature has one mean and one variance, of all real tokens of all sentences"""
    # Long and short sentences: a mean of means is not the mean. As many features as positions.
    for lengths in ((MANY // 2, 3, 25, 10), (2, MANY // 2, 1, 31)):
        mask = mask_of(lengths, MANY // 2)
        _check(student, padded(sentences(rng, 4, MANY // 2, MANY // 2), mask), mask)


@pytest.mark.points(0.5)
def test_which_variance(student, rng):
    """The variance is the biased one, also for few tokens"""
    # n - 1 instead of n changes the variance by 17 % here.
    mask = mask_of((2, 4), 4)
    _check(student, padded(sentences(rng, 2, 4, 3), mask), mask, (None, 2e-3))


@pytest.mark.points(0.5)
def test_anything_in_the_padding(student, rng):
    """Padding may hold any number, even infinity or NaN, and a real token may be all zeros"""
    mask = mask_of((30, 12, 40), 40)
    x = sentences(rng, 3, 40, 4)
    x[:, 2:9] = 0.0
    for value in (0.0, 1e4, float("nan"), float("inf")):
        what = "a number" if abs(value) < 1e9 else "not a finite number"
        names = [f"{name} where the padding is {what}" for name in NAMES]
        _check(student, littered(x, mask, value) if value else padded(x, mask), mask, names=names)


@pytest.mark.points(0.25)
def test_any_mask_and_any_rank(student, rng):
    """Real tokens may lie anywhere, and x may have any number of axes"""
    for shape in ((6, 40, 3), (2 * MANY, 5), (3, 5, 12, 4)):
        mask = holes(rng, *shape[:-1])
        _check(student, padded(sentences(rng, *shape), mask), mask)
    x = sentences(rng, 4, MANY, 3)
    _check(student, x, torch.ones(4, MANY, dtype=torch.bool))


@pytest.mark.points(0.25)
def test_one_token_and_none(student, rng):
    """One real token has variance 0; a batch without any is refused with a ValueError"""
    x, none = sentences(rng, 2, 3, 4), torch.zeros(2, 3, dtype=torch.bool)
    refused = refuses(lambda: student.masked_mean_var(x, none))
    expect(refused, True, what="the answer to whether no real token raises a ValueError")
    mask = none.clone()
    mask[1, 0] = True
    names = ("the mean of one token", "the variance of one token")
    _check(student, padded(x, mask, -7.0), mask, names=names)


@pytest.mark.points(0.25)
def test_precision(student, rng):
    """Agrees with the formula to float32 and float64 precision, and for a large mean"""
    mask = mask_of((5, 9, 1), 9)
    x = padded(sentences(rng, 3, 9, 4), mask)
    _check(student, x, mask, (STRICT, STRICT))
    _check(student, x.double(), mask, (1e-12, 1e-12))
    # E[x²] - E[x]² is off by up to 8 where 1 is right.
    far, mask = 1e4 + torch.randn(4, 200, 3, generator=rng), mask_of((150, 200, 90, 10), 200)
    _check(student, padded(far, mask), mask, (1e-5, 1e-2))


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed and returned in float32"""
    mask = mask_of((30, 12, 40), 40)
    for x in (coarse(rng, 3, 40, 4), huge(rng, 3, 40, 4)):
        _check(student, padded(x, mask), mask, (1e-3, LOOSE))


@pytest.mark.points(0.25)
def test_inputs_unchanged_and_strided(student, rng):
    """Transposed, sliced and expanded inputs work, and nothing is modified"""
    turned = sentences(rng, 40, 3, 4).transpose(0, 1)
    sliced = sentences(rng, 3, 80, 8)[:, ::2, ::2]
    expanded = sentences(rng, 1, 40, 4).expand(3, 40, 4)
    every_other = mask_of((30, 12, 40, 9, 8, 1), 40)[::2]
    mask = mask_of((30, 12, 40), 40)
    for x, real in ((turned, mask), (sliced, every_other), (expanded, mask)):
        before = [x.clone(), real.clone()]
        _check(student, x, real)
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right gradient for the real tokens, and 0 for the padding"""
    mask = mask_of((30, 12, 40), 40)
    for value in (0.0, float("nan")):
        x = sentences(rng, 3, 40, 4)
        x = littered(x, mask, value) if value else padded(x, mask)
        want = wanted_statistics("masked_mean_var", x, mask)
        g = [upstream(rng, w).to(kept(x.dtype)) for w in want]
        leaf = x.double().requires_grad_()
        right = torch.autograd.grad(
            reference.masked_mean_var(leaf, mask), leaf, [t.double() for t in g]
        )[0].to(x.dtype)
        got, vjp = student.vjp("masked_mean_var", x, mask)
        expect_pair(got, want, (LOOSE, LOOSE), NAMES)
        found = vjp(*g)
        expect(reaches(found, x), [True], what=REACHES.format("x"))
        expect(found[0], right, **share(right, 0.05), what="the gradient for x")
    # float16 and bfloat16 have float32 statistics, and gradients of their own dtype.
    x = padded(sentences(rng, 3, 40, 4, dtype=torch.bfloat16), mask)
    want = wanted_statistics("masked_mean_var", x, mask)
    g = [upstream(rng, w).float() for w in want]
    leaf = x.double().requires_grad_()
    statistics = reference.masked_mean_var(leaf, mask)
    right = torch.autograd.grad(statistics, [leaf], [t.double() for t in g])
    got, vjp = student.vjp("masked_mean_var", x, mask)
    expect_pair(in_float32(got), want, (COARSE, COARSE), [f"{n} in bfloat16" for n in NAMES])
    expect_bfloat16_gradients(vjp(*g), [t.to(x.dtype) for t in right], "x")
