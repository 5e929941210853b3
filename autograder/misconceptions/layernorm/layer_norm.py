"""Wrong versions of `layer_norm(x, weight, bias, eps)`; x is (..., D), weight and bias are (D,)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare

PAGE = "layernorm.html#"
misconception = partial(declare, exercise="layer_norm")


def _affine(y: torch.Tensor, x: torch.Tensor, weight, bias) -> torch.Tensor:
    """The right ending: weight and bias in y's precision, then back to the dtype of x."""
    return (y * weight + bias).to(x.dtype)


def _up(x: torch.Tensor) -> torch.Tensor:
    """The right beginning: half types are widened to float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _var(h: torch.Tensor) -> torch.Tensor:
    return (h - h.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)


def _unbiased(h: torch.Tensor) -> torch.Tensor:
    """`h.var(-1, keepdim=True)`, but without torch's warning at D = 1 (the result is NaN too)."""
    return (h - h.mean(-1, keepdim=True)).square().sum(-1, keepdim=True) / (h.shape[-1] - 1)


def _divided_by(divisor):
    """A layer norm that is right but for what it divides by, `divisor(h, eps)`."""

    def layer_norm(x, weight, bias, eps):
        h = _up(x)
        return _affine((h - h.mean(-1, keepdim=True)) / divisor(h, eps), x, weight, bias)

    return layer_norm


# -- the variance ----------------------------------------------------------------------------


@misconception(
    name="unbiased-variance",
    message="You divided the squared deviations by D - 1 (torch's default for var and std); "
    "layer norm divides by D.",
    link=PAGE + "biased-variance",
)
@_divided_by
def unbiased_variance(h, eps):
    return torch.sqrt(_unbiased(h) + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the root: "
    "sqrt(var + eps).",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_outside_root(h, eps):
    return torch.sqrt(_var(h)) + eps


@misconception(parts=("unbiased-variance", "eps-outside-root"))
@_divided_by
def std_plus_eps(h, eps):
    return torch.sqrt(_unbiased(h)) + eps


@misconception(
    name="root-forgotten",
    message="You divided by the variance; layer norm divides by its square root.",
    link=PAGE + "eps-inside",
)
@_divided_by
def root_forgotten(h, eps):
    return _var(h) + eps


@misconception(parts=("root-forgotten", "unbiased-variance"))
@_divided_by
def unbiased_and_no_root(h, eps):
    return _unbiased(h) + eps


@misconception(
    name="root-of-std",
    message="You took the root of the standard deviation; the variance belongs under the root.",
    link=PAGE + "eps-inside",
)
@_divided_by
def root_of_std(h, eps):
    return torch.sqrt(torch.sqrt(_var(h)) + eps)


@misconception(parts=("root-of-std", "unbiased-variance"))
@_divided_by
def root_of_unbiased_std(h, eps):
    return torch.sqrt(torch.sqrt(_unbiased(h)) + eps)


@misconception(
    name="multiplied-by-std",
    message="You multiplied by the standard deviation; layer norm divides by it.",
    link=PAGE + "eps-inside",
)
@_divided_by
def multiplied_by_std(h, eps):
    return torch.rsqrt(_var(h) + eps)


@misconception(
    name="sum-instead-of-mean",
    message="You summed the squared deviations; the variance is their mean, so divide by D.",
    link=PAGE + "biased-variance",
)
@_divided_by
def sum_instead_of_mean(h, eps):
    return torch.sqrt(_var(h) * h.shape[-1] + eps)


@misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the mean is "
    "large; subtract the mean first, then square.",
    link=PAGE + "one-pass-variance",
)
@_divided_by
def one_pass_variance(h, eps):
    return torch.sqrt((h**2).mean(-1, keepdim=True) - h.mean(-1, keepdim=True) ** 2 + eps)


@misconception(name="one-pass-variance")
@_divided_by
def one_pass_variance_clamped(h, eps):
    mean = h.mean(-1, keepdim=True)
    return torch.sqrt(((h * h).mean(-1, keepdim=True) - mean * mean).clamp(min=0) + eps)


# -- eps -------------------------------------------------------------------------------------


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a row of equal numbers divides by zero.",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_forgotten(h, eps):
    return torch.sqrt(_var(h))


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps of 1e-5; use the argument eps.",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_hard_coded(h, eps):
    return torch.sqrt(_var(h) + 1e-5)


@misconception(parts=("eps-hard-coded", "unbiased-variance"))
@_divided_by
def eps_hard_coded_and_unbiased(h, eps):
    return torch.sqrt(_unbiased(h) + 1e-5)


