"""Wrong versions of `two_pass_var(x)`; x is (..., D)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.precision.shared import PAGE, two_pass, up

misconception = partial(declare, exercise="two_pass_var")


# -- the formula ---------------------------------------------------------------------------------


@misconception(
    name="one-pass",
    message="You computed the mean of the squares minus the square of the mean, which cancels when "
    "the mean is large; subtract the mean from x before you square.",
    link=PAGE + "prec-one-pass",
)
def one_pass(x):
    h = up(x)
    return h.square().mean(-1) - h.mean(-1).square()


@misconception(name="one-pass")
def one_pass_clamped(x):
    return one_pass(x).clamp(min=0)


@misconception(
    name="unbiased",
    message="You divided by D - 1; the biased variance divides by D.",
    link=PAGE + "prec-two-pass",
)
def unbiased(x):
    h = up(x)
    return (h - h.mean(-1, keepdim=True)).square().sum(-1) / max(h.shape[-1] - 1, 1)


@misconception(name="unbiased")
def unbiased_by_torch(x):
    return up(x).var(-1, correction=min(1, x.shape[-1] - 1))


@misconception(
    name="standard-deviation",
    message="You took a square root; the variance is asked for.",
    link=PAGE + "prec-two-pass",
)
def standard_deviation(x):
    return two_pass(up(x)).sqrt()


@misconception(
    name="sum-of-squares",
    message="You summed the squared deviations; take their mean.",
    link=PAGE + "prec-two-pass",
)
def sum_of_squares(x):
    return two_pass(up(x)) * x.shape[-1]


@misconception(
    name="mean-not-subtracted",
    message="You took the mean of the squares of x itself; subtract the mean first.",
    link=PAGE + "prec-two-pass",
)
def mean_not_subtracted(x):
    return up(x).square().mean(-1)


@misconception(
    name="absolute-deviation",
    message="You took the mean of the absolute deviations; square them.",
    link=PAGE + "prec-two-pass",
)
def absolute_deviation(x):
    h = up(x)
    return (h - h.mean(-1, keepdim=True)).abs().mean(-1)


@misconception(
    name="not-squared",
    message="You took the mean of the deviations, which is always 0; square them first.",
    link=PAGE + "prec-two-pass",
)
def not_squared(x):
    h = up(x)
    return (h - h.mean(-1, keepdim=True)).mean(-1)


# -- axes ----------------------------------------------------------------------------------------


@misconception(
    name="over-the-batch",
    message="You took the variance across vectors (the batch); take it along the last axis.",
    link=PAGE + "prec-two-pass",
)
def over_the_batch(x):
    return two_pass(up(x), 0)


@misconception(name="over-the-batch")
def over_all_but_the_last(x):
    return two_pass(up(x).reshape(-1, x.shape[-1]) if x.dim() > 1 else up(x), 0)


@misconception(
    name="over-all-axes",
    message="You took one mean for the whole tensor; each vector along the last axis has its own.",
    link=PAGE + "prec-two-pass",
)
def over_all_axes(x):
    h = up(x)
    return (h - h.mean()).square().mean()


@misconception(name="over-all-axes")
def mean_over_all_axes(x):
    h = up(x)
    return (h - h.mean()).square().mean(-1)


@misconception(
    name="means-lined-up-with-features",
    message="You subtracted the mean without keepdim=True, so each mean met a feature instead of "
    "its vector.",
    link=PAGE + "prec-two-pass",
)
def means_lined_up_with_features(x):
    h = up(x)
    return (h - h.mean(-1)).square().mean(-1)


@misconception(
    name="axis-kept",
    message="You kept the last axis with length 1 (keepdim); the result has one axis less than x.",
    link=PAGE + "prec-two-pass",
)
def axis_kept(x):
    return two_pass(up(x), keepdim=True)


@misconception(
    name="axis-1",
    message="You took axis 1, which is the last axis only when x has two; use axis -1.",
    link=PAGE + "prec-two-pass",
)
def axis_1(x):
    return two_pass(up(x), 1 if x.dim() > 1 else 0)


# -- dtypes --------------------------------------------------------------------------------------


@misconception(
    name="bfloat16-not-widened",
    message="You widened float16 only; bfloat16 is a half type, too, and has even fewer digits.",
    link=PAGE + "prec-statistics",
)
def bfloat16_not_widened(x):
    return two_pass(x.float() if x.dtype == torch.float16 else x)


@misconception(
    name="cast-back",
    message="You cast the variance back to the half type, which cannot hold the variance of large "
    "numbers; statistics stay in float32.",
    link=PAGE + "prec-statistics",
)
def cast_back(x):
    return two_pass(up(x)).to(x.dtype)


@misconception(name="cast-back")
def cast_back_and_forth(x):
    return two_pass(up(x)).to(x.dtype).to(up(x).dtype)


@misconception(
    name="no-upcast",
    message="You took the mean, subtracted it or squared in the half type, where numbers round, "
    "overflow and underflow; widen x to float32 before anything else.",
    link=PAGE + "prec-overflow",
)
def no_upcast(x):
    return two_pass(x)


@misconception(name="no-upcast")
def no_upcast_cast_after(x):
    return two_pass(x).to(up(x).dtype)


@misconception(name="no-upcast")
def squared_before_widening(x):
    centered = x - x.mean(-1, keepdim=True)
    return up(centered.square()).mean(-1)


@misconception(name="no-upcast")
def subtracted_in_half(x):
    return up(x - x.mean(-1, keepdim=True)).square().mean(-1)


@misconception(name="no-upcast")
def mean_in_half(x):
    return (up(x) - x.mean(-1, keepdim=True)).square().mean(-1)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "prec-statistics",
)
def always_float32(x):
    return two_pass(x.float())


@misconception(name="always-float32")
def always_float32_cast_back(x):
    return two_pass(x.float()).to(up(x).dtype)


@misconception(
    name="left-in-float64",
    message="You returned float64; the result is float32, and float64 only for a float64 x.",
    link=PAGE + "prec-statistics",
)
def left_in_float64(x):
    return two_pass(x.double())


# -- memory and gradients ------------------------------------------------------------------------


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as -= or a method that ends in _); make a new"
    " tensor.",
    link=PAGE + "prec-two-pass",
)
def input_modified(x):
    h = up(x)
    h -= h.mean(-1, keepdim=True)
    return h.square().mean(-1)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "prec-statistics")
def detached_in_half(x):
    return two_pass(*half_types.cut(x))


@misconception(
    name="graph-cut",
    message="Your result carries no gradient (detach, no_grad, .data or numpy); the variance is a "
    "function of x, and gradients flow through it.",
    link=PAGE + "prec-two-pass",
)
@torch.no_grad()
def graph_cut(x):
    return two_pass(up(x))
