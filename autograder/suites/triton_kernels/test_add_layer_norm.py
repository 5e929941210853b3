"""Hidden tests of `add_layer_norm(x, residual, weight, bias, eps)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.suites.triton_kernels.inputs import (
    DTYPES,
    EPS,
    LOOSE,
    SECOND_AXIS,
    STRICT,
    WIDTH,
    add_norm,
    close,
    launched,
    layer_norm,
    level,
    moved,
    off_axis,
    parts,
    rewritten,
    rounded_once,
    rows,
    strided,
)
from autograder.suites.vocabulary import affine, normal
from autograder.testing.compare import expect

NAMES = ("y", "s", "mean", "rstd")
HALF = (torch.float16, torch.bfloat16)


def _four(got: Any) -> Any:
    return parts(got, *NAMES)


def _expect(got: Any, want: tuple[Tensor, ...], part: float = LOOSE, where: str = "") -> None:
    # The sum first: everything else is made from it.
    for i in (1, 0, 2, 3):
        close(_four(got)[i], want[i], part, NAMES[i] + where)


@pytest.mark.points(0.5)
def test_sum(student, rng):
    """s is x + residual, rounded once to the dtype of x"""
    for dtype in DTYPES:
        x, residual = rows(rng, 2, WIDTH, dtype=dtype), rows(rng, 2, WIDTH, dtype=dtype)
        want = add_norm(x, residual, None, None, EPS)
        got = student.add_layer_norm(x, residual, None, None, EPS)
        what = f"s for a {str(dtype)[6:]} x"
        expect(_four(got)[1], want[1], rtol=0, atol=1e9, what=what)
        # Whole steps of the dtype would show; a rounding that is just on the edge does not.
        step = float(torch.finfo(dtype).eps)
        expect(got[1].float(), want[1].float(), rtol=step, atol=step, what=what)


@pytest.mark.points(1)
def test_norm_of_the_sum(student, rng):
    """y is the layer norm of the sum, row by row"""
    x, residual = rows(rng, 3, 8), rows(rng, 3, 8)
    want = add_norm(x, residual, None, None, EPS)
    got = student.add_layer_norm(x, residual, None, None, EPS)
    close(_four(got)[0], want[0], 2e-3, "y")


@pytest.mark.points(0.5)
def test_saved_statistics(student, rng):
    """mean and rstd of every row of the sum are returned in float32"""
    for shape in ((2, 2, WIDTH), (WIDTH,)):
        x, residual = rows(rng, *shape), rows(rng, *shape)
        want = add_norm(x, residual, None, None, EPS)
        got = _four(student.add_layer_norm(x, residual, None, None, EPS))
        where = f" for an x of shape {shape}"
        expect(got[2], want[2], rtol=1e-5, atol=1e-5, what="mean" + where)
        expect(got[3], want[3], rtol=1e-5, atol=0, what="rstd" + where)


@pytest.mark.points(0.75)
def test_statistics_see_the_sum_before_rounding(student, rng):
    """y, mean and rstd come from the float32 sum, not from the rounded s"""
    # The residual is so large that a half type rounds most of x away, and its rows are constant:
    # the spread of the sum is that of x.
    for dtype, large in ((torch.bfloat16, 256.0), (torch.float16, 2048.0)):
        x = normal(rng, 3, WIDTH).to(dtype)
        residual = torch.full((3, WIDTH), large, dtype=dtype)
        want = add_norm(x, residual, None, None, EPS)
        got = _four(student.add_layer_norm(x, residual, None, None, EPS))
        where = f" for {str(dtype)[6:]} and a large residual, whose mean is subtracted in float32,"
        close(got[0], want[0], 3e-2, "y" + where)
        expect(got[3], want[3], rtol=2e-2, atol=0, what="rstd" + where)
        # The step is 2: a mean of rounded sums is off by 0.1 and more.
        expect(got[2], want[2], rtol=0, atol=2e-3, what="mean" + where)


@pytest.mark.points(0.5)
def test_any_width(student, rng):
    """Rows of any length: the lanes of the block beyond the row do not count"""
    for d in (1000, 769, 1025, 5, 9000):
        x, residual, (weight, bias) = rows(rng, 2, d), rows(rng, 2, d), affine(rng, d)
        want = add_norm(x, residual, weight, bias, EPS)
        got = student.add_layer_norm(x, residual, weight, bias, EPS)
        _expect(got, want, 5e-3 if d > 5 else 0.3, f" for D = {d}")


@pytest.mark.points(0.25)
def test_weight_and_bias(student, rng):
    """Scaled by weight, then shifted by bias; each may be None"""
    x, residual, (weight, bias) = rows(rng, 2, 12), rows(rng, 2, 12), affine(rng, 12)
    for w, b, where in (
        (weight, bias, ""), (weight, None, " without a bias"), (None, bias, " without a weight"),
    ):  # fmt: skip
        want = add_norm(x, residual, w, b, EPS)
        got = student.add_layer_norm(x, residual, w, b, EPS)
        close(_four(got)[0], want[0], 0.1, "y" + where)


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """Half types are computed in float32; y and s have the dtype of x"""
    # The squares of these do not fit into float16 (at most 65504).
    huge = [(5e3 * normal(rng, 2, WIDTH)).clamp(-3e4, 3e4).half() for _ in range(2)]
    coarse = [(50 + normal(rng, 3, WIDTH)).bfloat16() for _ in range(2)]
    for (x, residual), of_weight in (
        (huge, torch.float16), (coarse, torch.bfloat16), (coarse, torch.float32),
    ):  # fmt: skip
        weight, bias = affine(rng, WIDTH, of_weight)
        want = add_norm(x, residual, weight, bias, EPS)
        got = student.add_layer_norm(x, residual, weight, bias, EPS)
        _expect(got, want, where=f" for a {str(x.dtype)[6:]} x")


@pytest.mark.points(0.25)
def test_any_layout(student, rng):
    """x and residual each have strides of their own, and there may be no rows"""
    layouts = strided(rng, 12)
    for (kind, x), residual in zip(layouts.items(), reversed(layouts.values()), strict=True):
        want = add_norm(x, residual, None, None, EPS)
        got = student.add_layer_norm(x, residual, None, None, EPS)
        _expect(got, want, 0.1, f" for an x {kind}")
    none = torch.zeros(0, 12)
    want = add_norm(none, none, None, None, EPS)
    got = student.add_layer_norm(none, none, None, None, EPS)
    _expect(got, want, where=" for an x of shape (0, 12)")


@pytest.mark.points(0.25)
def test_eps_and_large_mean(student, rng):
    """eps is added inside the root, and a large mean of the sum does no harm"""
    x = (torch.tensor([3.0, 1e-1, 1e-3])[:, None] * normal(rng, 3, WIDTH)).float()
    residual = torch.full((3, WIDTH), 0.25)
    for eps, where in ((0.5, " for a large eps"), (1e-5, " for a small eps")):
        want = add_norm(x, residual, None, None, eps)
        got = _four(student.add_layer_norm(x, residual, None, None, eps))
        expect(got[0], want[0], rtol=LOOSE, atol=1e-4, what="y" + where)
        expect(got[3], want[3], rtol=LOOSE, atol=0, what="rstd" + where)
    x, residual = normal(rng, 2, 1000).float(), torch.full((2, 1000), 1e4)
    want = add_norm(x, residual, None, None, 1e-5)
    got = student.add_layer_norm(x, residual, None, None, 1e-5)
    what = "y for a large mean (is it subtracted before you square?)"
    close(_four(got)[0], want[0], 1.5e-2, what)


@pytest.mark.points(0.25)
def test_inputs_and_far_rows(student, rng):
    """Neither input is modified, and rows may lie more than two thousand million numbers apart"""
    x, residual = (rows(rng, 3, 8, dtype=torch.float16) for _ in range(2))
    before = [x.clone(), residual.clone()]
    want = add_norm(x, residual, None, None, EPS)
    _expect(student.add_layer_norm(x, residual, None, None, EPS), want, 0.1)
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
    got = student.add_layer_norm(student.far_apart(x), student.far_apart(residual), None, None, EPS)
    _expect(got, want, 0.1, " for rows far apart")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, far from 0 too, and rounds y once"""
    for d, eps in ((7, 0.02), (768, 0.3)):
        x, residual = normal(rng, 3, d).float(), normal(rng, 3, d).float()
        weight, bias = affine(rng, d)
        want = add_norm(x, residual, weight, bias, eps)
        _expect(student.add_layer_norm(x, residual, weight, bias, eps), want, STRICT)
    x = level(rng)
    residual = x[:, :1].round().expand(3, WIDTH)
    want = add_norm(x, residual, None, None, EPS)
    got = student.add_layer_norm(x, residual, None, None, EPS)
    close(_four(got)[0], want[0], STRICT, "y for a large mean")
    for dtype in DTYPES[1:]:
        x, (weight, bias) = rows(rng, 3, WIDTH, dtype=dtype), affine(rng, WIDTH)
        residual = torch.zeros_like(x)  # so that s is not rounded: another test is about that
        exact = layer_norm(x, weight, bias, EPS)[0]
        got = student.add_layer_norm(x, residual, weight, bias, EPS)
        rounded_once(_four(got)[0], exact, dtype, f"y for a {str(dtype)[6:]} x")


@pytest.mark.points(0.25)
def test_x_and_residual_are_read_once(student, rng):
    """One kernel in one trip to memory: each input is read once, y and s are written once"""
    beside = []
    for m in (3, 5):
        x, residual = (rows(rng, m, 100, dtype=torch.float16) for _ in range(2))
        want = add_norm(x, residual, None, None, EPS)
        _expect(student.add_layer_norm(x, residual, None, None, EPS), want)
        launches = launched(student)
        if launches is None:
            return
        assert 1.99 < moved(launches, "reads", x) < 2.01, (
            "x and residual are to be read once each; keep their sum in a block until y is stored."
        )
        assert moved(launches, "writes", x) < 2.01 and not rewritten(launches), (
            "Something is written more than once: store s and y once each."
        )
        beside.append(off_axis(launches))
    assert beside[0] == beside[1], SECOND_AXIS
