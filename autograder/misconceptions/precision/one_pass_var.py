"""Wrong versions of `one_pass_var(x)`; x is (..., D)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.precision.shared import PAGE, axes_but_last, two_pass, up

misconception = partial(declare, exercise="one_pass_var")


def right(x, dim=-1, keepdim=False):
    return x.square().mean(dim, keepdim=keepdim) - x.mean(dim, keepdim=keepdim).square()


# -- repaired ------------------------------------------------------------------------------------


@misconception(
    name="repaired",
    message="Your variance is better than the formula's: you widened x, or subtracted the mean "
    "before squaring. Here the formula is written as it stands, in the dtype of x, to see it fail.",
    link=PAGE + "prec-one-pass",
)
def widened_to_float64(x):
    return right(x.double()).to(x.dtype)


@misconception(name="repaired")
def half_widened(x):
    return right(up(x)).to(x.dtype)


@misconception(name="repaired")
def squares_widened(x):
    return up(x).square().mean(-1).to(x.dtype) - x.mean(-1).square()


@misconception(
    name="half-widened-and-left",
    message="You widened half types to float32; here even they are computed, and returned, as they "
    "are.",
    link=PAGE + "prec-one-pass",
)
def half_widened_and_left(x):
    return right(up(x))


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x; here every dtype is computed, and "
    "returned, as it is.",
    link=PAGE + "prec-one-pass",
)
def always_float32(x):
    return right(x.float())


@misconception(
    name="clamped-or-of-sums",
    message="Your variance is not negative: you clamped it at 0, which hides that it is wrong, or "
    "you subtracted sums and divided afterwards, which rounds other numbers. Write the mean of the "
    "squares minus the square of the mean, and return what it gives.",
    link=PAGE + "prec-one-pass",
)
def clamped(x):
    return right(x).clamp(min=0)


@misconception(name="clamped-or-of-sums")
def of_sums(x):
    d = x.shape[-1]
    return (x.square().sum(-1) - x.sum(-1).square() / d) / d


@misconception(
    name="absolute-value",
    message="You took the absolute value, which turns a negative variance into a wrong positive "
    "one; return what the formula gives.",
    link=PAGE + "prec-one-pass",
)
def absolute_value(x):
    return right(x).abs()


@misconception(name="repaired")
def two_passes(x):
    return two_pass(x)


@misconception(name="repaired")
def two_passes_widened(x):
    return two_pass(up(x)).to(x.dtype)


# -- another formula -----------------------------------------------------------------------------


@misconception(
    name="order-reversed",
    message="You subtracted the mean of the squares from the square of the mean; it is the other "
    "way round.",
    link=PAGE + "prec-one-pass",
)
def order_reversed(x):
    return -right(x)


@misconception(
    name="mean-not-squared",
    message="You subtracted the mean itself; subtract its square.",
    link=PAGE + "prec-one-pass",
)
def mean_not_squared(x):
    return x.square().mean(-1) - x.mean(-1)


@misconception(
    name="nothing-subtracted",
    message="You returned the mean of the squares; the square of the mean has to be subtracted.",
    link=PAGE + "prec-one-pass",
)
def nothing_subtracted(x):
    return x.square().mean(-1)


@misconception(
    name="sum-of-squares",
    message="You summed the squares; take their mean.",
    link=PAGE + "prec-one-pass",
)
def sum_of_squares(x):
    return x.square().sum(-1) - x.mean(-1).square()


@misconception(
    name="unbiased",
    message="You divided by D - 1; both means divide by D.",
    link=PAGE + "prec-one-pass",
)
def unbiased(x):
    return right(x) * (x.shape[-1] / max(x.shape[-1] - 1, 1))


@misconception(name="unbiased")
def unbiased_sums(x):
    d = x.shape[-1]
    return (x.square().sum(-1) - d * x.mean(-1).square()) / max(d - 1, 1)


@misconception(name="unbiased")
def unbiased_from_sums(x):
    d = x.shape[-1]
    return (x.square().sum(-1) - x.sum(-1).square() / d) / max(d - 1, 1)


@misconception(
    name="standard-deviation",
    message="You took a square root; the variance is asked for.",
    link=PAGE + "prec-one-pass",
)
def standard_deviation(x):
    return right(x).sqrt()


# -- axes ----------------------------------------------------------------------------------------


@misconception(
    name="over-the-batch",
    message="You took the means across vectors (the batch); take them along the last axis.",
    link=PAGE + "prec-one-pass",
)
def over_the_batch(x):
    return right(x, 0)


@misconception(name="over-the-batch")
def over_all_but_the_last(x):
    return right(x, axes_but_last(x))


@misconception(
    name="over-all-axes",
    message="You took means over the whole tensor; each vector along the last axis has its own.",
    link=PAGE + "prec-one-pass",
)
def over_all_axes(x):
    return right(x, tuple(range(x.dim()))).expand(x.shape[:-1])


@misconception(name="over-all-axes")
def one_number(x):
    return (x * x).mean() - x.mean() ** 2


@misconception(
    name="axis-kept",
    message="You kept the last axis with length 1 (keepdim); the result has one axis less than x.",
    link=PAGE + "prec-one-pass",
)
def axis_kept(x):
    return right(x, keepdim=True)


@misconception(
    name="input-modified",
    message="You changed x in place (a method that ends in _, or *=); make a new tensor.",
    link=PAGE + "prec-one-pass",
)
def input_modified(x):
    mean = x.mean(-1)
    return x.square_().mean(-1) - torch.square(mean)
