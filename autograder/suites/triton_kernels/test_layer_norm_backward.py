"""Hidden tests of `layer_norm_backward(grad_out, x, weight, mean, rstd)`, simplest first.

They need nothing from the learner's `layer_norm_forward`: mean and rstd come from float64.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.suites.triton_kernels.inputs import (
    DTYPES,
    SECOND_AXIS,
    STRICT,
    WIDTH,
    backward,
    close,
    launched,
    level,
    moved,
    off_axis,
    parts,
    rewritten,
    rounded_once,
    rows,
    saved,
    slopes,
    strided,
    swapped,
    upstream,
)
from autograder.suites.vocabulary import normal
from autograder.testing.compare import expect
from autograder.testing.later import later

EPS = 0.5
LOOSE = 0.03  # rounding grad_out and weight to bfloat16 costs less, a wrong term 10 % and more
NAMES = ("grad_x", "grad_weight", "grad_bias")


@later
def _three(got: Any) -> Any:
    return parts(got, *NAMES)


def _expect(
    got: Any, want: tuple[Tensor | None, ...], part: float = LOOSE, where: str = ""
) -> None:
    # From the simplest to the hardest, so that the first message is about the simplest.
    for i in (2, 1, 0):
        if want[i] is None:
            expect(_three(got)[i], None, what=NAMES[i] + where)
        else:
            close(_three(got)[i], want[i], part, NAMES[i] + where)


def _case(
    rng: torch.Generator, x: Tensor, dtype: torch.dtype = torch.float32, eps: float = EPS
) -> tuple[tuple[Any, ...], tuple[Tensor | None, ...]]:
    """Arguments for this x, all other tensors of `dtype`, and what is expected."""
    arguments = (upstream(rng, x, dtype), x, slopes(rng, x.shape[-1], dtype), *saved(x, eps))
    return arguments, backward(*arguments)


@pytest.mark.points(0.75)
def test_grad_bias(student, rng):
    """grad_bias: what each bias gets from all the rows it was added to"""
    arguments, want = _case(rng, rows(rng, 5, WIDTH))
    got = student.layer_norm_backward(*arguments)
    close(_three(got)[2], want[2], STRICT, "grad_bias")


@pytest.mark.points(1)
def test_grad_weight(student, rng):
    """grad_weight: what each weight gets from all the rows it took part in"""
    arguments, want = _case(rng, rows(rng, 5, WIDTH))
    got = student.layer_norm_backward(*arguments)
    close(_three(got)[1], want[1], LOOSE, "grad_weight")


@pytest.mark.points(1)
def test_grad_x_with_plain_weight(student, rng):
    """grad_x when every weight is 1: all three paths from x to the output"""
    x = rows(rng, 5, WIDTH)
    arguments = (upstream(rng, x), x, torch.ones(WIDTH), *saved(x, EPS))
    want = backward(*arguments)
    got = student.layer_norm_backward(*arguments)
    close(_three(got)[0], want[0], LOOSE, "grad_x")


@pytest.mark.points(1)
def test_grad_x_with_weight(student, rng):
    """grad_x for any weight, a weight of 0 included"""
    arguments, want = _case(rng, rows(rng, 5, WIDTH))
    got = student.layer_norm_backward(*arguments)
    close(_three(got)[0], want[0], LOOSE, "grad_x")


@pytest.mark.points(0.75)
def test_any_width(student, rng):
    """Rows of any length: the lanes of the block beyond the row do not count"""
    for d in (1000, 769, 1025, 5, 9000):
        # A mean far from 0: a lane beyond the row that holds x_hat = -mean * rstd shows.
        arguments, want = _case(rng, rows(rng, 2, d))
        got = student.layer_norm_backward(*arguments)
        _expect(got, want, 5e-3 if d > 5 else 0.1, f" for D = {d}")
    # With one number in a row, all x give the same: grad_x is 0.
    arguments, want = _case(rng, rows(rng, 3, 1))
    got = student.layer_norm_backward(*arguments)
    expect(_three(got)[0], want[0], rtol=0, atol=1e-4, what="grad_x for D = 1")


@pytest.mark.points(0.25)
def test_any_number_of_axes_and_rows(student, rng):
    """One axis or three, a single row, three rows, no rows at all"""
    for shape in ((2, 3, WIDTH), (WIDTH,), (1, WIDTH), (3, WIDTH), (0, WIDTH)):
        arguments, want = _case(rng, rows(rng, *shape))
        got = student.layer_norm_backward(*arguments)
        _expect(got, want, where=f" for an x of shape {shape}")


@pytest.mark.points(0.25)
def test_without_weight(student, rng):
    """Without a weight: no grad_weight, but grad_x and grad_bias"""
    x = rows(rng, 3, WIDTH, dtype=torch.bfloat16)
    arguments = (upstream(rng, x, torch.bfloat16), x, None, *saved(x, EPS))
    want = backward(*arguments)
    _expect(student.layer_norm_backward(*arguments), want, 8e-3, " without a weight")


@pytest.mark.points(0.75)
def test_more_rows_than_programs(student, rng):
    """Many rows, whose number no block divides: every row counts once"""
    arguments, want = _case(rng, rows(rng, 277, 4))
    got = student.layer_norm_backward(*arguments)
    _expect(got, want, 1e-3, " for many rows")


@pytest.mark.points(0.25)
def test_sums_over_rows_in_float32(student, rng):
    """The sums over the rows are float32 up to the end, also for half types"""
    x = rows(rng, 6, WIDTH, dtype=torch.bfloat16)
    grad_out = upstream(rng, x, torch.bfloat16)
    grad_out[0] *= 128  # bfloat16 would drop most of the rows that follow
    arguments = (grad_out, x, slopes(rng, WIDTH), *saved(x, EPS))
    want = backward(*arguments)
    got = student.layer_norm_backward(*arguments)
    for i in (2, 1):
        close(_three(got)[i], want[i], STRICT, NAMES[i] + " for bfloat16 and a float32 weight")


@pytest.mark.points(0.5)
def test_dtypes(student, rng):
    """grad_x has the dtype of x, grad_weight and grad_bias have that of weight"""
    for dtype in DTYPES[1:]:
        x = rows(rng, 3, WIDTH, dtype=dtype)
        for of_weight in (dtype, torch.float32):
            arguments = (upstream(rng, x, dtype), x, slopes(rng, WIDTH, of_weight), *saved(x, EPS))
            want = backward(*arguments)
            got = student.layer_norm_backward(*arguments)
            _expect(got, want, where=f" for a {str(dtype)[6:]} x, a {str(of_weight)[6:]} weight")


@pytest.mark.points(0.5)
def test_any_layout_of_grad_out(student, rng):
    """grad_out as autograd hands it over: expanded, sliced, transposed"""
    weight = slopes(rng, 12)
    layouts = {"that is one number, expanded": torch.ones(()).expand(3, 12)}
    for kind, grad_out in (layouts | strided(rng, 12) | swapped(rng, 12)).items():
        x = rows(rng, *grad_out.shape)
        arguments = (grad_out, x, weight, *saved(x, EPS))
        want = backward(*arguments)
        got = student.layer_norm_backward(*arguments)
        _expect(got, want, 0.05, f" for a grad_out {kind}")


@pytest.mark.points(0.25)
def test_any_layout_of_x(student, rng):
    """x whose rows are parts of wider rows, transposed, repeated"""
    for kind, x in (strided(rng, 12) | swapped(rng, 12)).items():
        arguments, want = _case(rng, x)
        got = student.layer_norm_backward(*arguments)
        _expect(got, want, 0.05, f" for an x {kind}")


@pytest.mark.points(0.25)
def test_rows_far_apart(student, rng):
    """Rows that lie more than two thousand million numbers apart"""
    x = rows(rng, 3, 8, dtype=torch.float16)
    (grad_out, _, *rest), want = _case(rng, x, torch.float16)
    got = student.layer_norm_backward(student.far_apart(grad_out), student.far_apart(x), *rest)
    _expect(got, want, 0.05, " for rows far apart")


@pytest.mark.points(0.25)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread, in half types too"""
    for x in ((1e4 + normal(rng, 3, 768)).float(), (100 + normal(rng, 3, 768)).bfloat16()):
        arguments, want = _case(rng, x, eps=1e-5)
        got = student.layer_norm_backward(*arguments)
        _expect(got, want, 2e-2, f" for a large mean in {str(x.dtype)[6:]}")


