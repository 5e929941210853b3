"""Wrong versions of `batch_norm_backward(grad_out, x, weight, eps)`; x is (N, C) or (N, C, *)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.batchnorm.batch_norm import along, dims, up

PAGE = "batchnorm.html#"
misconception = partial(declare, exercise="batch_norm_backward")


def sums(t):
    """Over every axis but the channels: (C,)."""
    return t.sum(dims(t))


def normalized(h, rstd):
    return (h - along(h, h.mean(dims(h)))) * along(h, rstd)


def variance(h):
    return (h - along(h, h.mean(dims(h)))).square().mean(dims(h))


def right_rstd(h, eps):
    return torch.rsqrt(variance(h) + eps)


def grad_x_of(g, w, x_hat, rstd):
    """The right gradient of x; w and rstd are (C,)."""
    n = g.numel() // g.shape[1]
    inner = g - along(g, sums(g) / n) - x_hat * along(g, sums(g * x_hat) / n)
    return along(g, w * rstd) * inner


def result(x, weight, grad_x, grad_weight, grad_bias):
    """The right ending: the dtypes of x and weight."""
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)


# -- grad_x ------------------------------------------------------------------------------------


def _wrong_grad_x(formula):
    """An implementation whose grad_x is `formula(g, w, x_hat, rstd)`; w and rstd lined up."""

    def batch_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out), up(x), up(weight)
        rstd = right_rstd(h, eps)
        x_hat = normalized(h, rstd)
        grad_x = formula(g, along(g, w), x_hat, along(g, rstd))
        return result(x, weight, grad_x, sums(g * x_hat), sums(g))

    return batch_norm_backward


def mean(t):
    return along(t, t.mean(dims(t)))


@misconception(
    name="both-mean-terms-missing",
    message="You treated mean and variance as constants, which is right in evaluation; in training "
    "they depend on x, and each adds a term to grad_x.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def both_terms_missing(g, w, x_hat, rstd):
    return g * w * rstd


@misconception(
    name="mean-term-missing",
    message="You left out the path through the mean: grad_bias / n must be subtracted.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def mean_term_missing(g, w, x_hat, rstd):
    return w * rstd * (g - x_hat * mean(g * x_hat))


@misconception(
    name="x-hat-term-missing",
    message="You left out the path through the variance: x_hat * grad_weight / n must be "
    "subtracted.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def x_hat_term_missing(g, w, x_hat, rstd):
    return w * rstd * (g - mean(g))


@misconception(
    name="weight-missing-in-grad-x",
    message="You left weight out of grad_x; the gradient passes through the multiplication by it.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def weight_missing(g, w, x_hat, rstd):
    return rstd * (g - mean(g) - x_hat * mean(g * x_hat))


@misconception(
    name="rstd-missing",
    message="You left rstd out of grad_x; dividing by the standard deviation divides the gradient, "
    "too.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def rstd_missing(g, w, x_hat, rstd):
    return w * (g - mean(g) - x_hat * mean(g * x_hat))


@misconception(
    name="multiplied-by-std",
    message="You multiplied grad_x by the standard deviation; it is divided by it.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def multiplied_by_std(g, w, x_hat, rstd):
    return w / rstd * (g - mean(g) - x_hat * mean(g * x_hat))


@misconception(
    name="terms-added",
    message="You added the two mean terms; both are subtracted.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def terms_added(g, w, x_hat, rstd):
    return w * rstd * (g + mean(g) + x_hat * mean(g * x_hat))


@misconception(
    name="not-divided-by-n",
    message="You subtracted the sums themselves; divide grad_bias and grad_weight by n there.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def not_divided(g, w, x_hat, rstd):
    return w * rstd * (g - along(g, sums(g)) - x_hat * along(g, sums(g * x_hat)))


@misconception(
    name="n-without-positions",
    message="You divided by the batch size; n is the number of values in a channel, N times the "
    "number of positions.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def n_without_positions(g, w, x_hat, rstd):
    n = len(g)
    return w * rstd * (g - along(g, sums(g) / n) - x_hat * along(g, sums(g * x_hat) / n))


@misconception(
    name="weight-twice",
    message="You multiplied by weight twice: once inside the sums and once outside.",
    link=PAGE + "bn-backward",
)
@_wrong_grad_x
def weight_twice(g, w, x_hat, rstd):
    return w * rstd * (g * w - mean(g * w) - x_hat * mean(g * w * x_hat))


@misconception(
    name="means-over-features",
    message="You took the two means along each sample's features, as layer norm does; batch norm "
    "takes them over all axes but axis 1.",
    link=PAGE + "bn-axes",
)
@_wrong_grad_x
def means_over_features(g, w, x_hat, rstd):
    own = list(range(1, g.dim()))
    h = g * w
    return rstd * (h - h.mean(own, keepdim=True) - x_hat * (h * x_hat).mean(own, keepdim=True))


@misconception(
    name="means-over-batch-only",
    message="You took the two means over the batch alone; take them over all axes but axis 1.",
    link=PAGE + "bn-axes",
)
@_wrong_grad_x
def means_over_batch_only(g, w, x_hat, rstd):
    h = g * w
    return rstd * (h - h.mean(0, keepdim=True) - x_hat * (h * x_hat).mean(0, keepdim=True))


# -- grad_weight and grad_bias -------------------------------------------------------------------


def _wrong_sums(formula):
    """An implementation whose (grad_weight, grad_bias) is `formula(g, w, h, x_hat)`."""

    def batch_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out), up(x), up(weight)
        rstd = right_rstd(h, eps)
        x_hat = normalized(h, rstd)
        grad_x = grad_x_of(g, w, x_hat, rstd)
        return result(x, weight, grad_x, *formula(g, along(g, w), h, x_hat))

    return batch_norm_backward


@misconception(
    name="grad-weight-without-x-hat",
    message="You summed grad_out alone for grad_weight; weight multiplies x_hat, so its "
    "gradient is the sum of grad_out * x_hat.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def grad_weight_without_x_hat(g, w, h, x_hat):
    return sums(g), sums(g)


@misconception(
    name="grad-weight-with-x",
    message="You used x itself for grad_weight; weight multiplies the normalized x, so use x_hat.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def grad_weight_with_x(g, w, h, x_hat):
    return sums(g * h), sums(g)


@misconception(
    name="grad-weight-with-centered-x",
    message="You used x minus its mean for grad_weight; divide by the standard deviation too "
    "(use x_hat).",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def grad_weight_with_centered_x(g, w, h, x_hat):
    return sums(g * (h - mean(h))), sums(g)


@misconception(
    name="sums-with-weight",
    message="You multiplied grad_weight or grad_bias by weight; both use grad_out itself.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def sums_with_weight(g, w, h, x_hat):
    return sums(g * w * x_hat), sums(g * w)


@misconception(name="sums-with-weight")
@_wrong_sums
def grad_weight_with_weight(g, w, h, x_hat):
    return sums(g * w * x_hat), sums(g)


@misconception(
    name="weight-and-bias-gradients-swapped",
    message="You returned grad_bias before grad_weight; the order is grad_x, grad_weight, "
    "grad_bias.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def swapped(g, w, h, x_hat):
    return sums(g), sums(g * x_hat)


@misconception(
    name="not-summed",
    message="You did not add up grad_weight or grad_bias; every sample uses the same weight and "
    "bias, so sum over all axes but axis 1.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def not_summed(g, w, h, x_hat):
    return g * x_hat, g


@misconception(
    name="summed-over-features",
    message="You summed grad_weight and grad_bias over axis 1 and kept the batch; keep axis 1 and "
    "sum over all others.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def summed_over_features(g, w, h, x_hat):
    own = list(range(1, g.dim()))
    return (g * x_hat).sum(own), g.sum(own)


@misconception(
    name="summed-over-batch-only",
    message="You summed grad_weight and grad_bias over the batch only; sequences and images need "
    "the sum over all positions as well.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def summed_over_batch_only(g, w, h, x_hat):
    return (g * x_hat).sum(0), g.sum(0)


@misconception(
    name="mean-instead-of-sum",
    message="You averaged grad_weight and grad_bias; the gradient is the sum.",
    link=PAGE + "bn-weight-gradient",
)
@_wrong_sums
def mean_instead_of_sum(g, w, h, x_hat):
    return (g * x_hat).mean(dims(g)), g.mean(dims(g))
