"""Wrong versions of `layer_norm(x, weight, bias, eps)`: dtypes, memory, gradients."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.layernorm.layer_norm import PAGE, affine, normalize, up

misconception = partial(declare, exercise="layer_norm")

# -- dtypes ------------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and "
    "digits are lost; widen x to float32 first.",
    link=PAGE + "dtype-and-upcast",
)
def no_upcast(x, weight, bias, eps):
    y = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps)
    return affine(y, x, weight, bias)


@misconception(name="no-upcast")
def no_upcast_by_squares(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    y = centered / torch.sqrt((centered**2).mean(-1, keepdim=True) + eps)
    return affine(y, x, weight, bias)


def _no_casts(divisor, weight_first):
    """Code without a thought for dtypes, as most listings are."""

    def layer_norm(x, weight, bias, eps):
        centered, by = x - x.mean(-1, keepdim=True), divisor(x, eps)
        return (weight * centered / by if weight_first else centered / by * weight) + bias

    return layer_norm


def _std(x: torch.Tensor, correction: int) -> torch.Tensor:
    """`x.std`, but without torch's warning where it is NaN."""
    if x.shape[-1] <= correction:
        return torch.full_like(x[..., :1], torch.nan)
    return x.std(-1, correction=correction, keepdim=True)


def _var(x: torch.Tensor, correction: int) -> torch.Tensor:
    if x.shape[-1] <= correction:
        return torch.full_like(x[..., :1], torch.nan)
    return x.var(-1, correction=correction, keepdim=True)


# Orders of operations round differently in half precision, and are told apart by it.
NO_CASTS = [
    misconception(parts=parts)(_no_casts(divisor, weight_first))
    for weight_first in (False, True)
    for parts, divisor in (
        (("no-upcast",), lambda x, eps: torch.sqrt(_var(x, 0) + eps)),
        (("unbiased-variance", "no-upcast"), lambda x, eps: torch.sqrt(_var(x, 1) + eps)),
        (("eps-outside-root", "no-upcast"), lambda x, eps: _std(x, 0) + eps),
        (
            ("unbiased-variance", "eps-outside-root", "no-upcast"),
            lambda x, eps: _std(x, 1) + eps,
        ),
    )
]


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "dtype-and-upcast",
)
def result_left_in_float32(x, weight, bias, eps):
    h = up(x)
    return normalize(h, eps) * weight.to(h.dtype) + bias.to(h.dtype)


@misconception(name="result-left-wide")
def result_left_in_float64(x, weight, bias, eps):
    return normalize(x.double(), eps) * weight.double() + bias.double()


@misconception(
    name="cast-before-affine",
    message="You cast back to the dtype of x before applying weight and bias; cast once, at the"
    " end.",
    link=PAGE + "dtype-and-upcast",
)
def cast_beforeaffine(x, weight, bias, eps):
    y = normalize(up(x), eps).to(x.dtype)
    return y * weight + bias


@misconception(name="cast-before-affine")
def cast_before_and_afteraffine(x, weight, bias, eps):
    y = normalize(up(x), eps).to(x.dtype)
    return (y * weight + bias).to(x.dtype)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "dtype-and-upcast",
)
def always_float32(x, weight, bias, eps):
    y = normalize(x.float(), eps) * weight.float() + bias.float()
    return y.to(x.dtype)


# -- memory and gradients -------------------------------------------------------------------------


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as -= or a method that ends in "
    "_); make a new tensor.",
    link=PAGE + "in-place",
)
def input_modified(x, weight, bias, eps):
    h = up(x)  # the same tensor as x, when x is float32 or float64
    h -= h.mean(-1, keepdim=True)
    return affine(h / torch.sqrt((h**2).mean(-1, keepdim=True) + eps), x, weight, bias)


@misconception(name="input-modified")
def input_normalized_in_place(x, weight, bias, eps):
    h = up(x)
    h -= h.mean(-1, keepdim=True)
    h /= torch.sqrt((h**2).mean(-1, keepdim=True) + eps)
    return affine(h, x, weight, bias)


@misconception(
    name="statistics-detached",
    message="You cut mean and variance out of the graph (detach, no_grad, .data, .item or "
    "numpy); they depend on x, and the gradient must flow through them.",
    link=PAGE + "backward-derivation",
)
def statistics_detached(x, weight, bias, eps):
    h = up(x)
    mean, var = h.mean(-1, keepdim=True).detach(), h.var(-1, keepdim=True, unbiased=False).detach()
    return affine((h - mean) / torch.sqrt(var + eps), x, weight, bias)


@misconception(name="statistics-detached")
def variance_detached(x, weight, bias, eps):
    h = up(x)
    var = h.detach().var(-1, keepdim=True, unbiased=False)
    return affine((h - h.mean(-1, keepdim=True)) / torch.sqrt(var + eps), x, weight, bias)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "dtype-and-upcast")
def detached_in_half(x, weight, bias, eps):
    h, w, b = half_types.cut(x, weight, bias)
    return affine(normalize(h, eps), x, w, b)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, weight, bias, eps):
    (h,) = half_types.cut(x)
    return affine(normalize(h, eps), x, weight, bias)


@misconception(
    name="graph-cut",
    message="Your result carries no gradient (detach, no_grad, .data or numpy around the whole "
    "computation); training needs it.",
    link=PAGE + "backward-derivation",
)
@torch.no_grad()
def graph_cut(x, weight, bias, eps):
    return affine(normalize(up(x), eps), x, weight, bias)
