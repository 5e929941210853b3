"""Wrong versions of `layer_norm_backward(grad_out, x, weight, eps)`.

grad_out and x are (..., D), weight is (D,); the result is (grad_x, grad_weight, grad_bias) of
shapes (..., D), (D,), (D,). Here: the formulas. `layer_norm_backward_statistics` holds mistakes in
x_hat, in dtypes and in memory.
"""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare

PAGE = "layernorm.html#"
misconception = partial(declare, exercise="layer_norm_backward")


def up(*tensors: torch.Tensor) -> list[torch.Tensor]:
    half = (torch.float16, torch.bfloat16)
    return [t.float() if t.dtype in half else t for t in tensors]


def normalized(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The normalized x (..., D) and rstd (..., 1)."""
    rstd = torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + eps)
    return (x - x.mean(-1, keepdim=True)) * rstd, rstd


def mean(t: torch.Tensor) -> torch.Tensor:
    return t.mean(-1, keepdim=True)


def sum_rows(t: torch.Tensor) -> torch.Tensor:
    """Sum over all leading axes: (..., D) -> (D,)."""
    return t.reshape(-1, t.shape[-1]).sum(0)


def grad_x_of(g_hat: torch.Tensor, x_hat: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    return rstd * (g_hat - mean(g_hat) - x_hat * mean(g_hat * x_hat))


def result(x, weight, grad_x, grad_weight, grad_bias):
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)


# -- grad_x ----------------------------------------------------------------------------------


def _wrong_grad_x(formula):
    """An implementation whose grad_x is `formula(g, w, x_hat, rstd)`; the rest is right."""

    def layer_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out, x, weight)
        x_hat, rstd = normalized(h, eps)
        grad_x = formula(g, w, x_hat, rstd)
        return result(x, weight, grad_x, sum_rows(g * x_hat), sum_rows(g))

    return layer_norm_backward


@misconception(
    name="mean-term-missing",
    message="You left out the term - mean(g_hat): x also reaches the output through the mean.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def mean_term_missing(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat - x_hat * mean(g_hat * x_hat))


@misconception(
    name="x-hat-term-missing",
    message="You left out the term - x_hat * mean(g_hat * x_hat): x also reaches the output "
    "through the variance.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def x_hat_term_missing(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat - mean(g_hat))


@misconception(parts=("mean-term-missing", "x-hat-term-missing"))
@_wrong_grad_x
def both_terms_missing(g, w, x_hat, rstd):
    return rstd * g * w


@misconception(
    name="terms-added",
    message="You added the two mean terms; both are subtracted.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def terms_added(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat + mean(g_hat) + x_hat * mean(g_hat * x_hat))


@misconception(
    name="weight-missing-in-grad-x",
    message="You left the weight out of grad_x: the gradient passes through the multiplication "
    "by weight first, so g_hat = grad_out * weight.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def weight_missing(g, w, x_hat, rstd):
    return grad_x_of(g, x_hat, rstd)


@misconception(parts=("mean-term-missing", "x-hat-term-missing", "weight-missing-in-grad-x"))
@_wrong_grad_x
def only_rstd_left(g, w, x_hat, rstd):
    return rstd * g


@misconception(
    name="weight-after-the-means",
    message="You multiplied by weight after taking the means; the weight comes first, g_hat = "
    "grad_out * weight, and the means are those of g_hat.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def weight_after_the_means(g, w, x_hat, rstd):
    return w * grad_x_of(g, x_hat, rstd)


@misconception(name="weight-after-the-means")
@_wrong_grad_x
def weight_on_the_first_term_only(g, w, x_hat, rstd):
    return rstd * (g * w - mean(g) - x_hat * mean(g * x_hat))


@misconception(
    name="rstd-missing",
    message="You left out the factor rstd of grad_x: x was divided by the standard deviation, "
    "and so is its gradient.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def rstd_missing(g, w, x_hat, rstd):
    return grad_x_of(g * w, x_hat, torch.ones_like(rstd))


@misconception(
    name="multiplied-by-std",
    message="You multiplied grad_x by the standard deviation; multiply by rstd, one over it.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def multiplied_by_std(g, w, x_hat, rstd):
    return grad_x_of(g * w, x_hat, 1 / rstd)


@misconception(
    name="sum-instead-of-mean",
    message="You took sums over the last axis in grad_x; the two terms are means, so divide by D.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def sum_instead_of_mean(g, w, x_hat, rstd):
    g_hat = g * w
    total, along = g_hat.sum(-1, keepdim=True), (g_hat * x_hat).sum(-1, keepdim=True)
    return rstd * (g_hat - total - x_hat * along)


@misconception(
    name="means-divided-by-d-minus-1",
    message="You divided the two sums in grad_x by D - 1; the biased variance gives means, so "
    "divide by D.",
    link=PAGE + "biased-variance",
)
@_wrong_grad_x
def means_divided_by_d_minus_1(g, w, x_hat, rstd):
    g_hat = g * w
    scale = g.shape[-1] / max(g.shape[-1] - 1, 1)
    return rstd * (g_hat - scale * mean(g_hat) - scale * x_hat * mean(g_hat * x_hat))


@misconception(
    name="means-over-batch",
    message="You took the means in grad_x across rows (the batch), as batch norm does; layer "
    "norm takes them along the last axis.",
    link=PAGE + "which-axis",
)
@_wrong_grad_x
def means_over_batch(g, w, x_hat, rstd):
    g_hat = g * w
    dims = tuple(range(max(g.dim() - 1, 1)))
    along = (g_hat * x_hat).mean(dims, keepdim=True)
    return rstd * (g_hat - g_hat.mean(dims, keepdim=True) - x_hat * along)


@misconception(
    name="means-over-all-axes",
    message="You took the means in grad_x over the whole tensor; each row has its own, along "
    "the last axis.",
    link=PAGE + "which-axis",
)
@_wrong_grad_x
def means_over_all_axes(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat - g_hat.mean() - x_hat * (g_hat * x_hat).mean())


# -- grad_weight and grad_bias ---------------------------------------------------------------


def _wrong_sums(formula):
    """An implementation whose (grad_weight, grad_bias) is `formula(g, w, x, x_hat)`."""

    def layer_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out, x, weight)
        x_hat, rstd = normalized(h, eps)
        return result(x, weight, grad_x_of(g * w, x_hat, rstd), *formula(g, w, h, x_hat))

    return layer_norm_backward


@misconception(
    name="grad-weight-without-x-hat",
    message="You summed grad_out alone for grad_weight; weight multiplies x_hat, so its "
    "gradient is the sum of grad_out * x_hat.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_without_x_hat(g, w, x, x_hat):
    return sum_rows(g), sum_rows(g)


@misconception(
    name="grad-weight-with-x",
    message="You used x itself for grad_weight; weight multiplies the normalized x, so use x_hat.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_with_x(g, w, x, x_hat):
    return sum_rows(g * x), sum_rows(g)


@misconception(
    name="grad-weight-with-centered-x",
    message="You used x minus its mean for grad_weight; divide by the standard deviation too "
    "(use x_hat).",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_with_centered_x(g, w, x, x_hat):
    return sum_rows(g * (x - mean(x))), sum_rows(g)


@misconception(
    name="grad-weight-with-g-hat",
    message="You used g_hat = grad_out * weight for grad_weight; use grad_out itself.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_with_g_hat(g, w, x, x_hat):
    return sum_rows(g * w * x_hat), sum_rows(g)


@misconception(
    name="grad-bias-with-weight",
    message="You multiplied grad_bias by weight; the bias is added last, so its gradient is the"
    " sum of grad_out alone.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_bias_with_weight(g, w, x, x_hat):
    return sum_rows(g * x_hat), sum_rows(g * w)


@misconception(parts=("grad-weight-with-g-hat", "grad-bias-with-weight"))
@_wrong_sums
def both_sums_of_g_hat(g, w, x, x_hat):
    return sum_rows(g * w * x_hat), sum_rows(g * w)


@misconception(
    name="weight-and-bias-gradients-swapped",
    message="You returned grad_bias before grad_weight; the order is grad_x, grad_weight, "
    "grad_bias.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def swapped(g, w, x, x_hat):
    return sum_rows(g), sum_rows(g * x_hat)


@misconception(
    name="not-summed-over-rows",
    message="You did not add up grad_weight or grad_bias over the rows; weight and bias are "
    "used by every row, so sum over all axes but the last.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def not_summed(g, w, x, x_hat):
    return g * x_hat, g


@misconception(name="not-summed-over-rows")
@_wrong_sums
def not_summed_but_bias(g, w, x, x_hat):
    return g * x_hat, sum_rows(g)


@misconception(
    name="summed-over-features",
    message="You summed grad_weight and grad_bias over the last axis, too; keep that one and sum "
    "over all others. If there are none: sum over an empty tuple of axes sums them all.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def summed_over_features(g, w, x, x_hat):
    return (g * x_hat).sum(-1), g.sum(-1)


@misconception(
    name="summed-over-first-axis-only",
    message="You summed grad_weight and grad_bias over the first axis only; with more than two "
    "axes sum over all but the last.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def summed_over_first_axis(g, w, x, x_hat):
    return (g * x_hat).sum(0), g.sum(0)


@misconception(
    name="mean-over-rows",
    message="You averaged grad_weight and grad_bias over the rows; the gradient is the sum.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def mean_over_rows(g, w, x, x_hat):
    dims = tuple(range(g.dim() - 1))
    return ((g * x_hat).mean(dims), g.mean(dims)) if dims else (g * x_hat, g)