@pytest.mark.points(0.25)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, far from 0 too, and rounds grad_x once"""
    for d in (7, 768):
        arguments, want = _case(rng, normal(rng, 3, d).float())
        _expect(student.layer_norm_backward(*arguments), want, STRICT)
    arguments, want = _case(rng, level(rng))
    _expect(student.layer_norm_backward(*arguments), want, STRICT, " for a large mean")
    for dtype in DTYPES[1:]:
        x = rows(rng, 3, WIDTH, dtype=dtype)
        arguments = (upstream(rng, x, dtype), x, slopes(rng, WIDTH), *saved(x, EPS))
        exact = backward(arguments[0], x.double(), *arguments[2:])[0]
        got = student.layer_norm_backward(*arguments)
        rounded_once(_three(got)[0], exact, dtype, f"grad_x for a {str(dtype)[6:]} x")


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """grad_out, x and the others are not modified, so that a second call gives the same"""
    arguments, want = _case(rng, rows(rng, 3, WIDTH))
    before = [t.clone() for t in arguments]
    _expect(student.layer_norm_backward(*arguments), want)
    expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")


def _at_work(
    student: Any, rng: torch.Generator, m: int
) -> tuple[Tensor, list[dict[str, Any]] | None]:
    """The x and the launches of one call, whose result is right."""
    # Seven rows of a half type: no float32 buffer with a row per program is as large as x.
    x = rows(rng, m, 100, dtype=torch.float16)
    grad_out, mean, rstd = upstream(rng, x, torch.float16), *saved(x, EPS)
    want = backward(grad_out, x, None, mean, rstd)
    _expect(student.layer_norm_backward(grad_out, x, None, mean, rstd), want)
    return x, launched(student)


@pytest.mark.points(0.25)
def test_kernel_at_work(student, rng):
    """A kernel does it, with its programs on the first axis of the grid"""
    (x, few), (_, more) = _at_work(student, rng, 7), _at_work(student, rng, 11)
    if few is None:
        return
    # A single row and two sums of it, which somebody has to write.
    arguments, want = _case(rng, rows(rng, 1, 100))
    _expect(student.layer_norm_backward(*arguments), want)
    written = sum(sum(launch["writes"].values()) for launch in launched(student) or [])
    assert written >= 3 * 100 * 4, (
        "Only part of the three gradients is made in kernels: grad_weight and grad_bias come from "
        "partial buffers that a kernel writes, and no other sum is taken by torch."
    )
    assert moved(few, "reads", x) > 1.99, (
        "No kernel reads x and grad_out themselves, but something made from them."
    )
    assert off_axis(few) == off_axis(more), SECOND_AXIS


@pytest.mark.points(0.25)
def test_no_number_is_written_twice(student, rng):
    """Each program has its own row of a partial buffer: no atomics, no locks"""
    _, launches = _at_work(student, rng, 7)
    assert launches is None or not rewritten(launches), (
        "Programs write to the same numbers again and again; give each program its own row of a "
        "partial buffer, and add these rows in a second stage."
    )


@pytest.mark.points(0.25)
def test_x_and_grad_out_are_read_once(student, rng):
    """One trip to memory: x and grad_out are read once, grad_x is written once"""
    x, launches = _at_work(student, rng, 7)
    if launches is None:
        return
    assert 1.99 < moved(launches, "reads", x) < 2.01, (
        "x and grad_out are read more than once each: one pass gives all three gradients."
    )
    assert moved(launches, "writes", x) < 1.01, "grad_x is written more than once."
