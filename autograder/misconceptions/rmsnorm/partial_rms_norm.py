"""Wrong versions of `partial_rms_norm(x, weight, fraction, eps)`; x is (..., D), weight is (D,)."""

from __future__ import annotations

import math
from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.rmsnorm.rms_norm import PAGE, mean_square, up

misconception = partial(declare, exercise="partial_rms_norm")
PARTIAL = PAGE + "rms-partial"


def _count(fraction: float, d: int) -> int:
    return max(1, int(fraction * d))


def _divided_by(divisor):
    """Right but for what it divides by, `divisor(h, k, eps)`."""

    def partial_rms_norm(x, weight, fraction, eps):
        h, w = up(x, weight)
        return (h / divisor(h, _count(fraction, x.shape[-1]), eps) * w).to(x.dtype)

    return partial_rms_norm


def _counted_by(count):
    """Right but for how many features count, `count(fraction, d)`."""

    def partial_rms_norm(x, weight, fraction, eps):
        h, w = up(x, weight)
        rstd = torch.rsqrt(mean_square(h[..., : count(fraction, x.shape[-1])]) + eps)
        return (h * rstd * w).to(x.dtype)

    return partial_rms_norm


def _around(function):
    """The float32 part is `function(h, weight, k, eps)`."""

    def partial_rms_norm(x, weight, fraction, eps):
        h, w = up(x, weight)
        return function(h, w, _count(fraction, x.shape[-1]), eps).to(x.dtype)

    return partial_rms_norm


# -- which features ----------------------------------------------------------------------------


misconception(
    name="all-features",
    message="You measured all features; the root mean square is that of the first ones only.",
    link=PARTIAL,
)(_counted_by(lambda fraction, d: d))
misconception(
    name="rounded-to-nearest",
    message="You rounded the number of features to the nearest; it is rounded down, but at least "
    "one.",
    link=PARTIAL,
)(_counted_by(lambda fraction, d: max(1, round(fraction * d))))
misconception(
    name="rounded-up",
    message="You rounded the number of features up; it is rounded down, but at least one.",
    link=PARTIAL,
)(_counted_by(lambda fraction, d: math.ceil(fraction * d)))
misconception(
    name="no-feature-left",
    message="You let the number of features become 0, whose mean is NaN; take at least one.",
    link=PARTIAL,
)(_counted_by(lambda fraction, d: int(fraction * d)))
misconception(
    name="one-feature-too-many",
    message="You measured one feature more than asked; x[..., :k] holds k features.",
    link=PARTIAL,
)(_counted_by(lambda fraction, d: int(fraction * d) + 1))


@misconception(
    name="last-features",
    message="You measured the last features; it is the first ones.",
    link=PARTIAL,
)
@_divided_by
def last_features(h, k, eps):
    return torch.sqrt(mean_square(h[..., -k:]) + eps)


