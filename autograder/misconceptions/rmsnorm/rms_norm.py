"""Wrong versions of `rms_norm(x, weight, eps)`; x is (..., D), weight is (D,)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare

PAGE = "rmsnorm.html#"
misconception = partial(declare, exercise="rms_norm")


def up(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The right beginning: half types are widened to float32."""
    half = (torch.float16, torch.bfloat16)
    return [t.float() if t.dtype in half else t for t in tensors]


def mean_square(h: torch.Tensor) -> torch.Tensor:
    return h.square().mean(-1, keepdim=True)


def _divided_by(divisor):
    """An RMSNorm that is right but for what it divides by, `divisor(h, eps)`."""

    def rms_norm(x, weight, eps):
        (h,) = up(x)
        return (h / divisor(h, eps) * weight).to(x.dtype)

    return rms_norm


def _around(function):
    """An RMSNorm whose float32 part is `function(h, weight, eps)`."""

    def rms_norm(x, weight, eps):
        h, w = up(x, weight)
        return function(h, w, eps).to(x.dtype)

    return rms_norm


# -- what is divided by ----------------------------------------------------------------------


@misconception(
    name="sum-instead-of-mean",
    message="You summed the squares; RMSNorm takes their mean, so divide by D.",
    link=PAGE + "rms-idea",
)
@_divided_by
def sum_instead_of_mean(h, eps):
    return torch.sqrt(h.square().sum(-1, keepdim=True) + eps)


@misconception(name="sum-instead-of-mean")
@_divided_by
def length_plus_eps(h, eps):
    return h.norm(dim=-1, keepdim=True) + eps


@misconception(
    name="standard-deviation",
    message="You divided by the standard deviation, which subtracts the mean; RMSNorm divides by"
    " the root of the mean of the squares of x itself.",
    link=PAGE + "rms-no-centering",
)
@_divided_by
def standard_deviation(h, eps):
    return torch.sqrt(h.var(-1, keepdim=True, correction=0) + eps)


@misconception(name="standard-deviation")
@_divided_by
def unbiased_standard_deviation(h, eps):
    centered = h - h.mean(-1, keepdim=True)
    return torch.sqrt(centered.square().sum(-1, keepdim=True) / (h.shape[-1] - 1) + eps)


@misconception(
    name="divided-by-d-minus-1",
    message="You divided the sum of the squares by D - 1; the mean divides by D.",
    link=PAGE + "rms-idea",
)
@_divided_by
def divided_by_d_minus_1(h, eps):
    return torch.sqrt(h.square().sum(-1, keepdim=True) / (h.shape[-1] - 1) + eps)


@misconception(
    name="root-forgotten",
    message="You divided by the mean square; RMSNorm divides by its square root.",
    link=PAGE + "rms-idea",
)
@_divided_by
def root_forgotten(h, eps):
    return mean_square(h) + eps


@misconception(
    name="multiplied-by-rms",
    message="You multiplied by the root mean square; RMSNorm divides by it (rsqrt, not sqrt).",
    link=PAGE + "rms-idea",
)
@_divided_by
def multiplied_by_rms(h, eps):
    return torch.rsqrt(mean_square(h) + eps)


@misconception(
    name="mean-of-absolute-values",
    message="You divided by the mean of the absolute values; RMSNorm squares, takes the mean, and"
    " then the root.",
    link=PAGE + "rms-idea",
)
@_divided_by
def mean_of_absolute_values(h, eps):
    return h.abs().mean(-1, keepdim=True) + eps


@misconception(
    name="square-of-the-mean",
    message="You squared the mean; RMSNorm takes the mean of the squares.",
    link=PAGE + "rms-idea",
)
@_divided_by
def square_of_the_mean(h, eps):
    return torch.sqrt(h.mean(-1, keepdim=True).square() + eps)


# -- eps -------------------------------------------------------------------------------------


