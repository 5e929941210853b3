"""Wrong versions of `rms_norm_backward(grad_out, x, weight, eps)`.

grad_out and x are (..., D), weight is (D,); the result is (grad_x, grad_weight) of shapes (..., D)
and (D,).
"""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.rmsnorm.rms_norm import PAGE, mean_square, up

misconception = partial(declare, exercise="rms_norm_backward")


def _mean(t: torch.Tensor) -> torch.Tensor:
    return t.mean(-1, keepdim=True)


def _sum_rows(t: torch.Tensor) -> torch.Tensor:
    """Sum over all leading axes: (..., D) -> (D,)."""
    return t.reshape(-1, t.shape[-1]).sum(0)


def _grad_x(g_hat: torch.Tensor, x_hat: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    return rstd * (g_hat - x_hat * _mean(g_hat * x_hat))


def _rstd(x: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.rsqrt(mean_square(x) + eps)


# -- grad_x ----------------------------------------------------------------------------------


def _wrong_grad_x(formula):
    """An implementation whose grad_x is `formula(g, w, x_hat, rstd)`; the rest is right."""

    def rms_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out, x, weight)
        rstd = _rstd(h, eps)
        x_hat = h * rstd
        grad_x = formula(g, w, x_hat, rstd)
        return grad_x.to(x.dtype), _sum_rows(g * x_hat).to(weight.dtype)

    return rms_norm_backward


@misconception(
    name="x-hat-term-missing",
    message="You left out the term - x_hat * mean(g_hat * x_hat): x also reaches the output "
    "through the root mean square.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def x_hat_term_missing(g, w, x_hat, rstd):
    return rstd * g * w


@misconception(
    name="mean-subtracted",
    message="You subtracted the mean of g_hat, as layer norm's backward pass does; RMSNorm has no "
    "mean, so nothing is re-centered.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def mean_subtracted(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat - _mean(g_hat) - x_hat * _mean(g_hat * x_hat))


@misconception(
    name="term-added",
    message="You added x_hat * mean(g_hat * x_hat); it is subtracted.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def term_added(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat + x_hat * _mean(g_hat * x_hat))


@misconception(
    name="weight-missing-in-grad-x",
    message="You left the weight out of grad_x: the gradient passes through the multiplication "
    "by weight first, so g_hat = grad_out * weight.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def weight_missing(g, w, x_hat, rstd):
    return _grad_x(g, x_hat, rstd)


@misconception(parts=("x-hat-term-missing", "weight-missing-in-grad-x"))
@_wrong_grad_x
def only_rstd_left(g, w, x_hat, rstd):
    return rstd * g


@misconception(
    name="weight-after-the-mean",
    message="You multiplied by weight after taking the mean; the weight comes first, g_hat = "
    "grad_out * weight, and the mean is that of g_hat * x_hat.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def weight_after_the_mean(g, w, x_hat, rstd):
    return w * _grad_x(g, x_hat, rstd)


@misconception(name="weight-after-the-mean")
@_wrong_grad_x
def weight_on_the_first_term_only(g, w, x_hat, rstd):
    return rstd * (g * w - x_hat * _mean(g * x_hat))


@misconception(
    name="rstd-missing",
    message="You left out the factor rstd of grad_x: x was divided by the root mean square, and so"
    " is its gradient.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def rstd_missing(g, w, x_hat, rstd):
    return _grad_x(g * w, x_hat, torch.ones_like(rstd))


@misconception(
    name="multiplied-by-rms",
    message="You multiplied grad_x by the root mean square; multiply by rstd, one over it.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def multiplied_by_rms(g, w, x_hat, rstd):
    return _grad_x(g * w, x_hat, 1 / rstd)


@misconception(
    name="x-instead-of-x-hat",
    message="You used x itself where x_hat belongs in grad_x; with x it takes rstd cubed.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def x_instead_of_x_hat(g, w, x_hat, rstd):
    g_hat, x = g * w, x_hat / rstd
    return rstd * (g_hat - x * _mean(g_hat * x))


@misconception(name="x-instead-of-x-hat")
@_wrong_grad_x
def x_instead_of_x_hat_once(g, w, x_hat, rstd):
    g_hat, x = g * w, x_hat / rstd
    return rstd * (g_hat - x_hat * _mean(g_hat * x))


@misconception(
    name="sum-instead-of-mean",
    message="You took a sum over the last axis in grad_x; the term has a mean, so divide by D.",
    link=PAGE + "rms-backward",
)
@_wrong_grad_x
def sum_instead_of_mean(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat - x_hat * (g_hat * x_hat).sum(-1, keepdim=True))


@misconception(
    name="mean-over-batch",
    message="You took the mean in grad_x across vectors (the batch); each vector has its own, along"
    " the last axis.",
    link=PAGE + "rms-which-axis",
)
@_wrong_grad_x
def mean_over_batch(g, w, x_hat, rstd):
    along = g * w * x_hat
    return rstd * (g * w - x_hat * along.mean(tuple(range(max(g.dim() - 1, 1))), keepdim=True))


@misconception(
    name="mean-over-all-axes",
    message="You took the mean in grad_x over the whole tensor; each vector has its own, along the"
    " last axis.",
    link=PAGE + "rms-which-axis",
)
@_wrong_grad_x
def mean_over_all_axes(g, w, x_hat, rstd):
    return rstd * (g * w - x_hat * (g * w * x_hat).mean())


# -- grad_weight -----------------------------------------------------------------------------


def _wrong_grad_weight(formula):
    """An implementation whose grad_weight is `formula(g, w, x, x_hat)`."""

    def rms_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out, x, weight)
        rstd = _rstd(h, eps)
        x_hat = h * rstd
        grad_weight = formula(g, w, h, x_hat)
        return _grad_x(g * w, x_hat, rstd).to(x.dtype), grad_weight.to(weight.dtype)

    return rms_norm_backward


@misconception(
    name="grad-weight-without-x-hat",
    message="You summed grad_out alone for grad_weight; weight multiplies x_hat, so its gradient "
    "is the sum of grad_out * x_hat.",
    link=PAGE + "rms-weight-gradient",
)
@_wrong_grad_weight
def grad_weight_without_x_hat(g, w, x, x_hat):
    return _sum_rows(g)


@misconception(
    name="grad-weight-with-x",
    message="You used x itself for grad_weight; weight multiplies the normalized x, so use x_hat.",
    link=PAGE + "rms-weight-gradient",
)
@_wrong_grad_weight
def grad_weight_with_x(g, w, x, x_hat):
    return _sum_rows(g * x)


@misconception(
    name="grad-weight-with-g-hat",
    message="You used g_hat = grad_out * weight for grad_weight; use grad_out itself.",
    link=PAGE + "rms-weight-gradient",
)
@_wrong_grad_weight
def grad_weight_with_g_hat(g, w, x, x_hat):
    return _sum_rows(g * w * x_hat)


@misconception(
    name="not-summed-over-rows",
    message="You did not add up grad_weight over the vectors; weight is used by every vector, so "
    "sum over all axes but the last.",
    link=PAGE + "rms-weight-gradient",
)
@_wrong_grad_weight
def not_summed(g, w, x, x_hat):
    return g * x_hat


@misconception(
    name="summed-over-features",
    message="You summed grad_weight over the last axis, too; keep that one and sum over all "
    "others. If there are none: sum over an empty tuple of axes sums them all.",
    link=PAGE + "rms-weight-gradient",
)
@_wrong_grad_weight
def summed_over_features(g, w, x, x_hat):
    return (g * x_hat).sum(-1)


@misconception(
    name="summed-over-first-axis-only",
    message="You summed grad_weight over the first axis only; with more than two axes sum over all"
    " but the last.",
    link=PAGE + "rms-weight-gradient",
)
@_wrong_grad_weight
def summed_over_first_axis(g, w, x, x_hat):
    return (g * x_hat).sum(0)


@misconception(
    name="mean-over-rows",
    message="You averaged grad_weight over the vectors; the gradient is the sum.",
    link=PAGE + "rms-weight-gradient",
)
@_wrong_grad_weight
def mean_over_rows(g, w, x, x_hat):
    dims = tuple(range(g.dim() - 1))
    return (g * x_hat).mean(dims) if dims else g * x_hat


# -- x_hat and rstd computed wrong, dtypes, memory ---------------------------------------------


def _with_rstd(rstd_of, centered=False):
    """An implementation with another rstd, `rstd_of(x, eps)`; the rest is right."""

    def rms_norm_backward(grad_out, x, weight, eps):
        g, h, w = up(grad_out, x, weight)
        h = h - _mean(h) if centered else h
        rstd = rstd_of(h, eps)
        x_hat = h * rstd
        grad_weight = _sum_rows(g * x_hat).to(weight.dtype)
        return _grad_x(g * w, x_hat, rstd).to(x.dtype), grad_weight

    return rms_norm_backward


misconception(
    name="centered",
    message="You subtracted the mean of x first, which is layer norm; RMSNorm subtracts nothing.",
    link=PAGE + "rms-no-centering",
)(_with_rstd(_rstd, centered=True))
misconception(
    name="eps-outside-root",
    message="You added eps to the root mean square, outside the root; it belongs under the root: "
    "sqrt(mean square + eps).",
    link=PAGE + "rms-eps",
)(_with_rstd(lambda x, eps: 1 / (torch.sqrt(mean_square(x)) + eps)))
misconception(
    name="eps-forgotten",
    message="You left eps out; the forward pass divides by sqrt(mean square + eps), and so must"
    " this.",
    link=PAGE + "rms-eps",
)(_with_rstd(lambda x, eps: torch.rsqrt(mean_square(x))))
for _eps in (1e-6, 1e-5):
    misconception(
        name="eps-hard-coded",
        message="You used a fixed eps; use the argument eps.",
        link=PAGE + "rms-eps",
    )(_with_rstd(lambda x, eps, _eps=_eps: torch.rsqrt(mean_square(x) + _eps)))
misconception(
    name="sum-of-squares",
    message="You summed the squares in rstd; RMSNorm takes their mean, so divide by D.",
    link=PAGE + "rms-idea",
)(_with_rstd(lambda x, eps: torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)))


@misconception(
    name="no-upcast",
    message="You computed in half precision, where squares overflow and sums lose their digits; "
    "widen to float32 first and cast back last.",
    link=PAGE + "rms-dtype",
)
def no_upcast(grad_out, x, weight, eps):
    rstd = _rstd(x, eps)
    x_hat, g_hat = x * rstd, grad_out * weight
    return _grad_x(g_hat, x_hat, rstd).to(x.dtype), _sum_rows(grad_out * x_hat).to(weight.dtype)


@misconception(
    name="results-left-wide",
    message="You returned the wider dtype that you computed in; grad_x has the dtype of x, and "
    "grad_weight that of weight.",
    link=PAGE + "rms-dtype",
)
def results_left_wide(grad_out, x, weight, eps):
    g, h, w = up(grad_out, x, weight)
    rstd = _rstd(h, eps)
    return _grad_x(g * w, h * rstd, rstd), _sum_rows(g * h * rstd)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "rms-dtype",
)
def always_float32(grad_out, x, weight, eps):
    g, h, w = grad_out.float(), x.float(), weight.float()
    rstd = _rstd(h, eps)
    grad_weight = _sum_rows(g * h * rstd).to(weight.dtype)
    return _grad_x(g * w, h * rstd, rstd).to(x.dtype), grad_weight


@misconception(
    name="gradient-modified",
    message="You changed grad_out in place (an operator such as *= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "rms-in-place",
)
def gradient_modified(grad_out, x, weight, eps):
    g, h = up(grad_out, x)
    rstd = _rstd(h, eps)
    grad_weight = _sum_rows(g * h * rstd).to(weight.dtype)
    g *= weight  # g is grad_out itself, unless that is of a half type
    return _grad_x(g, h * rstd, rstd).to(x.dtype), grad_weight


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as *= or a method that ends in _); make a"
    " new tensor.",
    link=PAGE + "rms-in-place",
)
def input_modified(grad_out, x, weight, eps):
    g, h, w = up(grad_out, x, weight)
    rstd = _rstd(h, eps)
    h *= rstd  # h is x itself, unless that is of a half type
    return _grad_x(g * w, h, rstd).to(x.dtype), _sum_rows(g * h).to(weight.dtype)
