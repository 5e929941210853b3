"""Hidden tests of `rms_norm_forward(x, weight, eps)`, simplest first."""

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
    launched,
    moved,
    off_axis,
    parts,
    rewritten,
    rms_norm,
    rounded_once,
    rows,
    strided,
)
from autograder.suites.vocabulary import affine, normal, share
from autograder.testing.compare import expect
from autograder.testing.later import later


@later
def _two(got: Any) -> Any:
    return parts(got, "y", "rstd")


def _expect(got: Any, want: tuple[Tensor, Tensor], part: float = LOOSE, where: str = "") -> None:
    close(_two(got)[0], want[0], part, "y" + where)
    expect(got[1], want[1], **share(want[1], part), what="rstd" + where)


@pytest.mark.points(0.75)
def test_one_row_each(student, rng):
    """Each program divides its own row by its root mean square"""
    x = rows(rng, 3, 8)
    want = rms_norm(x, None, EPS)
    got = student.rms_norm_forward(x, None, EPS)
    close(_two(got)[0], want[0], LOOSE, "y")


@pytest.mark.points(0.5)
def test_saved_rstd(student, rng):
    """rstd of every row is returned in float32, whatever the dtype of x"""
    for dtype in DTYPES:
        x = rows(rng, 2, 2, WIDTH, dtype=dtype)
        want = rms_norm(x, None, EPS)
        got = student.rms_norm_forward(x, None, EPS)
        what = f"rstd for a {str(dtype)[6:]} x"
        expect(_two(got)[1], want[1], rtol=1e-5, atol=0, what=what)


@pytest.mark.points(0.5)
def test_any_width(student, rng):
    """Rows of any length: the mean is over the row, not over the lanes of the block"""
    for d in (1000, 769, 1025, 5, 1, 9000):
        x, (weight, _) = rows(rng, 2, d), affine(rng, d)
        want = rms_norm(x, weight, EPS)
        got = student.rms_norm_forward(x, weight, EPS)
        _expect(got, want, 5e-3, f" for D = {d}")


@pytest.mark.points(0.5)
def test_weight(student, rng):
    """Scaled by weight, feature by feature"""
    x, (weight, _) = rows(rng, 2, WIDTH), affine(rng, WIDTH)
    want = rms_norm(x, weight, EPS)
    got = student.rms_norm_forward(x, weight, EPS)
    close(_two(got)[0], want[0], LOOSE, "y")


@pytest.mark.points(0.25)
def test_any_number_of_axes_and_rows(student, rng):
    """One axis or three, a single row, no rows at all"""
    for shape in ((2, 2, WIDTH), (WIDTH,), (1, WIDTH), (0, WIDTH)):
        x = rows(rng, *shape)
        want = rms_norm(x, None, EPS)
        got = student.rms_norm_forward(x, None, EPS)
        _expect(got, want, where=f" for an x of shape {shape}")


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """eps is added inside the root, also for rows of zeros"""
    x = (torch.tensor([3.0, 1e-1, 1e-3, 0.0])[:, None] * normal(rng, 4, WIDTH)).float()
    for eps, where in ((0.5, " for a large eps"), (1e-5, " for a small eps")):
        want = rms_norm(x, None, eps)
        got = _two(student.rms_norm_forward(x, None, eps))
        expect(got[0], want[0], rtol=LOOSE, atol=1e-6, what="y" + where)
        expect(got[1], want[1], rtol=LOOSE, atol=0, what="rstd" + where)


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """Half types are computed in float32, and y has the dtype of x"""
    # Squares of these do not fit into float16 (at most 65504), nor does a sum.
    huge = (2e4 * normal(rng, 2, WIDTH)).clamp(-6e4, 6e4).half()
    huge[1] = 1000.0 * (torch.randint(0, 2, (WIDTH,), generator=rng) * 2 - 1).half()
    plain = normal(rng, 2, WIDTH).bfloat16()
    for x, of_weight in (
        (huge, torch.float16), (plain, torch.bfloat16), (plain, torch.float32),
    ):  # fmt: skip
        weight = affine(rng, WIDTH, of_weight)[0]
        want = rms_norm(x, weight, EPS)
        got = student.rms_norm_forward(x, weight, EPS)
        close(_two(got)[0], want[0], LOOSE, f"y for a {str(x.dtype)[6:]} x")


@pytest.mark.points(0.25)
def test_any_layout(student, rng):
    """Rows that are parts of wider rows, transposed, repeated"""
    weight = affine(rng, 12)[0]
    for kind, x in strided(rng, 12).items():
        want = rms_norm(x, weight, EPS)
        got = student.rms_norm_forward(x, weight, EPS)
        _expect(got, want, 0.05, f" for an x {kind}")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, and rounds y once"""
    for d, eps in ((7, 0.02), (768, 0.3)):
        x, (weight, _) = normal(rng, 3, d).float(), affine(rng, d)
        x[2] *= 3e-3  # a row that eps rules
        want = rms_norm(x, weight, eps)
        _expect(student.rms_norm_forward(x, weight, eps), want, STRICT)
    for dtype in DTYPES[1:]:
        x, weight = rows(rng, 3, WIDTH, dtype=dtype), affine(rng, WIDTH)[0]
        exact = rms_norm(x.double(), weight, EPS)[0]
        got = student.rms_norm_forward(x, weight, EPS)
        rounded_once(_two(got)[0], exact, dtype, f"y for a {str(dtype)[6:]} x")


@pytest.mark.points(0.25)
def test_inputs_and_far_rows(student, rng):
    """Inputs are not modified, and rows may lie more than two thousand million numbers apart"""
    x, (weight, _) = rows(rng, 3, 8, dtype=torch.float16), affine(rng, 8)
    before = [x.clone(), weight.clone()]
    want = rms_norm(x, weight, EPS)
    _expect(student.rms_norm_forward(x, weight, EPS), want)
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
    got = student.rms_norm_forward(student.far_apart(x), weight, EPS)
    _expect(got, want, 0.05, " for rows far apart")


@pytest.mark.points(0.25)
def test_x_is_read_once(student, rng):
    """A kernel does it, in one trip to memory: x is read once, y is written once"""
    beside = []
    for m in (3, 5):
        x = rows(rng, m, 100, dtype=torch.float16)
        want = rms_norm(x, None, EPS)
        _expect(student.rms_norm_forward(x, None, EPS), want)
        launches = launched(student)
        if launches is None:
            return
        assert moved(launches, "reads", x) > 0.99, "No kernel reads x itself."
        assert moved(launches, "reads", x) < 1.01, (
            "x is read more than once: keep the row in a block while you take its mean square."
        )
        assert moved(launches, "writes", x) < 1.01 and not rewritten(launches), (
            "Something is written more than once: finish y in registers and store it at the end."
        )
        beside.append(off_axis(launches))
    assert beside[0] == beside[1], SECOND_AXIS
