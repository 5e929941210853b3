"""Wrong versions of `layer_norm_low_precision(x, weight, bias, eps)`; x is (..., D)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.precision.shared import HALF, PAGE, axes_but_last

misconception = partial(declare, exercise="layer_norm_low_precision")


def mean(h):
    return h.mean(-1, keepdim=True)


def biased_var(h):
    return mean((h - mean(h)).square())


def affine(y, weight, bias):
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


def _normalized(function):
    """Right but for the normalized float32 vector, which is `function(h, eps)`."""

    def layer_norm_low_precision(x, weight, bias, eps):
        return affine(function(x.float(), eps), weight, bias).to(x.dtype)

    return layer_norm_low_precision


def normalized(h, eps):
    return (h - mean(h)) * torch.rsqrt(biased_var(h) + eps)


def _in(dtype_of, function=normalized):
    """Everything in the dtype `dtype_of(x)`."""

    def layer_norm_low_precision(x, weight, bias, eps):
        dtype = dtype_of(x)
        weight = None if weight is None else weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
        return affine(function(x.to(dtype), eps), weight, bias).to(x.dtype)

    return layer_norm_low_precision


# -- computed in the half type -------------------------------------------------------------------


@misconception(
    name="bfloat16-not-widened",
    message="You widened float16 only; bfloat16 is a half type, too, and has even fewer digits.",
    link=PAGE + "prec-statistics",
)
def bfloat16_not_widened(x, weight, bias, eps):
    h = x.float() if x.dtype == torch.float16 else x
    return affine(normalized(h, eps), weight, bias).to(x.dtype)


misconception(
    name="no-upcast",
    message="You computed the norm, its squares or its variance in the half type, where they "
    "overflow and underflow; widen x to float32 before anything else.",
    link=PAGE + "prec-overflow",
)(_in(lambda x: x.dtype))


@misconception(name="no-upcast")
def no_upcast_but_parameters(x, weight, bias, eps):
    return affine(normalized(x, eps), weight, bias).to(x.dtype)


def divided(h, eps):
    return (h - mean(h)) / torch.sqrt(biased_var(h) + eps)


@misconception(name="no-upcast")
def no_upcast_and_divided(x, weight, bias, eps):
    return affine(divided(x, eps), weight, bias).to(x.dtype)


@misconception(
    name="statistics-rounded",
    message="You rounded the mean or rstd to the half type before using it, or subtracted the mean "
    "there, as one well-known kernel does; keep statistics in float32.",
    link=PAGE + "prec-statistics",
)
def statistics_rounded(x, weight, bias, eps):
    h = x.float()
    rstd = torch.rsqrt(biased_var(h) + eps)
    y = (h - mean(h).to(x.dtype).float()) * rstd.to(x.dtype).float()
    return affine(y, weight, bias).to(x.dtype)


@misconception(name="statistics-rounded")
def rstd_rounded(x, weight, bias, eps):
    h = x.float()
    y = (h - mean(h)) * torch.rsqrt(biased_var(h) + eps).to(x.dtype)
    return affine(y, weight, bias).to(x.dtype)


@misconception(name="statistics-rounded")
def mean_taken_in_half(x, weight, bias, eps):
    centered = x.float() - mean(x)
    y = centered * torch.rsqrt(mean(centered.square()) + eps)
    return affine(y, weight, bias).to(x.dtype)


@misconception(name="no-upcast")
def variance_rounded(x, weight, bias, eps):
    h = x.float()
    var = biased_var(h).to(x.dtype).float()
    return affine((h - mean(h)) * torch.rsqrt(var + eps), weight, bias).to(x.dtype)


@misconception(name="statistics-rounded")
def mean_rounded(x, weight, bias, eps):
    h = x.float()
    y = (h - mean(h).to(x.dtype).float()) * torch.rsqrt(biased_var(h) + eps)
    return affine(y, weight, bias).to(x.dtype)


@misconception(name="no-upcast")
def squared_in_half(x, weight, bias, eps):
    h = x.float()
    centered = h - mean(h)
    var = mean(centered.to(x.dtype).square().float())
    return affine(centered * torch.rsqrt(var + eps), weight, bias).to(x.dtype)


@misconception(name="no-upcast")
def centered_in_half(x, weight, bias, eps):
    centered = x - mean(x)
    var = mean(centered.square().float())
    return affine(centered.float() * torch.rsqrt(var + eps), weight, bias).to(x.dtype)


@misconception(
    name="eps-in-half",
    message="You turned eps into the half type, where a small one is 0; add the Python number to a "
    "float32 variance.",
    link=PAGE + "prec-eps",
)
def eps_in_half(x, weight, bias, eps):
    eps = torch.tensor(eps).to(x.dtype).float()
    return affine(normalized(x.float(), eps), weight, bias).to(x.dtype)


@misconception(name="statistics-rounded")
def mean_subtracted_in_half(x, weight, bias, eps):
    h = x.float()
    centered = (x - mean(h).to(x.dtype)).float()
    return affine(centered * torch.rsqrt(biased_var(h) + eps), weight, bias).to(x.dtype)


# -- casts at the end ----------------------------------------------------------------------------


@misconception(
    name="cast-before-weight",
    message="You cast back to the half type before scale and shift, which rounds twice; cast once, "
    "at the end.",
    link=PAGE + "prec-once",
)
def cast_before_weight(x, weight, bias, eps):
    y = normalized(x.float(), eps).to(x.dtype)
    return affine(y, weight, bias).to(x.dtype)


@misconception(name="cast-before-weight")
def cast_before_bias(x, weight, bias, eps):
    y = affine(normalized(x.float(), eps), weight, None).to(x.dtype)
    return affine(y, None, bias).to(x.dtype)


@misconception(
    name="parameters-cast-to-half",
    message="You cast a float32 weight or bias to the half type before using it; use it as it is.",
    link=PAGE + "prec-once",
)
def parameters_cast(x, weight, bias, eps):
    weight = None if weight is None else weight.to(x.dtype).float()
    bias = None if bias is None else bias.to(x.dtype).float()
    return affine(normalized(x.float(), eps), weight, bias).to(x.dtype)


@misconception(
    name="result-left-wide",
    message="You returned float32; keep the dtype of x before you widen it, and cast the result to "
    "that.",
    link=PAGE + "prec-once",
)
def result_left_wide(x, weight, bias, eps):
    return affine(normalized(x.float(), eps), weight, bias)


# -- the formula ---------------------------------------------------------------------------------


@misconception(
    name="one-pass",
    message="You computed the variance as the mean of the squares minus the square of the mean, "
    "which cancels when the mean is large; subtract the mean first.",
    link=PAGE + "prec-one-pass",
)
@_normalized
def one_pass(h, eps):
    var = mean(h.square()) - mean(h).square()
    return (h - mean(h)) * torch.rsqrt(var + eps)


@misconception(name="one-pass")
@_normalized
def one_pass_clamped(h, eps):
    var = (mean(h.square()) - mean(h).square()).clamp(min=0)
    return (h - mean(h)) * torch.rsqrt(var + eps)


@misconception(
    name="multiplied-out",
    message="You multiplied out, x * rstd - mean * rstd: two large rounded numbers are subtracted. "
    "Subtract the mean from x first.",
    link=PAGE + "prec-exercises",
)
@_normalized
def multiplied_out(h, eps):
    rstd = torch.rsqrt(biased_var(h) + eps)
    return h * rstd - mean(h) * rstd


@misconception(name="multiplied-out")
def multiplied_out_with_the_weight(x, weight, bias, eps):
    h = x.float()
    scale = torch.rsqrt(biased_var(h) + eps)
    scale = scale if weight is None else scale * weight
    y = h * scale - mean(h) * scale
    return (y if bias is None else y + bias).to(x.dtype)


@misconception(
    name="unbiased",
    message="You divided the sum of squares by D - 1; layer norm divides by D.",
    link=PAGE + "prec-two-pass",
)
@_normalized
def unbiased(h, eps):
    return (h - mean(h)) * torch.rsqrt(h.var(-1, keepdim=True) + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation; it belongs under the root, to the variance.",
    link=PAGE + "prec-eps",
)
@_normalized
def eps_outside_root(h, eps):
    return (h - mean(h)) / (biased_var(h).sqrt() + eps)


@misconception(
    name="eps-clamps",
    message="You used eps as a lower limit of the variance; it is added.",
    link=PAGE + "prec-eps",
)
@_normalized
def eps_clamps(h, eps):
    return (h - mean(h)) * torch.rsqrt(biased_var(h).clamp(min=eps))


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a constant vector divides by zero.",
    link=PAGE + "prec-eps",
)
@_normalized
def eps_forgotten(h, eps):
    return (h - mean(h)) * torch.rsqrt(biased_var(h))


@misconception(
    name="eps-raised",
    message="You raised eps (a fixed one, or a lower limit), which shrinks vectors with a small "
    "spread; use the argument as it is.",
    link=PAGE + "prec-eps",
)
@_normalized
def eps_raised(h, eps):
    return normalized(h, max(eps, 1e-5))


for _value in (1e-5, 1e-6, 1e-3):
    misconception(name="eps-raised")(_normalized(lambda h, eps, value=_value: normalized(h, value)))


@misconception(
    name="mean-not-subtracted",
    message="You did not subtract the mean, which is RMSNorm; layer norm does.",
    link=PAGE + "prec-two-pass",
)
@_normalized
def mean_not_subtracted(h, eps):
    return h * torch.rsqrt(mean(h.square()) + eps)


@misconception(
    name="over-the-batch",
    message="You took the statistics across vectors; each vector along the last axis has its own.",
    link=PAGE + "prec-two-pass",
)
@_normalized
def over_the_batch(h, eps):
    dims = axes_but_last(h)
    centered = h - h.mean(dims, keepdim=True)
    return centered * torch.rsqrt(centered.square().mean(dims, keepdim=True) + eps)


@misconception(
    name="over-all-axes",
    message="You took one mean and variance for the whole tensor; each vector along the last axis "
    "has its own.",
    link=PAGE + "prec-two-pass",
)
@_normalized
def over_all_axes(h, eps):
    centered = h - h.mean()
    return centered * torch.rsqrt(centered.square().mean() + eps)


@misconception(
    name="scaled-down-with-the-same-eps",
    message="You scaled x down to save the squares from overflow, but not eps, which counts more "
    "after that; float32 needs no scaling here.",
    link=PAGE + "prec-prescale",
)
def scaled_down(x, weight, bias, eps):
    return affine(normalized(x.float() / 64, eps), weight, bias).to(x.dtype)


@misconception(name="scaled-down-with-the-same-eps")
def divided_by_the_largest(x, weight, bias, eps):
    h = x.float()
    s = h.abs().amax(-1, keepdim=True).clamp(min=1e-12)
    return affine(normalized(h / s, eps), weight, bias).to(x.dtype)


@misconception(parts=("no-upcast", "scaled-down-with-the-same-eps"))
def scaled_down_in_half(x, weight, bias, eps):
    return affine(normalized(x / 64 if x.dtype in HALF else x, eps), weight, bias).to(x.dtype)


# -- weight and bias -----------------------------------------------------------------------------


@misconception(
    name="none-for-one-means-none-for-both",
    message="You left out weight and bias when only one of them is None; the other is still used.",
    link=PAGE + "prec-once",
)
def all_or_nothing(x, weight, bias, eps):
    y = normalized(x.float(), eps)
    if weight is not None and bias is not None:
        y = y * weight + bias
    return y.to(x.dtype)


@misconception(
    name="weight-forgotten",
    message="You left out the weight; the normalized vector is multiplied by it.",
    link=PAGE + "prec-once",
)
def weight_forgotten(x, weight, bias, eps):
    return affine(normalized(x.float(), eps), None, bias).to(x.dtype)


@misconception(
    name="bias-forgotten",
    message="You left out the bias; it is added last.",
    link=PAGE + "prec-once",
)
def bias_forgotten(x, weight, bias, eps):
    return affine(normalized(x.float(), eps), weight, None).to(x.dtype)


# -- memory and gradients ------------------------------------------------------------------------


@misconception(
    name="input-modified",
    message="You changed x in place: for a float32 x, .float() is x itself. Make a new tensor.",
    link=PAGE + "prec-once",
)
def input_modified(x, weight, bias, eps):
    h = x.float()
    h -= mean(h)
    h *= torch.rsqrt(mean(h.square()) + eps)
    return affine(h, weight, bias).to(x.dtype)


@misconception(
    name="statistics-detached",
    message="You cut mean and variance out of the graph; they depend on x, and gradients flow "
    "through both.",
    link=PAGE + "prec-once",
)
@_normalized
def statistics_detached(h, eps):
    return (h - mean(h).detach()) * torch.rsqrt(biased_var(h) + eps).detach()


@misconception(name="statistics-detached")
@_normalized
def rstd_detached(h, eps):
    return (h - mean(h)) * torch.rsqrt(biased_var(h) + eps).detach()


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "prec-statistics")
def detached_in_half(x, weight, bias, eps):
    (h,) = half_types.cut(x)
    return affine(normalized(h, eps), weight, bias).to(x.dtype)


@misconception(name=half_types.NAME)
def all_detached_in_half(x, weight, bias, eps):
    with torch.set_grad_enabled(x.dtype not in HALF):
        return affine(normalized(x.float(), eps), weight, bias).to(x.dtype)


@misconception(
    name="x-copied",
    message="You took float32 numbers from x by a copy without its graph (torch.tensor, detach, "
    ".data or numpy), so no gradient reaches x; x.float() keeps the graph.",
    link=PAGE + "prec-statistics",
)
@_normalized
def x_copied(h, eps):
    return normalized(h.detach(), eps)


@misconception(
    name="graph-cut",
    message="Your result carries no gradient (detach, no_grad, .data or numpy around the whole "
    "computation); training needs it.",
    link=PAGE + "prec-once",
)
@torch.no_grad()
def graph_cut(x, weight, bias, eps):
    return affine(normalized(x.float(), eps), weight, bias).to(x.dtype)
