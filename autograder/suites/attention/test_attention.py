"""Hidden tests of `attention(q, k, v, key_padding_mask=None)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

import solutions.attention.attention as reference
from autograder.suites.attention.inputs import (
    LOOSE,
    STRICT,
    at_the_end,
    expect_half,
    expect_rounded_once,
    padding,
    sharp,
    soft,
    values,
    wanted,
)
from autograder.suites.vocabulary import (
    COARSE,
    REACHES,
    expect_bfloat16_output,
    normal,
    reaches,
    share,
)
from autograder.testing.compare import expect


def _check(student, q, k, v, *mask, part=LOOSE, what="the output"):
    want = wanted(q, k, v, *mask)
    expect(student.attention(q, k, v, *mask), want, **share(want, part), what=what)


@pytest.mark.points(1.25)
def test_best_key(student, rng):
    """A query gets the value of the key that it fits far better than the others"""
    for b, lq, s, e in ((2, 3, 5, 4), (1, 1, 4, 1), (4, 4, 4, 4), (3, 6, 1, 2)):
        _check(student, *sharp(rng, (b,), lq, s, e))


@pytest.mark.points(1.25)
def test_weights_and_scale(student, rng):
    """Scores are divided by the root of the query's length and turned into weights by softmax"""
    for b, lq, s, d, e in ((2, 3, 5, 16, 4), (5, 5, 5, 4, 4), (1, 7, 3, 64, 2), (2, 2, 4, 1, 3)):
        _check(student, *soft(rng, (b,), lq, s, d, e), None)


@pytest.mark.points(1)
def test_heads(student, rng):
    """With an axis of heads each head of each sentence attends by itself"""
    for b, h, lq, s, e in ((2, 3, 4, 5, 4), (4, 4, 4, 4, 4), (1, 2, 1, 3, 2)):
        _check(student, *sharp(rng, (b, h), lq, s, e), None)


@pytest.mark.points(1.25)
def test_padding(student, rng):
    """Keys that the mask marks as padding get no weight, and the others share all of it"""
    # Equal sizes first: there a mask that lines up with a wrong axis raises no error.
    for b, lq, s, e in ((5, 5, 5, 5), (3, 2, 5, 4), (1, 3, 4, 2)):
        for mask in (padding(rng, b, s), at_the_end([1 + i % (s - 1) for i in range(b)], s)):
            _check(student, *sharp(rng, (b,), lq, s, e), mask)
    _check(student, *sharp(rng, (2,), 3, 4, 4), torch.zeros(2, 4, dtype=torch.bool))


@pytest.mark.points(1)
def test_padding_with_heads(student, rng):
    """The mask of a sentence holds for all of its heads"""
    for b, h, lq, s, e in ((4, 4, 4, 4, 4), (3, 2, 4, 5, 4), (2, 2, 3, 6, 1), (3, 1, 3, 3, 2)):
        _check(student, *sharp(rng, (b, h), lq, s, e), padding(rng, b, s))


@pytest.mark.points(0.75)
def test_content_of_padding(student, rng):
    """What stands at padded places changes nothing, however large the numbers are"""
    for front in ((3,), (2, 2)):
        mask = at_the_end([4, 6, 2][: front[0]], 7)
        q, k, v = soft(rng, front, 5, 7, 16, 4)
        where = mask[:, None, :, None] if len(front) == 2 else mask[..., None]
        _check(student, q, k, v, mask)
        for large in (8e3, -8e8, 1e18):
            k_full = torch.where(where, large * normal(rng, *k.shape).float(), k)
            v_full = torch.where(where, large * (2 + normal(rng, *v.shape).abs()).float(), v)
            _check(student, q, k_full, v_full, mask, what="the output with a large padding")


@pytest.mark.points(0.75)
def test_nothing_but_padding(student, rng):
    """A sentence whose keys are all padding gives zeros, and leaves the others alone"""
    for front, lq in (((3,), 4), ((3, 2), 3), ((3, 3), 3)):
        mask = padding(rng, 3, 5)
        mask[1] = True
        _check(student, *sharp(rng, front, lq, 5, 4), mask)


@pytest.mark.points(0.75)
def test_large_scores(student, rng):
    """Scores far above and far below zero give right weights, not NaN or infinity"""
    q, k, v = soft(rng, (2,), 6, 5, 16, 4)
    # Differences of scores stay; a common part of up to ±20000 is added to all of a row.
    one = torch.tensor([0.0, 1.0, -1.0, 20.0, -20.0, 200.0])[:, None] * torch.ones(2, 6, 1)
    far_q, far_k = torch.cat([q, one], -1), torch.cat([k, 300 * torch.ones(2, 5, 1)], -1)
    _check(student, far_q, far_k, v, part=0.05)
    mask = padding(rng, 2, 5)
    _check(student, far_q, far_k, v, mask, part=0.05, what="the output with padding")


