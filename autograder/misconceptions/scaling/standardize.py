"""Wrong versions of `standardize(x, dim, eps)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare

PAGE = "why-normalize.html#"
misconception = partial(declare, exercise="standardize")


def up(x: torch.Tensor) -> torch.Tensor:
    """The right beginning: half types are widened to float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def variance(h: torch.Tensor, dim: int) -> torch.Tensor:
    return (h - h.mean(dim, keepdim=True)).square().mean(dim, keepdim=True)


def unbiased(h: torch.Tensor, dim: int) -> torch.Tensor:
    """`h.var(dim, keepdim=True)` without torch's warning for one number (the result is NaN too)."""
    return (h - h.mean(dim, keepdim=True)).square().sum(dim, keepdim=True) / (h.shape[dim] - 1)


def _divided_by(divisor):
    """A version that is right but for what it divides by, `divisor(h, dim, eps)`."""

    def standardize(x, dim, eps):
        h = up(x)
        return ((h - h.mean(dim, keepdim=True)) / divisor(h, dim, eps)).to(x.dtype)

    return standardize


# -- the variance and eps -------------------------------------------------------------------------


@misconception(
    name="unbiased-variance",
    message="You divided the squared deviations by n - 1 (torch's default for var and std); here "
    "they are divided by n.",
    link=PAGE + "why-biased-variance",
)
@_divided_by
def unbiased_variance(h, dim, eps):
    return torch.sqrt(unbiased(h, dim) + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the "
    "root: sqrt(var + eps).",
    link=PAGE + "why-eps",
)
@_divided_by
def eps_outside_root(h, dim, eps):
    return torch.sqrt(variance(h, dim)) + eps


@misconception(parts=("unbiased-variance", "eps-outside-root"))
@_divided_by
def std_plus_eps(h, dim, eps):
    return torch.sqrt(unbiased(h, dim)) + eps


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a slice of equal numbers divides by zero.",
    link=PAGE + "why-eps",
)
@_divided_by
def eps_forgotten(h, dim, eps):
    return torch.sqrt(variance(h, dim))


@misconception(parts=("eps-forgotten", "unbiased-variance"))
@_divided_by
def std_alone(h, dim, eps):
    return torch.sqrt(unbiased(h, dim))


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps; use the argument eps.",
    link=PAGE + "why-eps",
)
@_divided_by
def eps_hard_coded(h, dim, eps):
    return torch.sqrt(variance(h, dim) + 1e-5)


@misconception(
    name="eps-clamped",
    message="You used eps as a lower limit (clamp or max); it is added to the variance.",
    link=PAGE + "why-eps",
)
@_divided_by
def eps_clamped(h, dim, eps):
    return torch.sqrt(variance(h, dim)).clamp(min=eps)


@misconception(name="eps-clamped")
@_divided_by
def eps_clamps_variance(h, dim, eps):
    return torch.sqrt(variance(h, dim).clamp(min=eps))


@misconception(
    name="root-forgotten",
    message="You divided by the variance; divide by its square root, the standard deviation.",
    link=PAGE + "why-standardize",
)
@_divided_by
def root_forgotten(h, dim, eps):
    return variance(h, dim) + eps


@misconception(
    name="sum-instead-of-mean",
    message="You summed the squared deviations; the variance is their mean.",
    link=PAGE + "why-biased-variance",
)
@_divided_by
def sum_instead_of_mean(h, dim, eps):
    return torch.sqrt(variance(h, dim) * h.shape[dim] + eps)


@misconception(
    name="mean-absolute-deviation",
    message="You divided by the mean absolute deviation; the standard deviation is the root of the "
    "mean of the squares.",
    link=PAGE + "why-standardize",
)
@_divided_by
def mean_absolute_deviation(h, dim, eps):
    return (h - h.mean(dim, keepdim=True)).abs().mean(dim, keepdim=True) + eps


@misconception(
    name="divided-by-range",
    message="You divided by the range, largest minus smallest, as min-max scaling does; "
    "standardization divides by the standard deviation.",
    link=PAGE + "why-min-max",
)
@_divided_by
def divided_by_range(h, dim, eps):
    return h.amax(dim, keepdim=True) - h.amin(dim, keepdim=True) + eps


@misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the "
    "mean is large; subtract the mean first, then square.",
    link=PAGE + "why-one-pass-variance",
)
@_divided_by
def one_pass_variance(h, dim, eps):
    square = (h**2).mean(dim, keepdim=True)
    return torch.sqrt(square - h.mean(dim, keepdim=True) ** 2 + eps)


@misconception(name="one-pass-variance")
@_divided_by
def one_pass_variance_clamped(h, dim, eps):
    mean = h.mean(dim, keepdim=True)
    return torch.sqrt(((h * h).mean(dim, keepdim=True) - mean * mean).clamp(min=0) + eps)


