"""Hidden tests of `layer_norm_forward(x, weight, bias, eps)`, simplest first."""

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
    close,
    forward,
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
    swapped,
)
from autograder.suites.vocabulary import affine, normal, share
from autograder.testing.compare import expect
from autograder.testing.later import later


@later
def _three(got: Any) -> Any:
    return parts(got, "y", "mean", "rstd")


def _expect_y(got: Any, want: tuple[Tensor, ...], part: float = LOOSE, where: str = "") -> None:
    close(_three(got)[0], want[0], part, "y" + where)


def _expect_all(got: Any, want: tuple[Tensor, ...], part: float = LOOSE, where: str = "") -> None:
    _expect_y(got, want, part, where)
    for i, name in ((1, "mean"), (2, "rstd")):
        expect(got[i], want[i], **share(want[i], part), what=name + where)


@pytest.mark.points(1)
def test_one_row_each(student, rng):
    """Each program normalizes its own row, with the biased variance"""
    # D - 1 instead of D changes the result by 7 % here; a misplaced eps of 1e-3 by 0.04 %.
    x = rows(rng, 3, 8)
    want = forward(x, None, None, EPS)
    _expect_y(student.layer_norm_forward(x, None, None, EPS), want, 2e-3)


@pytest.mark.points(0.75)
def test_saved_statistics(student, rng):
    """mean and rstd of every row are returned in float32, whatever the dtype of x"""
    for dtype in DTYPES:
        x = rows(rng, 2, 2, WIDTH, dtype=dtype)
        want = forward(x, None, None, EPS)
        got = _three(student.layer_norm_forward(x, None, None, EPS))
        where = f" for a {str(dtype)[6:]} x"
        # A mean kept in a half type is off by up to 4e-3, an unbiased rstd by 8e-3.
        expect(got[2], want[2], rtol=2e-4, atol=0, what="rstd" + where)
        expect(got[1], want[1], rtol=1e-5, atol=1e-5, what="mean" + where)


@pytest.mark.points(1)
def test_any_width(student, rng):
    """Rows of any length: the lanes of the block beyond the row do not count"""
    for d in (1000, 769, 1025, 5, 9000):
        x, (weight, bias) = rows(rng, 2, d), affine(rng, d)
        want = forward(x, weight, bias, EPS)
        got = student.layer_norm_forward(x, weight, bias, EPS)
        _expect_all(got, want, 5e-3 if d > 5 else 0.3, f" for D = {d}")


@pytest.mark.points(0.75)
def test_weight_and_bias(student, rng):
    """Scaled by weight, then shifted by bias, feature by feature"""
    x, (weight, bias) = rows(rng, 2, WIDTH), affine(rng, WIDTH)
    want = forward(x, weight, bias, EPS)
    _expect_y(student.layer_norm_forward(x, weight, bias, EPS), want)


@pytest.mark.points(0.5)
def test_without_weight_or_bias(student, rng):
    """weight and bias may each be None"""
    x, (weight, bias) = rows(rng, 2, WIDTH), affine(rng, WIDTH)
    for w, b, where in (
        (weight, None, " without a bias"),
        (None, bias, " without a weight"),
        (None, None, " without weight and bias"),
    ):
        want = forward(x, w, b, EPS)
        _expect_y(student.layer_norm_forward(x, w, b, EPS), want, where=where)