@pytest.mark.points(0.5)
def test_gradients(student, rng):
    """Gradients reach q, k and v, and are right"""
    for front, mask in (((2,), None), ((3,), padding(rng, 3, 5)), ((2, 3), padding(rng, 2, 5))):
        q, k, v = soft(rng, front, 4, 5, 8, 3)
        want, g = wanted(q, k, v, mask), values(rng, *front, 4, 3)
        leaves = [t.double().requires_grad_() for t in (q, k, v)]
        exact = torch.autograd.grad(reference.attention(*leaves, mask), leaves, g)
        y, vjp = student.vjp("attention", q, k, v, mask)
        expect(y, want, **share(want, LOOSE))
        found = vjp(g.float())
        expect(reaches(found, q, k, v), [True] * 3, what=REACHES.format("q, k and v"))
        for i, name in enumerate(("q", "k", "v")):
            right = exact[i].float()
            expect(found[i], right, **share(right, 0.04), what=f"the gradient for {name}")


@pytest.mark.points(0.25)
def test_gradients_in_bfloat16(student, rng):
    """In bfloat16, too, gradients reach q, k and v"""
    dtype = torch.bfloat16
    q, k, v = soft(rng, (2, 3), 4, 5, 8, 3, dtype)
    mask, g = at_the_end([3, 4], 5), values(rng, 2, 3, 4, 3).to(dtype)
    want = wanted(q, k, v, mask)
    leaves = [t.double().requires_grad_() for t in (q, k, v)]
    exact = torch.autograd.grad(reference.attention(*leaves, mask), leaves, g.double())
    y, vjp = student.vjp("attention", q, k, v, mask)
    expect_bfloat16_output(y, want)
    found = vjp(g)
    what = REACHES.format("q, k and v in bfloat16")
    expect(reaches(found, q, k, v), [True] * 3, what=what)
    for i, name in enumerate(("q", "k", "v")):
        expect_half(found[i], exact[i].to(dtype), COARSE, f"the gradient for {name} in bfloat16")


@pytest.mark.points(0.5)
def test_gradients_at_padding(student, rng):
    """Nothing reaches padded keys and values, and no gradient is NaN"""
    for front in ((3,), (3, 2)):
        q, k, v = soft(rng, front, 4, 5, 8, 3)
        mask = padding(rng, 3, 5)
        mask[1] = True
        want, g = wanted(q, k, v, mask), values(rng, *front, 4, 3)
        leaves = [t.double().requires_grad_() for t in (q, k, v)]
        exact = torch.autograd.grad(reference.attention(*leaves, mask), leaves, g)
        y, vjp = student.vjp("attention", q, k, v, mask)
        expect(y, want, **share(want, LOOSE))
        found = vjp(g.float())
        expect(reaches(found, q, k, v), [True] * 3, what=REACHES.format("q, k and v"))
        for i, name in enumerate(("q", "k", "v")):
            right = exact[i].float()
            what = f"the gradient for {name}, with a sentence of padding only"
            expect(found[i], right, **share(right, 0.04), what=what)


@pytest.mark.points(0.5)
def test_dtypes(student, rng):
    """The output has the dtype of q; half types are computed in float32 and rounded once"""
    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = soft(rng, (2, 2), 5, 40, 16, 4, dtype)
        mask = padding(rng, 2, 40)
        # Scores of about ±60 in steps of a bfloat16 are off by 0.25.
        want = wanted((12 * q).float(), k.float(), v.float(), mask)
        expect_rounded_once(student.attention(12 * q, k, v, mask), want, dtype)
    # Products of these numbers do not fit into float16 (at most 65504).
    q, k, v = sharp(rng, (2,), 4, 6, 3)
    q, k, v = (20 * q).half(), (300 * k).half(), v.half()
    want = wanted(q, k, v)
    expect_half(student.attention(q, k, v), want, LOOSE, "the output for large numbers")
    q, k, v = soft(rng, (2,), 3, 5, 16, 4, torch.float64)
    mask = padding(rng, 2, 5)
    _check(student, q, k, v, mask, part=1e-12, what="the output in float64")


@pytest.mark.points(0.25)
def test_last_digits_and_inputs(student, rng):
    """Agrees to float32 precision, for strided inputs too, and changes none of its inputs"""
    for length, s, d, mask in ((6, 6, 32, padding(rng, 2, 6)), (3, 9, 5, None)):
        made = soft(rng, (2, 1), length, s, d, d)
        heads = (t.repeat(1, 3, 1, 1).transpose(1, 2).contiguous() for t in made)
        q, k, v = (t.transpose(1, 2) for t in heads)
        before = [t.clone() for t in (q, k, v)] + ([] if mask is None else [mask.clone()])
        _check(student, q, k, v, mask, part=STRICT)
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