@misconception(
    name="every-so-many-features",
    message="You measured features spread over the vector; it is the first ones.",
    link=PARTIAL,
)
@_divided_by
def every_so_many_features(h, k, eps):
    return torch.sqrt(mean_square(h[..., :: h.shape[-1] // k]) + eps)


@misconception(
    name="only-the-first-are-divided",
    message="You divided only the features that were measured; all features are divided.",
    link=PARTIAL,
)
@_around
def only_the_first_are_divided(h, weight, k, eps):
    rstd = torch.rsqrt(mean_square(h[..., :k]) + eps)
    return torch.cat([h[..., :k] * rstd, h[..., k:]], -1) * weight


@misconception(
    name="only-the-first-are-returned",
    message="You returned only the features that were measured; all features are divided.",
    link=PARTIAL,
)
@_around
def only_the_first_are_returned(h, weight, k, eps):
    h, weight = h[..., :k], weight[:k]
    return h * torch.rsqrt(mean_square(h) + eps) * weight


# -- what is divided by ------------------------------------------------------------------------


@misconception(
    name="divided-by-d",
    message="You divided the sum of the measured squares by D; only k of them were added, so "
    "divide by k.",
    link=PARTIAL,
)
@_divided_by
def divided_by_d(h, k, eps):
    return torch.sqrt(h[..., :k].square().sum(-1, keepdim=True) / h.shape[-1] + eps)


@misconception(
    name="sum-instead-of-mean",
    message="You summed the measured squares; take their mean, so divide by k.",
    link=PAGE + "rms-idea",
)
@_divided_by
def sum_instead_of_mean(h, k, eps):
    return torch.sqrt(h[..., :k].square().sum(-1, keepdim=True) + eps)


@misconception(
    name="standard-deviation",
    message="You subtracted the mean of the measured features; nothing is subtracted in RMSNorm.",
    link=PAGE + "rms-no-centering",
)
@_divided_by
def standard_deviation(h, k, eps):
    return torch.sqrt(h[..., :k].var(-1, keepdim=True, correction=0) + eps)


@misconception(
    name="root-forgotten",
    message="You divided by the mean square; divide by its square root.",
    link=PAGE + "rms-idea",
)
@_divided_by
def root_forgotten(h, k, eps):
    return mean_square(h[..., :k]) + eps


@misconception(
    name="eps-outside-root",
    message="You added eps to the root mean square, outside the root, as the authors' code does; "
    "here it belongs under the root.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_outside_root(h, k, eps):
    return torch.sqrt(mean_square(h[..., :k])) + eps


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a vector that begins with zeros divides by zero.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_forgotten(h, k, eps):
    return torch.sqrt(mean_square(h[..., :k]))


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps; use the argument eps.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_hard_coded(h, k, eps):
    return torch.sqrt(mean_square(h[..., :k]) + 1e-6)


# -- weight, dtypes, gradients -------------------------------------------------------------------


@misconception(
    name="weight-forgotten",
    message="You left out the weight; the normalized x is multiplied by it.",
    link=PAGE + "rms-weight",
)
@_around
def weight_forgotten(h, weight, k, eps):
    return h * torch.rsqrt(mean_square(h[..., :k]) + eps)


@misconception(
    name="no-upcast",
    message="You computed the mean of the squares in half precision, where squares overflow; widen"
    " x to float32 first.",
    link=PAGE + "rms-dtype",
)
def no_upcast(x, weight, fraction, eps):
    rstd = torch.rsqrt(mean_square(x[..., : _count(fraction, x.shape[-1])]) + eps)
    return (x * rstd * weight).to(x.dtype)


@misconception(
    name="cast-before-weight",
    message="You cast back to the dtype of x before multiplying by weight; here the cast is the "
    "last step.",
    link=PAGE + "rms-dtype",
)
def cast_before_weight(x, weight, fraction, eps):
    (h,) = up(x)
    rstd = torch.rsqrt(mean_square(h[..., : _count(fraction, x.shape[-1])]) + eps)
    return ((h * rstd).to(x.dtype) * weight).to(x.dtype)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "rms-dtype",
)
def result_left_wide(x, weight, fraction, eps):
    h, w = up(x, weight)
    rstd = torch.rsqrt(mean_square(h[..., : _count(fraction, x.shape[-1])]) + eps)
    return h * rstd * w


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "rms-dtype",
)
def always_float32(x, weight, fraction, eps):
    h = x.float()
    rstd = torch.rsqrt(mean_square(h[..., : _count(fraction, x.shape[-1])]) + eps)
    return (h * rstd * weight.float()).to(x.dtype)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "rms-dtype")
def detached_in_half(x, weight, fraction, eps):
    h, w = half_types.cut(x, weight)
    rstd = torch.rsqrt(mean_square(h[..., : _count(fraction, x.shape[-1])]) + eps)
    return (h * rstd * w).to(x.dtype)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, weight, fraction, eps):
    (h,) = half_types.cut(x)
    rstd = torch.rsqrt(mean_square(h[..., : _count(fraction, x.shape[-1])]) + eps)
    return (h * rstd * weight).to(x.dtype)


@misconception(
    name="divisor-detached",
    message="You cut the root mean square out of the graph (detach, no_grad, .data, .item or "
    "numpy); it depends on x, and the gradient must flow through it.",
    link=PAGE + "rms-backward",
)
@_around
def divisor_detached(h, weight, k, eps):
    return h * torch.rsqrt(mean_square(h[..., :k]) + eps).detach() * weight


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as *= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "rms-in-place",
)
@_around
def input_modified(h, weight, k, eps):
    h *= torch.rsqrt(mean_square(h[..., :k]) + eps)  # h is x itself, unless that is of a half type
    return h * weight