@pytest.mark.points(0.5)
def test_any_number_of_axes_and_rows(student, rng):
    """One axis or three, a single row, no rows at all"""
    weight, bias = affine(rng, WIDTH)
    for shape in ((2, 2, WIDTH), (WIDTH,), (1, WIDTH), (0, WIDTH)):
        x = rows(rng, *shape)
        want = forward(x, weight, bias, EPS)
        got = student.layer_norm_forward(x, weight, bias, EPS)
        _expect_all(got, want, where=f" for an x of shape {shape}")


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is added inside the root, also for rows of equal numbers"""
    spread = torch.tensor([3.0, 1e-1, 1e-3, 0.0], dtype=torch.float64)[:, None]
    x = (0.5 + spread * normal(rng, 4, WIDTH)).float()
    for eps, where in ((0.5, " for a large eps"), (1e-5, " for a small eps")):
        want = forward(x, None, None, eps)
        got = _three(student.layer_norm_forward(x, None, None, eps))
        # Row by row: the first is the largest, and its tolerance would hide the others.
        expect(got[0], want[0], rtol=LOOSE, atol=1e-4, what="y" + where)
        expect(got[2], want[2], rtol=LOOSE, atol=0, what="rstd" + where)
    # With one number in a row, that number is the mean, and y is the bias.
    x, (weight, bias) = rows(rng, 2, 1), affine(rng, 1)
    want = forward(x, weight, bias, 0.5)
    _expect_all(student.layer_norm_forward(x, weight, bias, 0.5), want, 1e-5, " for D = 1")


@pytest.mark.points(0.5)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    # Errors of right float32 kernels stay below 5e-3 of the largest value, Welford's method
    # included. E[x²] - E[x]² is off by 1.4 and more.
    weight, bias = affine(rng, 1000)
    for x in (100 + 0.01 * normal(rng, 2, 1000), 1e4 + normal(rng, 2, 1000)):
        x = x.float()
        want = forward(x, weight, bias, 1e-5)
        got = student.layer_norm_forward(x, weight, bias, 1e-5)
        _expect_y(got, want, 1.5e-2, " for a large mean (is it subtracted before you square?)")


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """Half types are computed in float32, and y has the dtype of x"""
    # Squares of these do not fit into float16 (at most 65504), nor does a sum.
    huge = (2e4 * normal(rng, 2, WIDTH)).clamp(-6e4, 6e4).half()
    huge[1] = 1000.0 * (torch.randint(0, 2, (WIDTH,), generator=rng) * 2 - 1).half()
    # bfloat16 steps by 0.5 at 100: a mean kept in it is off by up to a quarter of the spread.
    coarse = (100 + normal(rng, 3, WIDTH)).bfloat16()
    for x, (weight, bias) in (
        (huge, affine(rng, WIDTH, torch.float16)),
        (coarse, affine(rng, WIDTH, torch.bfloat16)),
        (coarse, affine(rng, WIDTH)),
    ):
        want = forward(x, weight, bias, EPS)
        got = student.layer_norm_forward(x, weight, bias, EPS)
        _expect_y(got, want, where=f" for a {str(x.dtype)[6:]} x")


@pytest.mark.points(0.5)
def test_any_layout(student, rng):
    """Rows that are parts of wider rows, transposed, repeated"""
    weight, bias = affine(rng, 12)
    for kind, x in (strided(rng, 12) | swapped(rng, 12)).items():
        want = forward(x, weight, bias, EPS)
        got = student.layer_norm_forward(x, weight, bias, EPS)
        _expect_all(got, want, 0.1, f" for an x {kind}")


@pytest.mark.points(0.25)
def test_rows_far_apart(student, rng):
    """Rows that lie more than two thousand million numbers apart"""
    x, (weight, bias) = rows(rng, 3, 8, dtype=torch.float16), affine(rng, 8)
    want = forward(x, weight, bias, EPS)
    got = student.layer_norm_forward(student.far_apart(x), weight, bias, EPS)
    _expect_all(got, want, 0.1, " for rows far apart")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, far from 0 too, and rounds y once"""
    for d, eps in ((7, 0.02), (768, 0.3)):
        x, (weight, bias) = normal(rng, 3, d).float(), affine(rng, d)
        x[2] *= 3e-3  # a row that eps rules
        want = forward(x, weight, bias, eps)
        _expect_all(student.layer_norm_forward(x, weight, bias, eps), want, STRICT)
    x = level(rng)
    want = forward(x, None, None, EPS)
    _expect_y(student.layer_norm_forward(x, None, None, EPS), want, STRICT, " for a large mean")
    for dtype in DTYPES[1:]:
        x, (weight, bias) = rows(rng, 3, WIDTH, dtype=dtype), affine(rng, WIDTH)
        exact = layer_norm(x, weight, bias, EPS)[0]
        got = student.layer_norm_forward(x, weight, bias, EPS)
        rounded_once(_three(got)[0], exact, dtype, f"y for a {str(dtype)[6:]} x")


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """x, weight and bias are not modified"""
    x, (weight, bias) = rows(rng, 2, WIDTH), affine(rng, WIDTH)
    before = [x.clone(), weight.clone(), bias.clone()]
    want = forward(x, weight, bias, EPS)
    _expect_y(student.layer_norm_forward(x, weight, bias, EPS), want)
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


def _at_work(
    student: Any, rng: torch.Generator, m: int
) -> tuple[Tensor, list[dict[str, Any]] | None]:
    """The x and the launches of one call, whose result is right."""
    x = rows(rng, m, 100, dtype=torch.float16)
    want = forward(x, None, None, EPS)
    _expect_y(student.layer_norm_forward(x, None, None, EPS), want)
    return x, launched(student)


@pytest.mark.points(0.25)
def test_kernel_at_work(student, rng):
    """A kernel does it, reads x at most three times, and has its rows on the grid's first axis"""
    (x, few), (_, more) = _at_work(student, rng, 3), _at_work(student, rng, 5)
    if few is None:
        return
    assert moved(few, "reads", x) > 0.99, (
        "No kernel reads x itself, but something made from it, which was one more trip to memory."
    )
    assert moved(few, "reads", x) < 3.01, "x is read more than three times: once is enough."
    assert off_axis(few) == off_axis(more), SECOND_AXIS


@pytest.mark.points(0.5)
def test_x_is_read_once(student, rng):
    """One trip to memory: x is read once, y is written once"""
    x, launches = _at_work(student, rng, 3)
    if launches is None:
        return
    assert 0.99 < moved(launches, "reads", x) < 1.01, (
        "x is read more than once: keep the row in a block while you take mean and variance."
    )
    assert moved(launches, "writes", x) < 1.01 and not rewritten(launches), (
        "Something is written more than once: finish y in registers and store it at the end."
    )
