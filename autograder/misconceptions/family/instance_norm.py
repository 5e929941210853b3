"""Wrong versions of `instance_norm(x, weight, bias, eps)`."""

from __future__ import annotations

from functools import partial

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.family.shared import (
    PAGE,
    affine,
    along,
    declare_cores,
    declare_endings,
    right,
    up,
)

misconception = partial(declare, exercise="instance_norm")


def _positions(x):
    return tuple(range(2, x.dim()))


def _with_core(core):
    def instance_norm(x, weight, bias, eps):
        return affine(core(up(x), _positions(x), eps), x, weight, bias)

    return instance_norm


def _with_ending(end):
    def instance_norm(x, weight, bias, eps):
        y = right(up(x), _positions(x), eps)
        return end(y, along(x, weight), along(x, bias)).to(x.dtype)

    return instance_norm


# -- which axes --------------------------------------------------------------------------------


def _over(axes):
    def instance_norm(x, weight, bias, eps):
        return affine(right(up(x), axes(x), eps), x, weight, bias)

    return instance_norm


@misconception(
    name="statistics-over-the-batch",
    message="You averaged over the batch, too, which is batch norm; each image has statistics of "
    "its own.",
    link=PAGE + "family-instance",
)
@_over
def over_the_batch(x):
    return (0, *range(2, x.dim()))


@misconception(
    name="statistics-over-channels",
    message="You averaged over the channels, too, which is layer norm; each channel has statistics "
    "of its own.",
    link=PAGE + "family-instance",
)
@_over
def over_channels(x):
    return tuple(range(1, x.dim()))


@misconception(
    name="statistics-at-each-position",
    message="You averaged over the channels at each position; average over the positions of each "
    "channel.",
    link=PAGE + "family-instance",
)
@_over
def at_each_position(x):
    return (1,)


@misconception(
    name="statistics-over-everything",
    message="You took one mean and one variance over the whole tensor; every channel of every "
    "image has its own.",
    link=PAGE + "family-instance",
)
@_over
def over_everything(x):
    return tuple(range(x.dim()))


@misconception(
    name="one-axis-of-positions",
    message="You averaged over one axis of the positions only; average over all axes from 2 on.",
    link=PAGE + "family-instance",
)
@_over
def over_the_last_axis(x):
    return (-1,)


@misconception(name="one-axis-of-positions")
@_over
def over_axis_two(x):
    return (2,)


@misconception(
    name="two-axes-of-positions",
    message="You took it for granted that the positions have two axes; there may be one, two or "
    "three: all axes from 2 on.",
    link=PAGE + "family-instance",
)
@_over
def over_the_last_two(x):
    return (-2, -1)


declare_cores("instance_norm", _with_core)

# -- weight and bias -----------------------------------------------------------------------------

declare_endings("instance_norm", _with_ending)


@misconception(
    name="affine-along-last-axis",
    message="You let weight and bias line up with the last axis; they belong to axis 1, so give "
    "them the shape (C, 1, 1).",
    link=PAGE + "family-affine",
)
def affine_along_last_axis(x, weight, bias, eps):
    return (right(up(x), _positions(x), eps) * weight + bias).to(x.dtype)


@misconception(
    name="affine-before-normalizing",
    message="You applied weight and bias to x before normalizing; they come after.",
    link=PAGE + "family-affine",
)
def affine_before_normalizing(x, weight, bias, eps):
    h = up(x)
    return right(h * along(x, weight) + along(x, bias), _positions(x), eps).to(x.dtype)


# -- dtypes ------------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and "
    "digits are lost; widen x to float32 first.",
    link=PAGE + "family-dtype",
)
def no_upcast(x, weight, bias, eps):
    return affine(right(x, _positions(x), eps), x, weight, bias)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "family-dtype",
)
def result_left_wide(x, weight, bias, eps):
    h = up(x)
    y = right(h, _positions(x), eps)
    return y * along(x, weight).to(h.dtype) + along(x, bias).to(h.dtype)


@misconception(
    name="cast-before-affine",
    message="You cast back to the dtype of x before applying weight and bias (normalize does so, "
    "if you give it a half type); cast once, at the end.",
    link=PAGE + "family-dtype",
)
def cast_before_affine(x, weight, bias, eps):
    return affine(right(up(x), _positions(x), eps).to(x.dtype), x, weight, bias)


@misconception(name="cast-before-affine")
def cast_before_affine_only(x, weight, bias, eps):
    return right(up(x), _positions(x), eps).to(x.dtype) * along(x, weight) + along(x, bias)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "family-dtype",
)
def always_float32(x, weight, bias, eps):
    return affine(right(x.float(), _positions(x), eps), x, weight.float(), bias.float())


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "family-dtype")
def detached_in_half(x, weight, bias, eps):
    h, w, b = half_types.cut(x, weight, bias)
    return affine(right(h, _positions(x), eps), x, w, b)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, weight, bias, eps):
    return affine(right(*half_types.cut(x), _positions(x), eps), x, weight, bias)
