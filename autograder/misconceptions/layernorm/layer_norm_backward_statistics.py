"""Wrong versions of `layer_norm_backward`: the statistics, dtypes, memory."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.layernorm.layer_norm_backward import (
    PAGE,
    grad_x_of,
    mean,
    normalized,
    result,
    sum_rows,
    up,
)

misconception = partial(declare, exercise="layer_norm_backward")

# -- x_hat and rstd computed wrong ----------------------------------------------------------------


def _unbiased(x: torch.Tensor) -> torch.Tensor:
    """`x.var(-1, keepdim=True)`, but without torch's warning at D = 1 (the result is NaN too)."""
    return (x - mean(x)).square().sum(-1, keepdim=True) / (x.shape[-1] - 1)


def _wrong_statistics(rstd_of):
    """An implementation with another rstd, `rstd_of(x, eps)`; the rest is right."""

    def layer_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out, x, weight)
        rstd = rstd_of(h, eps)
        x_hat = (h - mean(h)) * rstd
        return result(x, weight, grad_x_of(g * w, x_hat, rstd), sum_rows(g * x_hat), sum_rows(g))

    return layer_norm_backward


@misconception(
    name="unbiased-variance",
    message="You divided the squared deviations by D - 1 (torch's default for var and std); "
    "layer norm divides by D.",
    link=PAGE + "biased-variance",
)
@_wrong_statistics
def unbiased_variance(x, eps):
    return torch.rsqrt(_unbiased(x) + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the "
    "root: sqrt(var + eps).",
    link=PAGE + "eps-inside",
)
@_wrong_statistics
def eps_outside_root(x, eps):
    return 1 / (x.std(-1, keepdim=True, unbiased=False) + eps)


@misconception(parts=("unbiased-variance", "eps-outside-root"))
@_wrong_statistics
def std_plus_eps(x, eps):
    return 1 / (torch.sqrt(_unbiased(x)) + eps)


@misconception(
    name="eps-forgotten",
    message="You left eps out; the forward pass divides by sqrt(var + eps), and so must this.",
    link=PAGE + "eps-inside",
)
@_wrong_statistics
def eps_forgotten(x, eps):
    return torch.rsqrt(x.var(-1, keepdim=True, unbiased=False))


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps of 1e-5; use the argument eps.",
    link=PAGE + "eps-inside",
)
@_wrong_statistics
def eps_hard_coded(x, eps):
    return torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)


@misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the "
    "mean is large; subtract the mean first, then square.",
    link=PAGE + "one-pass-variance",
)
@_wrong_statistics
def one_pass_variance(x, eps):
    return torch.rsqrt(mean(x**2) - mean(x) ** 2 + eps)


# -- dtypes and memory ------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed in half precision, where the sums lose their digits; widen to float32"
    " first and cast back last.",
    link=PAGE + "dtype-and-upcast",
)
def no_upcast(grad_out, x, weight, eps):
    g_hat = grad_out * weight
    x_hat, rstd = normalized(x, eps)
    grad_weight = sum_rows(grad_out * x_hat)
    return result(x, weight, grad_x_of(g_hat, x_hat, rstd), grad_weight, sum_rows(grad_out))


@misconception(
    name="results-left-wide",
    message="You returned the wider dtype that you computed in; grad_x has the dtype of x, the "
    "other two that of weight.",
    link=PAGE + "dtype-and-upcast",
)
def results_left_wide(grad_out, x, weight, eps):
    g, h, w = up(grad_out, x, weight)
    x_hat, rstd = normalized(h, eps)
    return grad_x_of(g * w, x_hat, rstd), sum_rows(g * x_hat), sum_rows(g)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "dtype-and-upcast",
)
def always_float32(grad_out, x, weight, eps):
    g, h, w = grad_out.float(), x.float(), weight.float()
    x_hat, rstd = normalized(h, eps)
    return result(x, weight, grad_x_of(g * w, x_hat, rstd), sum_rows(g * x_hat), sum_rows(g))


@misconception(
    name="gradient-modified",
    message="You changed grad_out in place (an operator such as *= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "in-place",
)
def gradient_modified(grad_out, x, weight, eps):
    g, h = up(grad_out, x)
    x_hat, rstd = normalized(h, eps)
    grad_weight, grad_bias = sum_rows(g * x_hat), sum_rows(g)
    g *= weight  # g is grad_out itself, unless that is of a half type
    return result(x, weight, grad_x_of(g, x_hat, rstd), grad_weight, grad_bias)


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as -= or a method that ends in _); make a"
    " new tensor.",
    link=PAGE + "in-place",
)
def input_modified(grad_out, x, weight, eps):
    g, h, w = up(grad_out, x, weight)
    h -= mean(h)  # h is x itself, unless that is of a half type
    x_hat, rstd = normalized(h, eps)
    return result(x, weight, grad_x_of(g * w, x_hat, rstd), sum_rows(g * x_hat), sum_rows(g))
