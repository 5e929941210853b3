"""Hidden tests of `row_sum(x)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from autograder.suites.triton_kernels.inputs import (
    DTYPES,
    LOOSE,
    SECOND_AXIS,
    STRICT,
    launched,
    moved,
    off_axis,
    rows,
    strided,
)
from autograder.suites.vocabulary import normal, share
from autograder.testing.compare import expect


def _sums(x: Tensor) -> Tensor:
    return x.double().sum(-1).float()


@pytest.mark.points(0.5)
def test_one_sum_for_each_row(student, rng):
    """Each program adds up its own row"""
    x = rows(rng, 3, 8)
    want = _sums(x)
    expect(student.row_sum(x), want, **share(want, LOOSE), what="the result")


@pytest.mark.points(0.5)
def test_any_width(student, rng):
    """Rows of any length: a power of two, one more, one less, and 1"""
    for d in (6, 1, 769, 1024, 1023, 9000):
        x = rows(rng, 2, d)
        want = _sums(x)
        expect(student.row_sum(x), want, **share(want, STRICT), what=f"the result for D = {d}")


@pytest.mark.points(0.25)
def test_any_shape_and_layout(student, rng):
    """One axis, three axes, no rows, and rows that do not lie end to end"""
    for shape in ((2, 3, 12), (12,), (0, 12), (1, 1, 12)):
        x = rows(rng, *shape)
        want = _sums(x)
        what = f"the result for an x of shape {shape}"
        expect(student.row_sum(x), want, **share(want, LOOSE), what=what)
    for kind, x in strided(rng, 12).items():
        want = _sums(x)
        expect(student.row_sum(x), want, **share(want, LOOSE), what=f"the result for an x {kind}")


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """Half types are added in float32"""
    for dtype in reversed(DTYPES[1:]):
        # The sum of the first row is more than float16 holds; bfloat16 would stop counting at 256.
        x = torch.stack([torch.full((300,), 500.0), torch.ones(300), 5 + normal(rng, 300)])
        x = x.to(dtype)
        want = _sums(x)
        expect(student.row_sum(x), want, rtol=1e-3, atol=0, what=f"the result for {str(dtype)[6:]}")


@pytest.mark.points(0.25)
def test_rows_far_apart(student, rng):
    """Rows that lie more than two thousand million numbers apart"""
    x = rows(rng, 3, 8, dtype=torch.float16)
    want = _sums(x)
    far = student.far_apart(x)
    expect(student.row_sum(far), want, **share(want, LOOSE), what="the result for rows far apart")


@pytest.mark.points(0.25)
def test_kernel_at_work(student, rng):
    """A kernel does it: it reads x once, and has its rows on the first axis of the grid"""
    beside = []
    for m in (3, 5):
        x = rows(rng, m, 100, dtype=torch.float16)
        want = _sums(x)
        expect(student.row_sum(x), want, **share(want, LOOSE), what="the result")
        launches = launched(student)
        if launches is None:
            return
        times = moved(launches, "reads", x)
        assert times > 0.99, "The kernel does not read x itself, but something made from it."
        assert times < 1.01, "The kernel reads x more than once; keep the loaded row."
        beside.append(off_axis(launches))
    assert beside[0] == beside[1], SECOND_AXIS