@misconception(
    name="eps-twice",
    message="You added eps twice, under the root and again outside; once under the root is enough.",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_twice(h, eps):
    return torch.sqrt(_var(h) + eps) + eps


@misconception(
    name="eps-clamped",
    message="You used eps as a lower limit (clamp or max); layer norm adds it to the variance.",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_clamps_std(h, eps):
    return torch.sqrt(_var(h)).clamp(min=eps)


@misconception(name="eps-clamped")
@_divided_by
def eps_clamps_variance(h, eps):
    return torch.sqrt(_var(h).clamp(min=eps))


# -- which numbers share their statistics ----------------------------------------------------


def _over(x, weight, bias, eps, dims):
    h = _up(x)
    var = h.var(dims, keepdim=True, unbiased=False)
    return _affine((h - h.mean(dims, keepdim=True)) / torch.sqrt(var + eps), x, weight, bias)


@misconception(
    name="statistics-over-batch",
    message="You took mean and variance across rows (the batch), as batch norm does; layer norm "
    "takes them along the last axis, for each row alone.",
    link=PAGE + "which-axis",
)
def statistics_over_batch(x, weight, bias, eps):
    return _over(x, weight, bias, eps, 0)


@misconception(name="statistics-over-batch")
def statistics_over_leading_axes(x, weight, bias, eps):
    return _over(x, weight, bias, eps, tuple(range(max(x.dim() - 1, 1))))


@misconception(
    name="statistics-over-axis-1",
    message="You took mean and variance along axis 1, which is the last axis only when x has two "
    "axes; use axis -1.",
    link=PAGE + "which-axis",
)
def statistics_over_axis_1(x, weight, bias, eps):
    return _over(x, weight, bias, eps, 1)


@misconception(
    name="statistics-over-all-axes",
    message="You took one mean and one variance over the whole tensor; layer norm takes them along "
    "the last axis, for each row alone.",
    link=PAGE + "which-axis",
)
def statistics_over_all_axes(x, weight, bias, eps):
    return _over(x, weight, bias, eps, tuple(range(x.dim())))


@misconception(
    name="statistics-over-all-but-batch",
    message="You took mean and variance over every axis but the first; here layer norm takes them "
    "along the last axis only.",
    link=PAGE + "which-axis",
)
def statistics_over_all_but_batch(x, weight, bias, eps):
    return _over(x, weight, bias, eps, tuple(range(1, x.dim())) or (0,))


@misconception(
    name="keepdim-forgotten",
    message="You dropped the last axis of the mean or the variance, so it broadcast along the wrong "
    "axis; keepdim=True keeps it in place.",
    link=PAGE + "which-axis",
)
def keepdim_forgotten(x, weight, bias, eps):
    h = _up(x)
    y = (h - h.mean(-1)) / torch.sqrt(h.var(-1, unbiased=False) + eps)
    return _affine(y, x, weight, bias)


# -- centering -------------------------------------------------------------------------------


@misconception(
    name="rms-instead-of-variance",
    message="You divided by the root mean square without subtracting the mean, which is RMSNorm; "
    "layer norm subtracts the mean first.",
    link=PAGE + "center-first",
)
def rms_instead_of_variance(x, weight, bias, eps):
    h = _up(x)
    y = h / torch.sqrt((h**2).mean(-1, keepdim=True) + eps)
    return _affine(y, x, weight, bias)


@misconception(
    name="mean-not-subtracted",
    message="You divided x by its standard deviation without subtracting its mean first.",
    link=PAGE + "center-first",
)
def mean_not_subtracted(x, weight, bias, eps):
    h = _up(x)
    return _affine(h / torch.sqrt(_var(h) + eps), x, weight, bias)


@misconception(
    name="rms-of-uncentered",
    message="You subtracted the mean, but divided by the root mean square of the x before that; "
    "the variance is the mean square of the centered x.",
    link=PAGE + "center-first",
)
@_divided_by
def rms_of_uncentered(h, eps):
    return torch.sqrt((h**2).mean(-1, keepdim=True) + eps)


# -- weight and bias -------------------------------------------------------------------------


def _normalize(h: torch.Tensor, eps: float) -> torch.Tensor:
    return (h - h.mean(-1, keepdim=True)) * torch.rsqrt(_var(h) + eps)


@misconception(
    name="bias-forgotten",
    message="You left out the bias; it is added last.",
    link=PAGE + "affine-shape",
)
def bias_forgotten(x, weight, bias, eps):
    return (_normalize(_up(x), eps) * weight).to(x.dtype)


@misconception(
    name="weight-forgotten",
    message="You left out the weight; the normalized x is multiplied by it.",
    link=PAGE + "affine-shape",
)
def weight_forgotten(x, weight, bias, eps):
    return (_normalize(_up(x), eps) + bias).to(x.dtype)


@misconception(parts=("weight-forgotten", "bias-forgotten"))
def affine_forgotten(x, weight, bias, eps):
    return _normalize(_up(x), eps).to(x.dtype)


@misconception(
    name="affine-before-normalizing",
    message="You applied weight and bias to x before normalizing; they come after.",
    link=PAGE + "affine-shape",
)
def affine_before_normalizing(x, weight, bias, eps):
    return _normalize(_up(x) * weight + bias, eps).to(x.dtype)


@misconception(
    name="bias-before-weight",
    message="You added the bias before multiplying by the weight; multiply first, then add.",
    link=PAGE + "affine-shape",
)
def bias_before_weight(x, weight, bias, eps):
    return ((_normalize(_up(x), eps) + bias) * weight).to(x.dtype)


@misconception(
    name="weight-and-bias-swapped",
    message="You swapped weight and bias: the weight multiplies, the bias is added.",
    link=PAGE + "affine-shape",
)
def weight_and_bias_swapped(x, weight, bias, eps):
    return _affine(_normalize(_up(x), eps), x, bias, weight)


@misconception(
    name="one-plus-weight",
    message="You multiplied by 1 + weight, as some RMSNorm code does; here it is weight alone.",
    link=PAGE + "affine-shape",
)
def one_plus_weight(x, weight, bias, eps):
    return _affine(_normalize(_up(x), eps), x, 1 + weight, bias)


# -- dtypes, memory, gradients ---------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and digits "
    "are lost; widen x to float32 first.",
    link=PAGE + "dtype-and-upcast",
)
def no_upcast(x, weight, bias, eps):
    y = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps)
    return _affine(y, x, weight, bias)


