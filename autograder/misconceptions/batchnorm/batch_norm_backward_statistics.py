"""Wrong versions of `batch_norm_backward`: the statistics, dtypes, memory."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.batchnorm.batch_norm import along, dims, up
from autograder.misconceptions.batchnorm.batch_norm_backward import (
    PAGE,
    grad_x_of,
    normalized,
    result,
    right_rstd,
    sums,
    variance,
)

misconception = partial(declare, exercise="batch_norm_backward")


def _wrong_rstd(rstd_of):
    """An implementation with another rstd (C,), `rstd_of(h, eps)`; the rest is right."""

    def batch_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out), up(x), up(weight)
        rstd = rstd_of(h, eps)
        x_hat = normalized(h, rstd)
        return result(x, weight, grad_x_of(g, w, x_hat, rstd), sums(g * x_hat), sums(g))

    return batch_norm_backward


def _unbiased(h):
    n = h.numel() // h.shape[1]
    return (h - along(h, h.mean(dims(h)))).square().sum(dims(h)) / (n - 1)


@misconception(
    name="unbiased-variance",
    message="You divided the squared deviations by n - 1 (torch's default for var and std); the "
    "variance that normalizes is divided by n.",
    link=PAGE + "bn-biased-variance",
)
@_wrong_rstd
def unbiased_variance(h, eps):
    return torch.rsqrt(_unbiased(h) + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the "
    "root: sqrt(var + eps).",
    link=PAGE + "bn-eps",
)
@_wrong_rstd
def eps_outside_root(h, eps):
    return 1 / (variance(h).sqrt() + eps)


@misconception(parts=("unbiased-variance", "eps-outside-root"))
@_wrong_rstd
def std_plus_eps(h, eps):
    return 1 / (_unbiased(h).sqrt() + eps)


@misconception(
    name="root-forgotten",
    message="You divided by the variance; rstd is one over its square root.",
    link=PAGE + "bn-eps",
)
@_wrong_rstd
def root_forgotten(h, eps):
    return 1 / (variance(h) + eps)


@misconception(
    name="eps-forgotten",
    message="You left eps out; the forward pass divides by sqrt(var + eps), and so must this.",
    link=PAGE + "bn-eps",
)
@_wrong_rstd
def eps_forgotten(h, eps):
    return torch.rsqrt(variance(h))


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps of 1e-5; use the argument eps.",
    link=PAGE + "bn-eps",
)
@_wrong_rstd
def eps_hard_coded(h, eps):
    return torch.rsqrt(variance(h) + 1e-5)


@misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the "
    "mean is large; subtract the mean first, then square.",
    link=PAGE + "bn-one-pass",
)
@_wrong_rstd
def one_pass_variance(h, eps):
    return torch.rsqrt(h.square().mean(dims(h)) - h.mean(dims(h)).square() + eps)


# -- dtypes and memory ------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed in half precision, where the sums lose their digits; widen to float32"
    " first and cast back last.",
    link=PAGE + "bn-dtype",
)
def no_upcast(grad_out, x, weight, eps):
    rstd = right_rstd(x, eps)
    x_hat = normalized(x, rstd)
    grad_x = grad_x_of(grad_out, weight, x_hat, rstd)
    return result(x, weight, grad_x, sums(grad_out * x_hat), sums(grad_out))


@misconception(
    name="results-left-wide",
    message="You returned the wider dtype that you computed in; grad_x has the dtype of x, the "
    "other two that of weight.",
    link=PAGE + "bn-dtype",
)
def results_left_wide(grad_out, x, weight, eps):
    g, h, w = up(grad_out), up(x), up(weight)
    rstd = right_rstd(h, eps)
    x_hat = normalized(h, rstd)
    return grad_x_of(g, w, x_hat, rstd), sums(g * x_hat), sums(g)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "bn-dtype",
)
def always_float32(grad_out, x, weight, eps):
    g, h, w = grad_out.float(), x.float(), weight.float()
    rstd = right_rstd(h, eps)
    x_hat = normalized(h, rstd)
    return result(x, weight, grad_x_of(g, w, x_hat, rstd), sums(g * x_hat), sums(g))


@misconception(
    name="gradient-modified",
    message="You changed grad_out in place (an operator such as *= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "bn-in-place",
)
def gradient_modified(grad_out, x, weight, eps):
    g, h, w = up(grad_out), up(x), up(weight)
    rstd = right_rstd(h, eps)
    x_hat = normalized(h, rstd)
    found = result(x, weight, grad_x_of(g, w, x_hat, rstd), sums(g * x_hat), sums(g))
    g *= along(g, w)  # g is grad_out itself, unless that is of a half type
    return found


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as -= or a method that ends in _); make a"
    " new tensor.",
    link=PAGE + "bn-in-place",
)
def input_modified(grad_out, x, weight, eps):
    g, h, w = up(grad_out), up(x), up(weight)
    rstd = right_rstd(h, eps)
    x_hat = normalized(h, rstd)
    h -= along(h, h.mean(dims(h)))  # h is x itself, unless that is of a half type
    return result(x, weight, grad_x_of(g, w, x_hat, rstd), sums(g * x_hat), sums(g))