@misconception(
    name="eps-outside-root",
    message="You added eps to the root mean square, outside the root, as the authors' first code"
    " did; here it belongs under the root: sqrt(mean square + eps).",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_outside_root(h, eps):
    return torch.sqrt(mean_square(h)) + eps


@misconception(
    name="eps-clamped",
    message="You used eps as a lower limit (clamp or max); RMSNorm adds it to the mean square.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_clamps_rms(h, eps):
    return torch.sqrt(mean_square(h)).clamp(min=eps)


@misconception(name="eps-clamped")
@_divided_by
def eps_clamps_mean_square(h, eps):
    return torch.sqrt(mean_square(h).clamp(min=eps))


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a vector of zeros divides by zero.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_forgotten(h, eps):
    return torch.sqrt(mean_square(h))


def _fixed_eps(value):
    @_divided_by
    def rms_norm(h, eps):
        return torch.sqrt(mean_square(h) + value)

    return rms_norm


for _value in (1e-6, 1e-5, 1e-8, torch.finfo(torch.float32).eps):
    misconception(
        name="eps-hard-coded",
        message="You used a fixed eps; use the argument eps.",
        link=PAGE + "rms-eps",
    )(_fixed_eps(_value))


@misconception(
    name="eps-twice",
    message="You added eps twice, under the root and again outside; once under the root is enough.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_twice(h, eps):
    return torch.sqrt(mean_square(h) + eps) + eps


# -- which numbers share their mean square ---------------------------------------------------


def _over(dims):
    @_divided_by
    def rms_norm(h, eps):
        return torch.sqrt(h.square().mean(dims(h.dim()), keepdim=True) + eps)

    return rms_norm


misconception(
    name="over-the-batch",
    message="You took the mean of the squares across vectors (the batch); RMSNorm takes it along "
    "the last axis, for each vector alone.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: 0))
misconception(name="over-the-batch")(_over(lambda rank: tuple(range(max(rank - 1, 1)))))
misconception(
    name="over-axis-1",
    message="You took the mean of the squares along axis 1, which is the last axis only when x "
    "has two axes; use axis -1.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: 1))
misconception(
    name="over-all-axes",
    message="You took one mean of squares for the whole tensor; each vector has its own, along the"
    " last axis.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: tuple(range(rank))))
misconception(
    name="over-all-but-the-batch",
    message="You took the mean of the squares over every axis but the first; RMSNorm takes it along"
    " the last axis only.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: tuple(range(1, rank)) or (0,)))


@misconception(
    name="keepdim-forgotten",
    message="You dropped the last axis of the mean square, so it broadcast along the wrong axis; "
    "keepdim=True keeps it in place.",
    link=PAGE + "rms-which-axis",
)
@_divided_by
def keepdim_forgotten(h, eps):
    return torch.sqrt(h.square().mean(-1) + eps)


# -- centering -------------------------------------------------------------------------------


@misconception(
    name="centered",
    message="You subtracted the mean, which is layer norm; RMSNorm subtracts nothing.",
    link=PAGE + "rms-no-centering",
)
@_around
def centered(h, weight, eps):
    h = h - h.mean(-1, keepdim=True)
    return h / torch.sqrt(mean_square(h) + eps) * weight


@misconception(
    name="centered-above-only",
    message="You subtracted the mean from x, but divided by the root mean square of the x before"
    " that; RMSNorm subtracts nothing.",
    link=PAGE + "rms-no-centering",
)
@_around
def centered_above_only(h, weight, eps):
    return (h - h.mean(-1, keepdim=True)) / torch.sqrt(mean_square(h) + eps) * weight


# -- weight ----------------------------------------------------------------------------------


@misconception(
    name="weight-forgotten",
    message="You left out the weight; the normalized x is multiplied by it.",
    link=PAGE + "rms-weight",
)
@_around
def weight_forgotten(h, weight, eps):
    return h / torch.sqrt(mean_square(h) + eps)


@misconception(
    name="one-plus-weight",
    message="You multiplied by 1 + weight, as Gemma does; here it is weight alone.",
    link=PAGE + "rms-weight",
)
@_around
def one_plus_weight(h, weight, eps):
    return h / torch.sqrt(mean_square(h) + eps) * (1 + weight)


@misconception(
    name="weight-before-normalizing",
    message="You multiplied x by weight before normalizing; the weight comes after.",
    link=PAGE + "rms-weight",
)
@_around
def weight_before_normalizing(h, weight, eps):
    h = h * weight
    return h / torch.sqrt(mean_square(h) + eps)


@misconception(
    name="divided-by-weight",
    message="You divided by weight; the normalized x is multiplied by it.",
    link=PAGE + "rms-weight",
)
@_around
def divided_by_weight(h, weight, eps):
    return h / torch.sqrt(mean_square(h) + eps) / weight


# -- dtypes ----------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed the mean of the squares in half precision, where squares overflow and "
    "underflow; widen x to float32 first.",
    link=PAGE + "rms-dtype",
)
def no_upcast(x, weight, eps):
    return (x * torch.rsqrt(mean_square(x) + eps) * weight).to(x.dtype)


@misconception(name="no-upcast")
def no_upcast_by_division(x, weight, eps):
    return (weight * x / torch.sqrt(mean_square(x) + eps)).to(x.dtype)


@misconception(
    name="cast-before-weight",
    message="You cast back to the dtype of x before multiplying by weight, as Llama's code does; "
    "here the cast is the last step.",
    link=PAGE + "rms-dtype",
)
def cast_before_weight(x, weight, eps):
    (h,) = up(x)
    return ((h * torch.rsqrt(mean_square(h) + eps)).to(x.dtype) * weight).to(x.dtype)


@misconception(name="cast-before-weight")
def cast_before_weight_and_left(x, weight, eps):
    (h,) = up(x)
    return (h * torch.rsqrt(mean_square(h) + eps)).to(x.dtype) * weight


@misconception(
    name="only-the-square-in-float32",
    message="You widened x for the mean of the squares only, and multiplied in half precision; do "
    "everything in float32, and cast back once.",
    link=PAGE + "rms-dtype",
)
def only_the_square_in_float32(x, weight, eps):
    (h,) = up(x)
    return (x * torch.rsqrt(mean_square(h) + eps).to(x.dtype) * weight).to(x.dtype)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "rms-dtype",
)
def result_left_wide(x, weight, eps):
    h, w = up(x, weight)
    return h * torch.rsqrt(mean_square(h) + eps) * w


@misconception(name="result-left-wide")
def result_left_in_float64(x, weight, eps):
    h = x.double()
    return h * torch.rsqrt(mean_square(h) + eps) * weight.double()


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "rms-dtype",
)
def always_float32(x, weight, eps):
    h = x.float()
    return (h * torch.rsqrt(mean_square(h) + eps) * weight.float()).to(x.dtype)


# -- memory and gradients -----------------------------------------------------------------------


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as *= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "rms-in-place",
)
def input_modified(x, weight, eps):
    (h,) = up(x)  # the same tensor as x, when x is float32 or float64
    h *= torch.rsqrt(mean_square(h) + eps)
    return (h * weight).to(x.dtype)


@misconception(
    name="divisor-detached",
    message="You cut the root mean square out of the graph (detach, no_grad, .data, .item or "
    "numpy); it depends on x, and the gradient must flow through it.",
    link=PAGE + "rms-backward",
)
def divisor_detached(x, weight, eps):
    (h,) = up(x)
    return (h * torch.rsqrt(mean_square(h) + eps).detach() * weight).to(x.dtype)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "rms-dtype")
def detached_in_half(x, weight, eps):
    h, w = half_types.cut(x, weight)
    return (h * torch.rsqrt(mean_square(h) + eps) * w).to(x.dtype)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, weight, eps):
    (h,) = half_types.cut(x)
    return (h * torch.rsqrt(mean_square(h) + eps) * weight).to(x.dtype)


@misconception(
    name="graph-cut",
    message="Your result carries no gradient (detach, no_grad, .data or numpy around the whole "
    "computation); training needs it.",
    link=PAGE + "rms-backward",
)
@torch.no_grad()
def graph_cut(x, weight, eps):
    (h,) = up(x)
    return (h * torch.rsqrt(mean_square(h) + eps) * weight).to(x.dtype)
