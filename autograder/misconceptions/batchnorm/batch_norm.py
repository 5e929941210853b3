"""Wrong versions of `batch_norm`: the variance, eps, the axes, the affine step.

`batch_norm_running` holds mistakes about modes and running statistics, `batch_norm_precision` those
about dtypes, memory and gradients.
"""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare

PAGE = "batchnorm.html#"
misconception = partial(declare, exercise="batch_norm")


def up(x: torch.Tensor) -> torch.Tensor:
    """The right beginning: half types are widened to float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def dims(x: torch.Tensor) -> list[int]:
    """Every axis but the channels."""
    return [0, *range(2, x.dim())]


def along(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """t (C,) lined up with axis 1 of x."""
    return t.reshape(1, -1, *[1] * (x.dim() - 2))


def affine(y: torch.Tensor, x: torch.Tensor, weight, bias) -> torch.Tensor:
    """The right ending: weight and bias in y's precision, then back to the dtype of x."""
    return (y * along(x, weight) + along(x, bias)).to(x.dtype)


def refuse_one_value(x: torch.Tensor) -> None:
    if x.numel() // x.shape[1] < 2:
        raise ValueError("one value per channel")


def statistics(h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and biased variance of each channel, (C,) each."""
    mean = h.mean(dims(h))
    return mean, (h - along(h, mean)).square().mean(dims(h))


def unbiased(h: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
    n = h.numel() // h.shape[1]
    return var * n / (n - 1)


@torch.no_grad()
def update(running_mean, running_var, mean, var, momentum) -> None:
    """The right update, given the unbiased variance."""
    running_mean.mul_(1 - momentum).add_(momentum * mean)
    running_var.mul_(1 - momentum).add_(momentum * var)


def observe(h, running_mean, running_var, training, momentum):
    """The mean and variance that normalize, after the right update."""
    if not training:
        return running_mean.to(h.dtype), running_var.to(h.dtype)
    refuse_one_value(h)
    mean, var = statistics(h)
    update(running_mean, running_var, mean, unbiased(h, var), momentum)
    return mean, var


def normalize(h, mean, var, eps):
    return (h - along(h, mean)) * torch.rsqrt(along(h, var) + eps)


def _divided_by(divisor):
    """A batch norm that is right but for what it divides by, `divisor(var, eps)`."""

    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
        h = up(x)
        mean, var = observe(h, running_mean, running_var, training, momentum)
        return affine((h - along(h, mean)) / along(h, divisor(var, eps)), x, weight, bias)

    return batch_norm


# -- the variance ----------------------------------------------------------------------------


def _unbiased_with(divisor):
    """As `_divided_by`, and in training the variance that normalizes is the unbiased one."""

    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
        h = up(x)
        mean, var = observe(h, running_mean, running_var, training, momentum)
        var = unbiased(h, var) if training else var
        return affine((h - along(h, mean)) / along(h, divisor(var, eps)), x, weight, bias)

    return batch_norm


@misconception(
    name="unbiased-variance",
    message="You normalized with the unbiased variance (torch's default for var and std); in "
    "training the batch is normalized with the biased one, divided by n.",
    link=PAGE + "bn-biased-variance",
)
@_unbiased_with
def unbiased_variance(var, eps):
    return torch.sqrt(var + eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the "
    "root: sqrt(var + eps).",
    link=PAGE + "bn-eps",
)
@_divided_by
def eps_outside_root(var, eps):
    return torch.sqrt(var) + eps


@misconception(parts=("unbiased-variance", "eps-outside-root"))
@_unbiased_with
def std_plus_eps(var, eps):
    return torch.sqrt(var) + eps


@misconception(
    name="root-forgotten",
    message="You divided by the variance; batch norm divides by its square root.",
    link=PAGE + "bn-eps",
)
@_divided_by
def root_forgotten(var, eps):
    return var + eps


@misconception(
    name="root-of-std",
    message="You took the root of the standard deviation; the variance belongs under the root.",
    link=PAGE + "bn-eps",
)
@_divided_by
def root_of_std(var, eps):
    return torch.sqrt(torch.sqrt(var) + eps)


@misconception(
    name="multiplied-by-std",
    message="You multiplied by the standard deviation; batch norm divides by it.",
    link=PAGE + "bn-eps",
)
@_divided_by
def multiplied_by_std(var, eps):
    return torch.rsqrt(var + eps)


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a channel of equal numbers divides by zero.",
    link=PAGE + "bn-eps",
)
@_divided_by
def eps_forgotten(var, eps):
    return torch.sqrt(var)


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps of 1e-5; use the argument eps.",
    link=PAGE + "bn-eps",
)
@_divided_by
def eps_hard_coded(var, eps):
    return torch.sqrt(var + 1e-5)


@misconception(
    name="eps-twice",
    message="You added eps twice, under the root and again outside; once under the root is enough.",
    link=PAGE + "bn-eps",
)
@_divided_by
def eps_twice(var, eps):
    return torch.sqrt(var + eps) + eps


@misconception(
    name="eps-clamped",
    message="You used eps as a lower limit (clamp or max); batch norm adds it to the variance.",
    link=PAGE + "bn-eps",
)
@_divided_by
def eps_clamps_variance(var, eps):
    return torch.sqrt(var.clamp(min=eps))


@misconception(name="eps-clamped")
@_divided_by
def eps_clamps_std(var, eps):
    return torch.sqrt(var).clamp(min=eps)


def _other_variance(variance):
    """A batch norm whose batch variance is `variance(h, mean)` (biased); the rest is right."""

    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
        h = up(x)
        mean, var = running_mean.to(h.dtype), running_var.to(h.dtype)
        if training:
            refuse_one_value(h)
            mean = h.mean(dims(h))
            var = variance(h, mean)
            update(running_mean, running_var, mean, unbiased(h, var), momentum)
        return affine(normalize(h, mean, var, eps), x, weight, bias)

    return batch_norm


@misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the "
    "mean is large; subtract the mean first, then square.",
    link=PAGE + "bn-one-pass",
)
@_other_variance
def one_pass_variance(h, mean):
    return h.square().mean(dims(h)) - mean.square()


@misconception(name="one-pass-variance")
@_other_variance
def one_pass_variance_clamped(h, mean):
    return (h.square().mean(dims(h)) - mean.square()).clamp(min=0)


@misconception(
    name="mean-square-instead-of-variance",
    message="You took the mean of the squares without subtracting the mean first; the variance is "
    "the mean square of the centered x.",
    link=PAGE + "bn-one-pass",
)
@_other_variance
def mean_square(h, mean):
    return h.square().mean(dims(h))


@misconception(
    name="sum-instead-of-mean",
    message="You summed the squared deviations; the variance is their mean, so divide by n.",
    link=PAGE + "bn-biased-variance",
)
@_other_variance
def sum_instead_of_mean(h, mean):
    return (h - along(h, mean)).square().sum(dims(h))


@misconception(
    name="mean-not-subtracted",
    message="You divided x by its standard deviation without subtracting the mean first.",
    link=PAGE + "bn-axes",
)
def mean_not_subtracted(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    _, var = observe(h, running_mean, running_var, training, momentum)
    return affine(h * torch.rsqrt(along(h, var) + eps), x, weight, bias)


# -- which numbers share their statistics ----------------------------------------------------


def _over(axes):
    """In training, statistics over `axes(x)`; what goes into the running ones is right."""

    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
        h = up(x)
        mean, var = observe(h, running_mean, running_var, training, momentum)
        if not training:
            return affine(normalize(h, mean, var, eps), x, weight, bias)
        own = axes(h)
        var, mean = torch.var_mean(h, own, correction=0, keepdim=True)
        return affine((h - mean) * torch.rsqrt(var + eps), x, weight, bias)

    return batch_norm


@misconception(
    name="statistics-over-features",
    message="You took mean and variance along each sample's features, as layer norm does; batch "
    "norm takes them over the batch, for each channel by itself.",
    link=PAGE + "bn-axes",
)
@_over
def statistics_over_features(x):
    return list(range(1, x.dim()))


@misconception(name="statistics-over-features")
@_over
def statistics_over_channels(x):
    return [1]


@misconception(
    name="statistics-over-all-axes",
    message="You took one mean and one variance over the whole tensor; every channel has its own.",
    link=PAGE + "bn-axes",
)
@_over
def statistics_over_all_axes(x):
    return list(range(x.dim()))


@misconception(
    name="statistics-over-batch-only",
    message="You averaged over the batch alone, so that every position has its own statistics; "
    "average over all axes but axis 1.",
    link=PAGE + "bn-axes",
)
@_over
def statistics_over_batch_only(x):
    return [0]


@misconception(
    name="statistics-per-sample",
    message="You averaged over the positions of each sample alone, which is instance norm; batch "
    "norm averages over the batch, too.",
    link=PAGE + "bn-axes",
)
@_over
def statistics_per_sample(x):
    return list(range(2, x.dim())) or [0]


@misconception(
    name="channels-last",
    message="You took the last axis for the channels; they lie on axis 1, as in torch.",
    link=PAGE + "bn-axes",
)
@_over
def channels_last(x):
    return list(range(x.dim() - 1))


# -- weight and bias -------------------------------------------------------------------------


def _ending(end):
    """A batch norm whose last line is `end(y, x, weight, bias)`; weight and bias lined up."""

    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
        h = up(x)
        mean, var = observe(h, running_mean, running_var, training, momentum)
        return end(normalize(h, mean, var, eps), along(x, weight), along(x, bias)).to(x.dtype)

    return batch_norm


@misconception(
    name="affine-in-training-only",
    message="You applied weight and bias in training only; in evaluation they belong to the layer, "
    "too.",
    link=PAGE + "bn-affine",
)
def affine_in_training_only(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    y = normalize(h, mean, var, eps)
    return affine(y, x, weight, bias) if training else y.to(x.dtype)


@misconception(
    name="bias-forgotten",
    message="You left out the bias; it is added last.",
    link=PAGE + "bn-affine",
)
@_ending
def bias_forgotten(y, weight, bias):
    return y * weight


@misconception(
    name="weight-forgotten",
    message="You left out the weight; the normalized x is multiplied by it.",
    link=PAGE + "bn-affine",
)
@_ending
def weight_forgotten(y, weight, bias):
    return y + bias


@misconception(parts=("weight-forgotten", "bias-forgotten"))
@_ending
def affine_forgotten(y, weight, bias):
    return y


@misconception(
    name="bias-before-weight",
    message="You added the bias before multiplying by the weight; multiply first, then add.",
    link=PAGE + "bn-affine",
)
@_ending
def bias_before_weight(y, weight, bias):
    return (y + bias) * weight


@misconception(
    name="weight-and-bias-swapped",
    message="You swapped weight and bias: the weight multiplies, the bias is added.",
    link=PAGE + "bn-affine",
)
@_ending
def weight_and_bias_swapped(y, weight, bias):
    return y * bias + weight


@misconception(
    name="affine-along-last-axis",
    message="You let weight and bias line up with the last axis; they belong to axis 1, so give "
    "them the shape (1, C, 1, ...).",
    link=PAGE + "bn-affine",
)
def affine_along_last_axis(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return (normalize(h, mean, var, eps) * weight + bias).to(x.dtype)


@misconception(
    name="affine-before-normalizing",
    message="You applied weight and bias to x before normalizing; they come after.",
    link=PAGE + "bn-affine",
)
def affine_before_normalizing(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    h = h * along(h, weight) + along(h, bias)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return normalize(h, mean, var, eps).to(x.dtype)
