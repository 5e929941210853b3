"""Wrong versions of `fold_batch_norm(weight, bias, running_mean, running_var, ...)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.batchnorm.batch_norm import up

PAGE = "batchnorm.html#"
misconception = partial(declare, exercise="fold_batch_norm")


def rows(weight: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """factor (C,) lined up with the first axis of weight."""
    return factor.reshape(-1, *[1] * (weight.dim() - 1))


def _folding(formula, rstd=lambda var, eps: torch.rsqrt(var + eps)):
    """`formula(w, b, mean, rstd, gamma, beta)` gives both results; the frame around it is right."""

    def fold_batch_norm(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
        w = up(weight)
        b = torch.zeros_like(running_mean) if bias is None else up(bias)
        r = rstd(running_var.to(w.dtype), eps)
        found = formula(w, b, running_mean.to(w.dtype), r, bn_weight, bn_bias)
        return tuple(t.to(weight.dtype) for t in found)

    return fold_batch_norm


def right(w, b, mean, rstd, gamma, beta):
    return w * rows(w, gamma * rstd), (b - mean) * gamma * rstd + beta


# -- the factor ----------------------------------------------------------------------------------


def _with_rstd(rstd):
    return _folding(right, rstd)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the "
    "root: sqrt(running_var + eps).",
    link=PAGE + "bn-eps",
)
@_with_rstd
def eps_outside_root(var, eps):
    return 1 / (var.sqrt() + eps)


@misconception(
    name="root-forgotten",
    message="You divided by the variance; batch norm divides by its square root.",
    link=PAGE + "bn-fold",
)
@_with_rstd
def root_forgotten(var, eps):
    return 1 / (var + eps)


@misconception(
    name="multiplied-by-std",
    message="You multiplied by the standard deviation; batch norm divides by it.",
    link=PAGE + "bn-fold",
)
@_with_rstd
def multiplied_by_std(var, eps):
    return (var + eps).sqrt()


@misconception(
    name="eps-forgotten",
    message="You left eps out; the batch norm that you fold divides by sqrt(running_var + eps).",
    link=PAGE + "bn-eps",
)
@_with_rstd
def eps_forgotten(var, eps):
    return torch.rsqrt(var)


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps of 1e-5; use the argument eps.",
    link=PAGE + "bn-eps",
)
@_with_rstd
def eps_hard_coded(var, eps):
    return torch.rsqrt(var + 1e-5)


# -- the weight ----------------------------------------------------------------------------------


@misconception(
    name="factor-on-another-axis",
    message="You multiplied along another axis of weight; the output channels lie on its first "
    "axis, so give the factor the shape (C, 1, ..., 1).",
    link=PAGE + "bn-fold",
)
@_folding
def factor_on_the_last_axis(w, b, mean, rstd, gamma, beta):
    return w * gamma * rstd, (b - mean) * gamma * rstd + beta


@misconception(name="factor-on-another-axis")
@_folding
def factor_on_axis_1(w, b, mean, rstd, gamma, beta):
    factor = (gamma * rstd).reshape(1, -1, *[1] * (w.dim() - 2))
    return w * factor, (b - mean) * gamma * rstd + beta


@misconception(
    name="weight-not-folded",
    message="You left the layer's weight as it was; it takes the factor bn_weight * rstd.",
    link=PAGE + "bn-fold",
)
@_folding
def weight_not_folded(w, b, mean, rstd, gamma, beta):
    return w, (b - mean) * gamma * rstd + beta


@misconception(
    name="bn-weight-forgotten",
    message="You left out bn_weight; the factor is bn_weight / sqrt(running_var + eps).",
    link=PAGE + "bn-fold",
)
@_folding
def bn_weight_forgotten(w, b, mean, rstd, gamma, beta):
    return w * rows(w, rstd), (b - mean) * rstd + beta


@misconception(
    name="rstd-forgotten",
    message="You multiplied by bn_weight alone; divide by sqrt(running_var + eps), too.",
    link=PAGE + "bn-fold",
)
@_folding
def rstd_forgotten(w, b, mean, rstd, gamma, beta):
    return w * rows(w, gamma), (b - mean) * gamma + beta


# -- the bias ------------------------------------------------------------------------------------


def _wrong_bias(formula):
    """A right folded weight, and the folded bias `formula(b, mean, scale, beta)`."""

    def both(w, b, mean, rstd, gamma, beta):
        return w * rows(w, gamma * rstd), formula(b, mean, gamma * rstd, beta)

    return _folding(both)


@misconception(
    name="no-bias-gives-none",
    message="You left a layer without a bias without one; the folded layer needs a bias for the "
    "shift of the batch norm.",
    link=PAGE + "bn-fold",
)
def no_bias_gives_none(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    folded = _folding(right)(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps)
    return folded[0], None if bias is None else folded[1]


@misconception(name="no-bias-gives-none")
def no_bias_gives_bn_bias(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    folded = _folding(right)(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps)
    return folded[0], bn_bias.to(weight.dtype) if bias is None else folded[1]


@misconception(
    name="bias-not-scaled",
    message="You did not scale the layer's own bias; it passes through the batch norm, too.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def bias_not_scaled(b, mean, scale, beta):
    return b - mean * scale + beta


@misconception(
    name="mean-not-scaled",
    message="You subtracted running_mean after scaling; the batch norm subtracts it first, so it "
    "is scaled as well.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def mean_not_scaled(b, mean, scale, beta):
    return b * scale - mean + beta


@misconception(
    name="bias-and-mean-not-scaled",
    message="You forgot the factor in the bias; both the layer's bias and running_mean take it.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def neither_scaled(b, mean, scale, beta):
    return b - mean + beta


@misconception(
    name="mean-added",
    message="You added running_mean; the batch norm subtracts it.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def mean_added(b, mean, scale, beta):
    return (b + mean) * scale + beta


@misconception(
    name="mean-forgotten",
    message="You left running_mean out of the folded bias.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def mean_forgotten(b, mean, scale, beta):
    return b * scale + beta


@misconception(
    name="layer-bias-forgotten",
    message="You left the layer's own bias out of the folded bias.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def layer_bias_forgotten(b, mean, scale, beta):
    return -mean * scale + beta


@misconception(
    name="bn-bias-forgotten",
    message="You left out bn_bias; it is added last, and it is not scaled.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def bn_bias_forgotten(b, mean, scale, beta):
    return (b - mean) * scale


@misconception(
    name="bn-bias-scaled",
    message="You scaled bn_bias; it is added after the scaling.",
    link=PAGE + "bn-fold",
)
@_wrong_bias
def bn_bias_scaled(b, mean, scale, beta):
    return (b - mean + beta) * scale


# -- the rest ------------------------------------------------------------------------------------


@misconception(
    name="results-swapped",
    message="You returned the folded bias first; the weight comes first.",
    link=PAGE + "bn-fold",
)
@_folding
def results_swapped(w, b, mean, rstd, gamma, beta):
    return right(w, b, mean, rstd, gamma, beta)[::-1]


@misconception(
    name="no-upcast",
    message="You computed in half precision, where the statistics lose their digits; widen to "
    "float32 first and cast back last.",
    link=PAGE + "bn-dtype",
)
def no_upcast(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    b = torch.zeros_like(running_mean) if bias is None else bias
    tensors = (running_mean, running_var, bn_weight, bn_bias)
    mean, var, gamma, beta = (t.to(weight.dtype) for t in tensors)
    scale = gamma / (var + eps).sqrt()
    folded = (b.to(weight.dtype) - mean) * scale + beta
    return weight * rows(weight, scale), folded


@misconception(
    name="results-left-wide",
    message="You returned the wider dtype that you computed in; cast both results to the dtype of "
    "weight.",
    link=PAGE + "bn-dtype",
)
def results_left_wide(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    return _folding(right)(up(weight), bias, running_mean, running_var, bn_weight, bn_bias, eps)


@misconception(
    name="input-modified",
    message="You changed the layer's weight in place; make a new tensor.",
    link=PAGE + "bn-in-place",
)
def input_modified(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    folded = _folding(right)(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps)
    weight.copy_(folded[0])
    return weight, folded[1]
