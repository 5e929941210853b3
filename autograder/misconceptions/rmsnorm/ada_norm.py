"""Wrong versions of `ada_norm(x, c, k, eps)`; x is (..., D), c and k are numbers."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.rmsnorm.rms_norm import PAGE, mean_square, up

misconception = partial(declare, exercise="ada_norm")
ADA_NORM = PAGE + "rms-ada-norm"


def _mean(h: torch.Tensor) -> torch.Tensor:
    return h.mean(-1, keepdim=True)


def _variance(h: torch.Tensor) -> torch.Tensor:
    return mean_square(h - _mean(h))


def _unbiased(h: torch.Tensor) -> torch.Tensor:
    """`h.var(-1, keepdim=True)`, but without torch's warning at D = 1 (the result is NaN too)."""
    return (h - _mean(h)).square().sum(-1, keepdim=True) / (h.shape[-1] - 1)


def _normalize(h: torch.Tensor, eps: float) -> torch.Tensor:
    return (h - _mean(h)) * torch.rsqrt(_variance(h) + eps)


# -- the factor ----------------------------------------------------------------------------------


def _modified(function):
    """An AdaNorm that is right but for what it makes of y, `function(y, c, k)`."""

    def ada_norm(x, c, k, eps):
        (h,) = up(x)
        return function(_normalize(h, eps), c, k).to(x.dtype)

    return ada_norm


@misconception(
    name="factor-not-detached",
    message="You let gradients flow through the factor c (1 - k y); in AdaNorm it is a constant for"
    " the backward pass, so detach it.",
    link=ADA_NORM,
)
@_modified
def factor_not_detached(y, c, k):
    return c * (1 - k * y) * y


@misconception(
    name="wrong-part-detached",
    message="You detached the y that is multiplied; detach the factor c (1 - k y) and let gradients"
    " flow through the other y.",
    link=ADA_NORM,
)
@_modified
def wrong_part_detached(y, c, k):
    return c * (1 - k * y) * y.detach()


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "rms-dtype")
def detached_in_half(x, c, k, eps):
    (h,) = half_types.cut(x)
    y = _normalize(h, eps)
    return ((c * (1 - k * y)).detach() * y).to(x.dtype)


@misconception(
    name="graph-cut",
    message="Your result carries no gradient; detach the factor c (1 - k y) only.",
    link=ADA_NORM,
)
@_modified
def graph_cut(y, c, k):
    return (c * (1 - k * y) * y).detach()


@misconception(
    name="scalar-factor",
    message="You multiplied by c alone, which is layer norm times a number; AdaNorm multiplies by "
    "c (1 - k y), and that depends on each y.",
    link=ADA_NORM,
)
@_modified
def scalar_factor(y, c, k):
    return c * y


@misconception(
    name="plus-instead-of-minus",
    message="You multiplied by 1 + k y; the factor is c (1 - k y), so large y are turned down.",
    link=ADA_NORM,
)
@_modified
def plus_instead_of_minus(y, c, k):
    return (c * (1 + k * y)).detach() * y


@misconception(
    name="c-forgotten",
    message="You left out c; the factor is c (1 - k y).",
    link=ADA_NORM,
)
@_modified
def c_forgotten(y, c, k):
    return (1 - k * y).detach() * y


@misconception(
    name="c-on-one-term-only",
    message="You multiplied only a part by c; the factor is c (1 - k y), with both terms in the "
    "parentheses.",
    link=ADA_NORM,
)
@_modified
def c_on_one_term_only(y, c, k):
    return (c - k * y).detach() * y


@misconception(
    name="c-and-k-swapped",
    message="You swapped c and k: c scales the result, k says how strongly the factor follows y.",
    link=ADA_NORM,
)
@_modified
def c_and_k_swapped(y, c, k):
    return (k * (1 - c * y)).detach() * y


@misconception(
    name="absolute-value-in-factor",
    message="You used the absolute value of y in the factor; it is c (1 - k y), sign included.",
    link=ADA_NORM,
)
@_modified
def absolute_value_in_factor(y, c, k):
    return (c * (1 - k * y.abs())).detach() * y


@misconception(
    name="square-in-factor",
    message="You squared y in the factor; it is c (1 - k y).",
    link=ADA_NORM,
)
@_modified
def square_in_factor(y, c, k):
    return (c * (1 - k * y.square())).detach() * y


@misconception(
    name="only-the-factor",
    message="You returned the factor c (1 - k y) itself; it multiplies y.",
    link=ADA_NORM,
)
@_modified
def only_the_factor(y, c, k):
    return c * (1 - k * y)


@misconception(
    name="x-in-factor",
    message="You used x in the factor; it is c (1 - k y), with the normalized y.",
    link=ADA_NORM,
)
def x_in_factor(x, c, k, eps):
    (h,) = up(x)
    return ((c * (1 - k * h)).detach() * _normalize(h, eps)).to(x.dtype)