# -- which numbers --------------------------------------------------------------------------------


def _over(x, dims, eps):
    h = up(x)
    var = h.var(dims, keepdim=True, unbiased=False)
    return ((h - h.mean(dims, keepdim=True)) / torch.sqrt(var + eps)).to(x.dtype)


@misconception(
    name="over-everything",
    message="You took one mean and one variance of the whole tensor; take them along dim, for each "
    "slice alone.",
    link=PAGE + "why-which-dim",
)
def over_everything(x, dim, eps):
    return _over(x, tuple(range(x.dim())), eps)


@misconception(
    name="dim-ignored",
    message="You took mean and variance along a fixed axis; use the argument dim.",
    link=PAGE + "why-which-dim",
)
def always_dim_0(x, dim, eps):
    return _over(x, 0, eps)


@misconception(name="dim-ignored")
def always_last(x, dim, eps):
    return _over(x, -1, eps)


@misconception(
    name="other-axes",
    message="You took mean and variance over all axes except dim; take them along dim itself.",
    link=PAGE + "why-which-dim",
)
def other_axes(x, dim, eps):
    dims = tuple(i for i in range(x.dim()) if i != dim % x.dim())
    return _over(x, dims, eps) if dims else torch.zeros_like(x)


@misconception(
    name="keepdim-forgotten",
    message="You dropped the axis dim of the mean or the variance, so it broadcast along the wrong "
    "axis; keepdim=True keeps it in place.",
    link=PAGE + "why-which-dim",
)
def keepdim_forgotten(x, dim, eps):
    h = up(x)
    return ((h - h.mean(dim)) / torch.sqrt(h.var(dim, unbiased=False) + eps)).to(x.dtype)


# -- centering ------------------------------------------------------------------------------------


@misconception(
    name="mean-not-subtracted",
    message="You divided x by its standard deviation without subtracting its mean first.",
    link=PAGE + "why-standardize",
)
def mean_not_subtracted(x, dim, eps):
    h = up(x)
    return (h / torch.sqrt(variance(h, dim) + eps)).to(x.dtype)


@misconception(
    name="parentheses-forgotten",
    message="You computed x - mean / std; the difference belongs in parentheses: (x - mean) / std.",
    link=PAGE + "why-standardize",
)
def parentheses_forgotten(x, dim, eps):
    h = up(x)
    return (h - h.mean(dim, keepdim=True) / torch.sqrt(variance(h, dim) + eps)).to(x.dtype)


@misconception(
    name="rms-of-uncentered",
    message="You divided by the root mean square of x before the mean was subtracted; the variance "
    "is the mean square of the centered x.",
    link=PAGE + "why-standardize",
)
@_divided_by
def rms_of_uncentered(h, dim, eps):
    return torch.sqrt((h**2).mean(dim, keepdim=True) + eps)


# -- dtypes and memory ----------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and digits "
    "are lost; widen x to float32 first.",
    link=PAGE + "why-precision",
)
def no_upcast(x, dim, eps):
    centered = x - x.mean(dim, keepdim=True)
    return centered / torch.sqrt(x.var(dim, keepdim=True, unbiased=False) + eps)


@misconception(name="no-upcast")
def no_upcast_by_squares(x, dim, eps):
    centered = x - x.mean(dim, keepdim=True)
    return centered * torch.rsqrt(centered.square().mean(dim, keepdim=True) + eps)


@misconception(parts=("unbiased-variance", "eps-outside-root", "no-upcast"))
def listing(x, dim, eps):
    std = x.std(dim, keepdim=True) if x.shape[dim] > 1 else torch.full_like(x, torch.nan)
    return (x - x.mean(dim, keepdim=True)) / (std + eps)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; cast the result back to the dtype "
    "of x.",
    link=PAGE + "why-precision",
)
def result_left_in_float32(x, dim, eps):
    h = up(x)
    return (h - h.mean(dim, keepdim=True)) / torch.sqrt(variance(h, dim) + eps)


@misconception(name="result-left-wide")
def result_left_in_float64(x, dim, eps):
    return result_left_in_float32(x.double(), dim, eps)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "why-precision",
)
def always_float32(x, dim, eps):
    return result_left_in_float32(x.float(), dim, eps).to(x.dtype)


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as -= or a method that ends in _); "
    "make a new tensor.",
    link=PAGE + "why-in-place",
)
def input_modified(x, dim, eps):
    if x.stride() and 0 in x.stride():
        return result_left_in_float32(x, dim, eps).to(x.dtype)  # torch refuses expanded tensors
    h = up(x)  # the same tensor as x, when x is float32 or float64
    h -= h.mean(dim, keepdim=True)
    return (h / torch.sqrt((h**2).mean(dim, keepdim=True) + eps)).to(x.dtype)