@misconception(name="no-upcast")
def no_upcast_by_squares(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    y = centered / torch.sqrt((centered**2).mean(-1, keepdim=True) + eps)
    return _affine(y, x, weight, bias)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; cast the result back to the dtype "
    "of x.",
    link=PAGE + "dtype-and-upcast",
)
def result_left_in_float32(x, weight, bias, eps):
    h = _up(x)
    return _normalize(h, eps) * weight.to(h.dtype) + bias.to(h.dtype)


@misconception(name="result-left-wide")
def result_left_in_float64(x, weight, bias, eps):
    return _normalize(x.double(), eps) * weight.double() + bias.double()


@misconception(
    name="cast-before-affine",
    message="You cast back to the dtype of x before applying weight and bias; cast once, at the end.",
    link=PAGE + "dtype-and-upcast",
)
def cast_before_affine(x, weight, bias, eps):
    y = _normalize(_up(x), eps).to(x.dtype)
    return y * weight + bias


@misconception(name="cast-before-affine")
def cast_before_and_after_affine(x, weight, bias, eps):
    y = _normalize(_up(x), eps).to(x.dtype)
    return (y * weight + bias).to(x.dtype)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "dtype-and-upcast",
)
def always_float32(x, weight, bias, eps):
    y = _normalize(x.float(), eps) * weight.float() + bias.float()
    return y.to(x.dtype)


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as -= or a method that ends in _); "
    "make a new tensor.",
    link=PAGE + "in-place",
)
def input_modified(x, weight, bias, eps):
    h = _up(x)  # the same tensor as x, when x is float32 or float64
    h -= h.mean(-1, keepdim=True)
    return _affine(h / torch.sqrt((h**2).mean(-1, keepdim=True) + eps), x, weight, bias)


@misconception(name="input-modified")
def input_normalized_in_place(x, weight, bias, eps):
    h = _up(x)
    h -= h.mean(-1, keepdim=True)
    h /= torch.sqrt((h**2).mean(-1, keepdim=True) + eps)
    return _affine(h, x, weight, bias)


@misconception(
    name="statistics-detached",
    message="You cut mean and variance out of the graph (detach, no_grad, .data, .item or numpy); "
    "they depend on x, and the gradient must flow through them.",
    link=PAGE + "backward-derivation",
)
def statistics_detached(x, weight, bias, eps):
    h = _up(x)
    mean, var = h.mean(-1, keepdim=True).detach(), h.var(-1, keepdim=True, unbiased=False).detach()
    return _affine((h - mean) / torch.sqrt(var + eps), x, weight, bias)


@misconception(name="statistics-detached")
def variance_detached(x, weight, bias, eps):
    h = _up(x)
    var = h.detach().var(-1, keepdim=True, unbiased=False)
    return _affine((h - h.mean(-1, keepdim=True)) / torch.sqrt(var + eps), x, weight, bias)


@misconception(
    name="graph-cut",
    message="Your result carries no gradient (detach, no_grad, .data or numpy around the whole "
    "computation); training needs it.",
    link=PAGE + "backward-derivation",
)
@torch.no_grad()
def graph_cut(x, weight, bias, eps):
    return _affine(_normalize(_up(x), eps), x, weight, bias)
