"""Hidden tests of `combine_moments(a, b)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.suites.precision.inputs import far, near, piece
from autograder.suites.vocabulary import uniform
from autograder.testing.compare import expect

Moments = tuple[int, Tensor, Tensor]


def _check(got: Any, want: Moments, part: float, what: str) -> None:
    """The form and the count first, then mean and M2, element by element."""
    count, mean, m2 = want
    form = f"what combine_moments returns for {what}"
    expect(got, (float(count), mean, m2), rtol=0, atol=float("inf"), what=form)
    expect(got[0], count, rtol=0, atol=0, what=f"the count of {what}")
    rounding = 8 * torch.finfo(mean.dtype).eps * float(mean.abs().max())
    atol = part * float((m2 / max(count, 1)).max()) ** 0.5 + rounding
    expect(got[1], mean, rtol=0, atol=atol, what=f"the mean of {what}")
    expect(got[2], m2, rtol=part, atol=1e-30, what=f"M2 of {what}")


@pytest.mark.points(0.75)
def test_two_pieces(student, rng):
    """Two pieces of the same length give count, mean and M2 of the whole"""
    for shape in ((4,), (3, 5), (1,)):
        a, b = near(rng, *shape, 6), near(rng, *shape, 6)
        want = piece(torch.cat([a, b], -1))
        got = student.combine_moments(piece(a), piece(b))
        _check(got, want, 1e-3, "two pieces of the same length")


@pytest.mark.points(0.75)
def test_pieces_of_different_lengths(student, rng):
    """A long piece and a short one, a single number included, in either order"""
    for long, short in ((11, 3), (6, 1), (40, 2), (1, 1)):
        a, b = near(rng, 3, long), near(rng, 3, short)
        want = piece(torch.cat([a, b], -1))
        for left, right in ((a, b), (b, a)):
            got = student.combine_moments(piece(left), piece(right))
            _check(got, want, 1e-3, "pieces of different lengths")


@pytest.mark.points(0.75)
def test_many_pieces(student, rng):
    """Many pieces give the same from left to right and as a tree: that of the whole"""
    x = near(rng, 3, 40)
    want = piece(x)
    parts = [piece(p) for p in x.split([7, 1, 12, 3, 9, 8], -1)]
    total = parts[0]
    for n, part in enumerate(parts[1:], 2):
        so_far = piece(x[:, : sum(p[0] for p in parts[:n])])
        total = student.combine_moments(total, part)
        _check(total, so_far, 1e-3, "pieces from left to right")
    pairs = []
    for left, right in zip(parts[::2], parts[1::2], strict=True):
        pairs.append(student.combine_moments(left, right))
        start = sum(p[0] for p in parts[: 2 * len(pairs) - 2])
        _check(pairs[-1], piece(x[:, start : start + left[0] + right[0]]), 1e-3, "pieces of a tree")
    halves = student.combine_moments(pairs[0], pairs[1])
    _check(halves, piece(x[:, :23]), 1e-3, "pieces of a tree")
    got = student.combine_moments(halves, pairs[2])
    _check(got, want, 1e-3, "pieces of a tree")


@pytest.mark.points(0.75)
def test_empty_pieces(student, rng):
    """An empty piece changes nothing, whatever its mean holds; two of them have the count 0"""
    x = near(rng, 3, 5)
    want = piece(x)
    for filling in (0.0, 7.0, torch.nan):
        empty = (0, torch.full((3,), filling), torch.full((3,), filling))
        for left, right in ((piece(x), empty), (empty, piece(x))):
            got = student.combine_moments(left, right)
            _check(got, want, 1e-6, "a piece and an empty one")
    zeros = (0, torch.zeros(3), torch.zeros(3))
    got = student.combine_moments(zeros, zeros)
    _check(got, zeros, 1e-6, "two empty pieces")


@pytest.mark.points(0.5)
def test_large_mean(student, rng):
    """Stays accurate when the mean is thousands of times larger than the spread"""
    for mean, spread, dtype in ((1e4, 1.0, torch.float32), (1e9, 1.0, torch.float64)):
        x = far(rng, 8, 40, mean, spread, dtype)
        want = piece(x)
        got = student.combine_moments(piece(x[:, :25]), piece(x[:, 25:]))
        _check(got, want, 0.03, "pieces far from zero")


@pytest.mark.points(0.25)
def test_dtypes_and_large_counts(student, rng):
    """In the dtype of the pieces, to its last digits, with very large counts too"""
    for dtype, part in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        a, b = piece(near(rng, 4, 9, dtype=dtype)), piece(near(rng, 4, 16, dtype=dtype))
        # As if each number had occurred many times: more than float32 can count one by one.
        times = 2**24 + int(uniform(rng, 1, 99))
        a, b = (times * a[0], a[1], times * a[2]), (times * b[0], b[1], times * b[2])
        share = b[0] / (a[0] + b[0])
        delta = b[1].double() - a[1].double()
        want = (
            a[0] + b[0],
            (a[1].double() + delta * share).to(dtype),
            (a[2].double() + b[2].double() + delta**2 * (a[0] * share)).to(dtype),
        )
        _check(student.combine_moments(a, b), want, part, f"large pieces in {str(dtype)[6:]}")


@pytest.mark.points(0.25)
def test_pieces_are_not_changed(student, rng):
    """Mean and M2 of the two pieces are after the call what they were before"""
    x, y = near(rng, 3, 9), near(rng, 3, 4)
    want = piece(torch.cat([x, y], -1))
    for left, right in ((piece(x), piece(y)), (piece(y), piece(x))):
        before = [t.clone() for t in (*left[1:], *right[1:])]
        _check(student.combine_moments(left, right), want, 1e-3, "two pieces")
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
