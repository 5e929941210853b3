"""Wrong versions of `batch_norm`: dtypes, memory, gradients."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.batchnorm.batch_norm import (
    PAGE,
    affine,
    along,
    normalize,
    observe,
    refuse_one_value,
    statistics,
    unbiased,
    up,
    update,
)

misconception = partial(declare, exercise="batch_norm")

# -- dtypes ------------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and "
    "digits are lost; widen x to float32 first.",
    link=PAGE + "bn-dtype",
)
def no_upcast(x, weight, bias, running_mean, running_var, training, momentum, eps):
    mean, var = observe(x, running_mean, running_var, training, momentum)
    return affine(normalize(x, mean, var, eps), x, weight, bias)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "bn-dtype",
)
def result_left_wide(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    y = normalize(h, mean, var, eps)
    return y * along(x, weight).to(h.dtype) + along(x, bias).to(h.dtype)


@misconception(
    name="cast-before-affine",
    message="You cast back to the dtype of x before applying weight and bias; cast once, at the"
    " end.",
    link=PAGE + "bn-dtype",
)
def cast_before_affine(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    y = normalize(h, mean, var, eps).to(x.dtype)
    return affine(y, x, weight, bias)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "bn-dtype",
)
def always_float32(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = x.float()
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return affine(normalize(h, mean, var, eps), x, weight.float(), bias.float())


# -- memory and gradients -------------------------------------------------------------------------


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as -= or a method that ends in _); make a "
    "new tensor.",
    link=PAGE + "bn-in-place",
)
def input_modified(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)  # the same tensor as x, when x is float32 or float64
    mean, var = observe(h, running_mean, running_var, training, momentum)
    h -= along(h, mean)
    return affine(h * torch.rsqrt(along(h, var) + eps), x, weight, bias)


def _detaching(of_mean, of_var):
    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
        h = up(x)
        mean, var = observe(h, running_mean, running_var, training, momentum)
        mean, var = (mean.detach() if of_mean else mean), (var.detach() if of_var else var)
        return affine(normalize(h, mean, var, eps), x, weight, bias)

    return batch_norm


for _mean, _var in ((True, True), (False, True)):
    misconception(
        name="statistics-detached",
        message="You cut mean and variance out of the graph (detach, no_grad, .data or .item); in "
        "training they depend on x, and the gradient must flow through them.",
        link=PAGE + "bn-backward",
    )(_detaching(_mean, _var))


@misconception(name="statistics-detached")
def statistics_under_no_grad(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """The mean was taken again outside of no_grad, the variance was not."""
    h = up(x)
    if not training:
        mean, var = running_mean.to(h.dtype), running_var.to(h.dtype)
        return affine(normalize(h, mean, var, eps), x, weight, bias)
    refuse_one_value(h)
    with torch.no_grad():
        mean, var = statistics(h)
        update(running_mean, running_var, mean, unbiased(h, var), momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "bn-dtype")
def detached_in_half(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h, w, b = half_types.cut(x, weight, bias)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return affine(normalize(h, mean, var, eps), x, w, b)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, weight, bias, running_mean, running_var, training, momentum, eps):
    (h,) = half_types.cut(x)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(
    name="graph-cut",
    message="Your result carries no gradient (detach, no_grad, .data or numpy around the whole "
    "computation); training needs it.",
    link=PAGE + "bn-backward",
)
@torch.no_grad()
def graph_cut(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)
