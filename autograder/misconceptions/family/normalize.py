"""Wrong versions of `normalize(x, dims, eps)`.

Where two mistakes give the same output on some input, the one that stands first is named.
"""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.family.shared import PAGE, declare_cores, right, statistics, up

misconception = partial(declare, exercise="normalize")


def _with_core(core):
    def normalize(x, dims, eps):
        return core(up(x), dims, eps).to(x.dtype)

    return normalize


def _tuple(dims) -> tuple[int, ...]:
    return (dims,) if isinstance(dims, int) else tuple(dims)


# -- which axes --------------------------------------------------------------------------------


def _over(axes):
    """Statistics over `axes(x, dims)`, where dims is a tuple."""

    def normalize(x, dims, eps):
        return right(up(x), axes(x, _tuple(dims)), eps).to(x.dtype)

    return normalize


@misconception(
    name="dims-ignored",
    message="You averaged over the same axes whatever dims says; use the argument.",
    link=PAGE + "family-normalize",
)
@_over
def always_the_last_axis(x, dims):
    return (-1,)


@misconception(name="dims-ignored")
@_over
def always_all_axes(x, dims):
    return tuple(range(x.dim()))


@misconception(name="dims-ignored")
@_over
def always_the_positions(x, dims):
    return tuple(range(min(2, x.dim() - 1), x.dim()))


@misconception(
    name="all-other-axes",
    message="You averaged over all axes but dims; dims names the axes that are averaged over.",
    link=PAGE + "family-normalize",
)
@_over
def all_other_axes(x, dims):
    named = {d % x.dim() for d in dims}
    return tuple(d for d in range(x.dim()) if d not in named)


@misconception(
    name="first-axis-only",
    message="You averaged over one of the axes in dims only; average over all of them together.",
    link=PAGE + "family-normalize",
)
@_over
def first_axis_only(x, dims):
    return dims[:1]


@misconception(name="first-axis-only")
@_over
def last_axis_only(x, dims):
    return dims[-1:]


@misconception(
    name="negative-axes-ignored",
    message="You did not understand negative axes: -1 is the last axis, -2 the one before it.",
    link=PAGE + "family-normalize",
)
@_over
def negative_axes_ignored(x, dims):
    return tuple(d for d in range(x.dim()) if d in dims) or (0,)


@misconception(
    name="axis-after-axis",
    message="You normalized along one axis after the other; all values along dims share one mean "
    "and one variance.",
    link=PAGE + "family-together",
)
def axis_after_axis(x, dims, eps):
    h = up(x)
    for d in _tuple(dims):
        h = right(h, d, eps)
    return h.to(x.dtype)


@misconception(name="axis-after-axis")
def axis_after_axis_backwards(x, dims, eps):
    return axis_after_axis(x, _tuple(dims)[::-1], eps)


@misconception(
    name="variance-of-each-axis",
    message="You averaged the variances along the single axes; that misses the spread between "
    "their means. Take one variance over all of dims.",
    link=PAGE + "family-together",
)
def variance_of_each_axis(x, dims, eps):
    h = up(x)
    mean = h.mean(dims, keepdim=True)
    var = h
    for number, d in enumerate(_tuple(dims)):
        var = var.var(d, correction=0, keepdim=True) if number == 0 else var.mean(d, keepdim=True)
    return ((h - mean) * torch.rsqrt(var + eps)).to(x.dtype)


@misconception(name="variance-of-each-axis")
def std_of_each_axis(x, dims, eps):
    h, axes = up(x), _tuple(dims)
    mean = h.mean(dims, keepdim=True)
    total = 0.0
    for d in axes:
        total = total + statistics(h, d)[1].mean(dims, keepdim=True)
    return ((h - mean) * torch.rsqrt(total / len(axes) + eps)).to(x.dtype)


@misconception(
    name="keepdim-forgotten",
    message="You dropped the averaged axes of the mean or the variance, so they broadcast along "
    "the wrong axes; keepdim=True keeps them in place.",
    link=PAGE + "family-normalize",
)
def keepdim_forgotten(x, dims, eps):
    h = up(x)
    mean, var = h.mean(dims), h.var(dims, correction=0)
    return ((h - mean) / torch.sqrt(var + eps)).to(x.dtype)


declare_cores("normalize", _with_core)

# -- dtypes ------------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and "
    "digits are lost; widen x to float32 first.",
    link=PAGE + "family-dtype",
)
def no_upcast(x, dims, eps):
    return right(x, dims, eps)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "family-dtype",
)
def result_left_wide(x, dims, eps):
    return right(up(x), dims, eps)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "family-dtype",
)
def always_float32(x, dims, eps):
    return right(x.float(), dims, eps).to(x.dtype)


@misconception(
    name="statistics-rounded",
    message="You cast mean and variance, or the centered values, back to the dtype of x before "
    "the end; stay in float32 until the last line.",
    link=PAGE + "family-dtype",
)
def statistics_rounded(x, dims, eps):
    mean, var = (t.to(x.dtype) for t in statistics(up(x), dims))
    return (x - mean) * torch.rsqrt(var + eps)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "family-dtype")
def detached_in_half(x, dims, eps):
    return right(*half_types.cut(x), dims, eps).to(x.dtype)