@misconception(
    name="factor-times-x",
    message="You multiplied x by the factor; it multiplies the normalized y.",
    link=ADA_NORM,
)
def factor_times_x(x, c, k, eps):
    (h,) = up(x)
    return ((c * (1 - k * _normalize(h, eps))).detach() * h).to(x.dtype)


# -- the normalization ---------------------------------------------------------------------------


def _normalized_by(normalize):
    """An AdaNorm that is right but for its y, `normalize(h, eps)`."""

    def ada_norm(x, c, k, eps):
        (h,) = up(x)
        y = normalize(h, eps)
        return ((c * (1 - k * y)).detach() * y).to(x.dtype)

    return ada_norm


@misconception(
    name="rms-instead-of-layer-norm",
    message="You did not subtract the mean, as in RMSNorm; AdaNorm starts from layer norm.",
    link=ADA_NORM,
)
@_normalized_by
def rms_instead_of_layer_norm(h, eps):
    return h * torch.rsqrt(mean_square(h) + eps)


@misconception(
    name="unbiased-variance",
    message="You divided the squared deviations by D - 1 (torch's default for var and std), as the"
    " authors' code does; here the variance is the biased one.",
    link=ADA_NORM,
)
@_normalized_by
def unbiased_variance(h, eps):
    return (h - _mean(h)) * torch.rsqrt(_unbiased(h) + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; here it belongs under the "
    "root: sqrt(var + eps).",
    link=PAGE + "rms-eps",
)
@_normalized_by
def eps_outside_root(h, eps):
    return (h - _mean(h)) / (torch.sqrt(_variance(h)) + eps)


@misconception(parts=("unbiased-variance", "eps-outside-root"))
@_normalized_by
def std_plus_eps(h, eps):
    return (h - _mean(h)) / (torch.sqrt(_unbiased(h)) + eps)


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a vector of equal numbers divides by zero.",
    link=PAGE + "rms-eps",
)
@_normalized_by
def eps_forgotten(h, eps):
    return (h - _mean(h)) / torch.sqrt(_variance(h))


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps; use the argument eps.",
    link=PAGE + "rms-eps",
)
@_normalized_by
def eps_hard_coded(h, eps):
    return _normalize(h, 1e-5)


@misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the mean "
    "is large; subtract the mean first, then square.",
    link=ADA_NORM,
)
@_normalized_by
def one_pass_variance(h, eps):
    return (h - _mean(h)) / torch.sqrt(mean_square(h) - _mean(h).square() + eps)


def _over(dims):
    @_normalized_by
    def ada_norm(h, eps):
        over = dims(h.dim())
        centered = h - h.mean(over, keepdim=True)
        return centered * torch.rsqrt(centered.square().mean(over, keepdim=True) + eps)

    return ada_norm


misconception(
    name="over-the-batch",
    message="You took mean and variance across vectors (the batch); take them along the last axis,"
    " for each vector alone.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: 0))
misconception(
    name="over-all-axes",
    message="You took one mean and one variance for the whole tensor; each vector has its own, "
    "along the last axis.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: tuple(range(rank))))


# -- dtypes, memory, gradients -------------------------------------------------------------------


@misconception(
    name="statistics-detached",
    message="You cut mean and variance out of the graph; only the factor is a constant, and "
    "gradients flow through mean and variance.",
    link=ADA_NORM,
)
@_normalized_by
def statistics_detached(h, eps):
    return (h - _mean(h).detach()) * torch.rsqrt(_variance(h) + eps).detach()


@misconception(
    name="no-upcast",
    message="You computed in half precision, where squares overflow and digits are lost; widen x "
    "to float32 first.",
    link=PAGE + "rms-dtype",
)
def no_upcast(x, c, k, eps):
    y = _normalize(x, eps)
    return (c * (1 - k * y)).detach() * y


@misconception(
    name="cast-before-factor",
    message="You cast y back to the dtype of x before the factor; the cast is the last step.",
    link=PAGE + "rms-dtype",
)
def cast_before_factor(x, c, k, eps):
    (h,) = up(x)
    y = _normalize(h, eps).to(x.dtype)
    return (c * (1 - k * y)).detach() * y


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "rms-dtype",
)
def result_left_wide(x, c, k, eps):
    (h,) = up(x)
    y = _normalize(h, eps)
    return (c * (1 - k * y)).detach() * y


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "rms-dtype",
)
def always_float32(x, c, k, eps):
    y = _normalize(x.float(), eps)
    return ((c * (1 - k * y)).detach() * y).to(x.dtype)


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as -= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "rms-in-place",
)
@_normalized_by
def input_modified(h, eps):
    h -= _mean(h)  # h is x itself, unless that is of a half type
    return h * torch.rsqrt(mean_square(h) + eps)
