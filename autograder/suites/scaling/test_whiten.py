"""Hidden tests of `whiten(x, eps)`, simplest first.

The first two accept every way to whiten, turned back or not, for they look at the covariance only;
the later ones ask for the result of the docstring, which has no freedom of sign or order.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.scaling.inputs import (
    LOOSE,
    STRICT,
    cloud,
    covariance,
    expect_half,
    form,
    share,
    slices,
    whitened,
)
from autograder.testing.compare import expect

EPS = 1e-4  # the smallest eigenvalue is about 1


@pytest.mark.points(1)
def test_mean_and_variances(student, rng):
    """Every feature of the result has mean 0 and variance 1"""
    x = cloud(rng, 200, 3, far=20)
    want = whitened(x, EPS)
    got = student.whiten(x, EPS)
    form(got, want)
    variances = covariance(got).diag()
    expect(variances, covariance(want).diag(), rtol=0, atol=LOOSE, what="the variances")
    means = got.double().mean(0)
    expect(means, torch.zeros(3).double(), rtol=0, atol=1e-3, what="the means of the output")


@pytest.mark.points(1)
def test_no_correlation(student, rng):
    """No two features of the result are correlated"""
    for d in (2, 5):
        x = cloud(rng, 300, d)
        want = whitened(x, EPS)
        got = student.whiten(x, EPS)
        form(got, want)
        cov = covariance(got)
        expect(cov, covariance(want), rtol=0, atol=LOOSE, what="the covariance of the output")


@pytest.mark.points(1.5)
def test_turned_back(student, rng):
    """The whitened data is turned back: each point stays as near to its place as it can"""
    for n, d in ((200, 2), (100, 4), (120, 7)):
        x = cloud(rng, n, d)
        want = whitened(x, EPS)
        expect(student.whiten(x, EPS), want, **share(want, LOOSE))


@pytest.mark.points(0.5)
def test_biased_covariance(student, rng):
    """The covariance matrix divides by the number of samples"""
    x = cloud(rng, 6, 2)
    want = whitened(x, EPS)
    expect(student.whiten(x, EPS), want, **share(want, 4e-3))


@pytest.mark.points(0.75)
def test_eps(student, rng):
    """eps is added to the eigenvalues, under the root; directions without variance give 0"""
    x = cloud(rng, 200, 3, torch.float64)
    for eps in (10.0, 0.5):
        want = whitened(x, eps)
        expect(
            student.whiten(x, eps), want, **share(want, LOOSE), what="the output for a large eps"
        )
    # Fewer samples than features: some eigenvalues are 0 up to rounding.
    x = cloud(rng, 4, 6, torch.float64)
    want = whitened(x, 1e-2)
    got = student.whiten(x, 1e-2)
    what = "the output for fewer samples than features"
    expect(got, want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.25)
def test_shapes(student, rng):
    """One feature, one sample, and as many samples as features"""
    for x in (slices(rng, 50, 1, dim=0), cloud(rng, 1, 3), cloud(rng, 5, 5)):
        want = whitened(x, 0.5)
        expect(student.whiten(x, 0.5), want, **share(want, 4e-2))


@pytest.mark.points(0.5)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula in float32 and in float64, features of different scale included"""
    x = cloud(rng, 40, 4, torch.float64) * torch.tensor([1.0, 10.0, 0.1, 3.0]).double()
    want = whitened(x, 0.02)
    expect(student.whiten(x, 0.02), want, **share(want, 1e-9))
    x = cloud(rng, 40, 4)
    want = whitened(x, 0.02)
    expect(student.whiten(x, 0.02), want, **share(want, 5 * STRICT))
    # In float32 the mean itself is known to about 1e-3 here, which changes the output as little;
    # E[x xᵀ] minus the square of the mean is off by several where the smallest variance is 1.
    x = cloud(rng, 200, 3, far=1e4)
    want = whitened(x, EPS)
    what = "the output for a mean far larger than the spread"
    expect(student.whiten(x, EPS), want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtype of x"""
    # bfloat16 steps by 1 at 200: a mean kept in it is off by up to half a deviation.
    coarse = cloud(rng, 64, 3, torch.bfloat16, far=200)
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (1000 * cloud(rng, 64, 3, torch.float64, far=0)).half()
    for x in (coarse, huge):
        want = whitened(x, EPS)
        expect_half(student.whiten(x, EPS), want, LOOSE)


@pytest.mark.points(0.25)
def test_inputs(student, rng):
    """x is not modified, and may be transposed or sliced"""
    transposed = cloud(rng, 60, 3).t().contiguous().t()
    sliced = cloud(rng, 120, 6)[::2, 1:4]
    for kind, x in (("a transposed", transposed), ("a sliced", sliced)):
        want, before = whitened(x, EPS), x.clone()
        got = student.whiten(x, EPS)
        expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")
        expect(student.inputs(), [before], rtol=0, atol=0, what="the input after the call")
