"""Wrong versions of `layer_norm(x, weight, bias, eps)`; x is (..., D), weight and bias are (D,).

Here: the formula. `layer_norm_precision` holds mistakes about dtypes, memory and gradients.
"""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare

PAGE = "layernorm.html#"
misconception = partial(declare, exercise="layer_norm")


def affine(y: torch.Tensor, x: torch.Tensor, weight, bias) -> torch.Tensor:
    """The right ending: weight and bias in y's precision, then back to the dtype of x."""
    return (y * weight + bias).to(x.dtype)


def up(x: torch.Tensor) -> torch.Tensor:
    """The right beginning: half types are widened to float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def variance(h: torch.Tensor) -> torch.Tensor:
    return (h - h.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)


def unbiased(h: torch.Tensor) -> torch.Tensor:
    """`h.var(-1, keepdim=True)`, but without torch's warning at D = 1 (the result is NaN too)."""
    return (h - h.mean(-1, keepdim=True)).square().sum(-1, keepdim=True) / (h.shape[-1] - 1)


def normalize(h: torch.Tensor, eps: float) -> torch.Tensor:
    return (h - h.mean(-1, keepdim=True)) * torch.rsqrt(variance(h) + eps)


def _divided_by(divisor):
    """A layer norm that is right but for what it divides by, `divisor(h, eps)`."""

    def layer_norm(x, weight, bias, eps):
        h = up(x)
        return affine((h - h.mean(-1, keepdim=True)) / divisor(h, eps), x, weight, bias)

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
    return torch.sqrt(unbiased(h) + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the "
    "root: sqrt(var + eps).",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_outside_root(h, eps):
    return torch.sqrt(variance(h)) + eps


@misconception(parts=("unbiased-variance", "eps-outside-root"))
@_divided_by
def std_plus_eps(h, eps):
    return torch.sqrt(unbiased(h)) + eps


@misconception(
    name="root-forgotten",
    message="You divided by the variance; layer norm divides by its square root.",
    link=PAGE + "eps-inside",
)
@_divided_by
def root_forgotten(h, eps):
    return variance(h) + eps


@misconception(parts=("root-forgotten", "unbiased-variance"))
@_divided_by
def unbiased_and_no_root(h, eps):
    return unbiased(h) + eps


@misconception(
    name="root-of-std",
    message="You took the root of the standard deviation; the variance belongs under the root.",
    link=PAGE + "eps-inside",
)
@_divided_by
def root_of_std(h, eps):
    return torch.sqrt(torch.sqrt(variance(h)) + eps)


@misconception(parts=("root-of-std", "unbiased-variance"))
@_divided_by
def root_of_unbiased_std(h, eps):
    return torch.sqrt(torch.sqrt(unbiased(h)) + eps)


@misconception(
    name="multiplied-by-std",
    message="You multiplied by the standard deviation; layer norm divides by it.",
    link=PAGE + "eps-inside",
)
@_divided_by
def multiplied_by_std(h, eps):
    return torch.rsqrt(variance(h) + eps)


@misconception(
    name="sum-instead-of-mean",
    message="You summed the squared deviations; the variance is their mean, so divide by D.",
    link=PAGE + "biased-variance",
)
@_divided_by
def sum_instead_of_mean(h, eps):
    return torch.sqrt(variance(h) * h.shape[-1] + eps)


@misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the "
    "mean is large; subtract the mean first, then square.",
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
    return torch.sqrt(variance(h))


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps of 1e-5; use the argument eps.",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_hard_coded(h, eps):
    return torch.sqrt(variance(h) + 1e-5)


@misconception(parts=("eps-hard-coded", "unbiased-variance"))
@_divided_by
def eps_hard_coded_andunbiased(h, eps):
    return torch.sqrt(unbiased(h) + 1e-5)


@misconception(
    name="eps-twice",
    message="You added eps twice, under the root and again outside; once under the root is enough.",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_twice(h, eps):
    return torch.sqrt(variance(h) + eps) + eps


@misconception(
    name="eps-clamped",
    message="You used eps as a lower limit (clamp or max); layer norm adds it to the variance.",
    link=PAGE + "eps-inside",
)
@_divided_by
def eps_clamps_std(h, eps):
    return torch.sqrt(variance(h)).clamp(min=eps)


@misconception(name="eps-clamped")
@_divided_by
def eps_clamps_variance(h, eps):
    return torch.sqrt(variance(h).clamp(min=eps))


# -- which numbers share their statistics ----------------------------------------------------


def _over(x, weight, bias, eps, dims):
    h = up(x)
    var = h.var(dims, keepdim=True, unbiased=False)
    return affine((h - h.mean(dims, keepdim=True)) / torch.sqrt(var + eps), x, weight, bias)


@misconception(
    name="statistics-over-batch",
    message="You took mean and variance across rows (the batch), as batch norm does; layer norm"
    " takes them along the last axis, for each row alone.",
    link=PAGE + "which-axis",
)
def statistics_over_batch(x, weight, bias, eps):
    return _over(x, weight, bias, eps, 0)


@misconception(name="statistics-over-batch")
def statistics_over_leading_axes(x, weight, bias, eps):
    return _over(x, weight, bias, eps, tuple(range(max(x.dim() - 1, 1))))


@misconception(
    name="statistics-over-axis-1",
    message="You took mean and variance along axis 1, which is the last axis only when x has "
    "two axes; use axis -1.",
    link=PAGE + "which-axis",
)
def statistics_over_axis_1(x, weight, bias, eps):
    return _over(x, weight, bias, eps, 1)


@misconception(
    name="statistics-over-all-axes",
    message="You took one mean and one variance over the whole tensor; layer norm takes them "
    "along the last axis, for each row alone.",
    link=PAGE + "which-axis",
)
def statistics_over_all_axes(x, weight, bias, eps):
    return _over(x, weight, bias, eps, tuple(range(x.dim())))


@misconception(
    name="statistics-over-all-but-batch",
    message="You took mean and variance over every axis but the first; here layer norm takes "
    "them along the last axis only.",
    link=PAGE + "which-axis",
)
def statistics_over_all_but_batch(x, weight, bias, eps):
    return _over(x, weight, bias, eps, tuple(range(1, x.dim())) or (0,))


@misconception(
    name="keepdim-forgotten",
    message="You dropped the last axis of the mean or the variance, so it broadcast along the "
    "wrong axis; keepdim=True keeps it in place.",
    link=PAGE + "which-axis",
)
def keepdim_forgotten(x, weight, bias, eps):
    h = up(x)
    y = (h - h.mean(-1)) / torch.sqrt(h.var(-1, unbiased=False) + eps)
    return affine(y, x, weight, bias)


# -- centering -------------------------------------------------------------------------------


@misconception(
    name="rms-instead-of-variance",
    message="You divided by the root mean square without subtracting the mean, which is "
    "RMSNorm; layer norm subtracts the mean first.",
    link=PAGE + "center-first",
)
def rms_instead_of_variance(x, weight, bias, eps):
    h = up(x)
    y = h / torch.sqrt((h**2).mean(-1, keepdim=True) + eps)
    return affine(y, x, weight, bias)


@misconception(
    name="mean-not-subtracted",
    message="You divided x by its standard deviation without subtracting its mean first.",
    link=PAGE + "center-first",
)
def mean_not_subtracted(x, weight, bias, eps):
    h = up(x)
    return affine(h / torch.sqrt(variance(h) + eps), x, weight, bias)


@misconception(
    name="rms-of-uncentered",
    message="You subtracted the mean, but divided by the root mean square of the x before that;"
    " the variance is the mean square of the centered x.",
    link=PAGE + "center-first",
)
@_divided_by
def rms_of_uncentered(h, eps):
    return torch.sqrt((h**2).mean(-1, keepdim=True) + eps)


# -- weight and bias -------------------------------------------------------------------------


@misconception(
    name="bias-forgotten",
    message="You left out the bias; it is added last.",
    link=PAGE + "affine-shape",
)
def bias_forgotten(x, weight, bias, eps):
    return (normalize(up(x), eps) * weight).to(x.dtype)


@misconception(
    name="weight-forgotten",
    message="You left out the weight; the normalized x is multiplied by it.",
    link=PAGE + "affine-shape",
)
def weight_forgotten(x, weight, bias, eps):
    return (normalize(up(x), eps) + bias).to(x.dtype)


@misconception(parts=("weight-forgotten", "bias-forgotten"))
def affine_forgotten(x, weight, bias, eps):
    return normalize(up(x), eps).to(x.dtype)


@misconception(
    name="affine-before-normalizing",
    message="You applied weight and bias to x before normalizing; they come after.",
    link=PAGE + "affine-shape",
)
def affine_before_normalizing(x, weight, bias, eps):
    return normalize(up(x) * weight + bias, eps).to(x.dtype)


@misconception(
    name="bias-before-weight",
    message="You added the bias before multiplying by the weight; multiply first, then add.",
    link=PAGE + "affine-shape",
)
def bias_before_weight(x, weight, bias, eps):
    return ((normalize(up(x), eps) + bias) * weight).to(x.dtype)


@misconception(
    name="weight-and-bias-swapped",
    message="You swapped weight and bias: the weight multiplies, the bias is added.",
    link=PAGE + "affine-shape",
)
def weight_and_bias_swapped(x, weight, bias, eps):
    return affine(normalize(up(x), eps), x, bias, weight)


@misconception(
    name="one-plus-weight",
    message="You multiplied by 1 + weight, as some RMSNorm code does; here it is weight alone.",
    link=PAGE + "affine-shape",
)
def one_plus_weight(x, weight, bias, eps):
    return affine(normalize(up(x), eps), x, 1 + weight, bias)
