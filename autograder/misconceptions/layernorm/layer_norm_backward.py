"""Wrong versions of `layer_norm_backward(grad_out, x, weight, eps)`.

grad_out and x are (..., D), weight is (D,); the result is (grad_x, grad_weight, grad_bias) of
shapes (..., D), (D,), (D,).
"""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare

PAGE = "layernorm.html#"
misconception = partial(declare, exercise="layer_norm_backward")


def _up(*tensors: torch.Tensor) -> list[torch.Tensor]:
    half = (torch.float16, torch.bfloat16)
    return [t.float() if t.dtype in half else t for t in tensors]


def _x_hat(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The normalized x (..., D) and rstd (..., 1)."""
    rstd = torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + eps)
    return (x - x.mean(-1, keepdim=True)) * rstd, rstd


def _unbiased(x: torch.Tensor) -> torch.Tensor:
    """`x.var(-1, keepdim=True)`, but without torch's warning at D = 1 (the result is NaN too)."""
    return (x - _mean(x)).square().sum(-1, keepdim=True) / (x.shape[-1] - 1)


def _mean(t: torch.Tensor) -> torch.Tensor:
    return t.mean(-1, keepdim=True)


def _rows(t: torch.Tensor) -> torch.Tensor:
    """Sum over all leading axes: (..., D) -> (D,)."""
    return t.reshape(-1, t.shape[-1]).sum(0)


def _grad_x(g_hat: torch.Tensor, x_hat: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    return rstd * (g_hat - _mean(g_hat) - x_hat * _mean(g_hat * x_hat))


def _result(x, weight, grad_x, grad_weight, grad_bias):
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)


# -- grad_x ----------------------------------------------------------------------------------


def _wrong_grad_x(formula):
    """An implementation whose grad_x is `formula(g, w, x_hat, rstd)`; the rest is right."""

    def layer_norm_backward(grad_out, x, weight, eps):
        g, h, w = _up(grad_out, x, weight)
        x_hat, rstd = _x_hat(h, eps)
        grad_x = formula(g, w, x_hat, rstd)
        return _result(x, weight, grad_x, _rows(g * x_hat), _rows(g))

    return layer_norm_backward


@misconception(
    name="mean-term-missing",
    message="You left out the term - mean(g_hat): x also reaches the output through the mean.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def mean_term_missing(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat - x_hat * _mean(g_hat * x_hat))


@misconception(
    name="x-hat-term-missing",
    message="You left out the term - x_hat * mean(g_hat * x_hat): x also reaches the output "
    "through the variance.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def x_hat_term_missing(g, w, x_hat, rstd):
    g_hat = g * w
    return rstd * (g_hat - _mean(g_hat))


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
    return rstd * (g_hat + _mean(g_hat) + x_hat * _mean(g_hat * x_hat))


@misconception(
    name="weight-missing-in-grad-x",
    message="You left the weight out of grad_x: the gradient passes through the multiplication "
    "by weight first, so g_hat = grad_out * weight.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def weight_missing(g, w, x_hat, rstd):
    return _grad_x(g, x_hat, rstd)


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
    return w * _grad_x(g, x_hat, rstd)


@misconception(name="weight-after-the-means")
@_wrong_grad_x
def weight_on_the_first_term_only(g, w, x_hat, rstd):
    return rstd * (g * w - _mean(g) - x_hat * _mean(g * x_hat))


@misconception(
    name="rstd-missing",
    message="You left out the factor rstd of grad_x: x was divided by the standard deviation, "
    "and so is its gradient.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def rstd_missing(g, w, x_hat, rstd):
    return _grad_x(g * w, x_hat, torch.ones_like(rstd))


@misconception(
    name="multiplied-by-std",
    message="You multiplied grad_x by the standard deviation; multiply by rstd, one over it.",
    link=PAGE + "backward-derivation",
)
@_wrong_grad_x
def multiplied_by_std(g, w, x_hat, rstd):
    return _grad_x(g * w, x_hat, 1 / rstd)


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
    return rstd * (g_hat - scale * _mean(g_hat) - scale * x_hat * _mean(g_hat * x_hat))


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
        g, h, w = _up(grad_out, x, weight)
        x_hat, rstd = _x_hat(h, eps)
        return _result(x, weight, _grad_x(g * w, x_hat, rstd), *formula(g, w, h, x_hat))

    return layer_norm_backward


@misconception(
    name="grad-weight-without-x-hat",
    message="You summed grad_out alone for grad_weight; weight multiplies x_hat, so its "
    "gradient is the sum of grad_out * x_hat.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_without_x_hat(g, w, x, x_hat):
    return _rows(g), _rows(g)


@misconception(
    name="grad-weight-with-x",
    message="You used x itself for grad_weight; weight multiplies the normalized x, so use x_hat.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_with_x(g, w, x, x_hat):
    return _rows(g * x), _rows(g)


@misconception(
    name="grad-weight-with-centered-x",
    message="You used x minus its mean for grad_weight; divide by the standard deviation too "
    "(use x_hat).",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_with_centered_x(g, w, x, x_hat):
    return _rows(g * (x - _mean(x))), _rows(g)


@misconception(
    name="grad-weight-with-g-hat",
    message="You used g_hat = grad_out * weight for grad_weight; use grad_out itself.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_weight_with_g_hat(g, w, x, x_hat):
    return _rows(g * w * x_hat), _rows(g)


@misconception(
    name="grad-bias-with-weight",
    message="You multiplied grad_bias by weight; the bias is added last, so its gradient is the"
    " sum of grad_out alone.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def grad_bias_with_weight(g, w, x, x_hat):
    return _rows(g * x_hat), _rows(g * w)


@misconception(parts=("grad-weight-with-g-hat", "grad-bias-with-weight"))
@_wrong_sums
def both_sums_of_g_hat(g, w, x, x_hat):
    return _rows(g * w * x_hat), _rows(g * w)


@misconception(
    name="weight-and-bias-gradients-swapped",
    message="You returned grad_bias before grad_weight; the order is grad_x, grad_weight, "
    "grad_bias.",
    link=PAGE + "weight-gradient",
)
@_wrong_sums
def swapped(g, w, x, x_hat):
    return _rows(g), _rows(g * x_hat)


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
    return g * x_hat, _rows(g)


@misconception(
    name="summed-over-features",
    message="You summed grad_weight and grad_bias over the last axis; keep that one and sum "
    "over all others.",
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


# -- x_hat and rstd computed wrong ----------------------------------------------------------------


def _wrong_statistics(rstd_of):
    """An implementation with another rstd, `rstd_of(x, eps)`; the rest is right."""

    def layer_norm_backward(grad_out, x, weight, eps):
        g, h, w = _up(grad_out, x, weight)
        rstd = rstd_of(h, eps)
        x_hat = (h - _mean(h)) * rstd
        return _result(x, weight, _grad_x(g * w, x_hat, rstd), _rows(g * x_hat), _rows(g))

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
    return torch.rsqrt(_mean(x**2) - _mean(x) ** 2 + eps)


# -- dtypes and memory ------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed in half precision, where the sums lose their digits; widen to float32"
    " first and cast back last.",
    link=PAGE + "dtype-and-upcast",
)
def no_upcast(grad_out, x, weight, eps):
    g_hat = grad_out * weight
    x_hat, rstd = _x_hat(x, eps)
    grad_weight = _rows(grad_out * x_hat)
    return _result(x, weight, _grad_x(g_hat, x_hat, rstd), grad_weight, _rows(grad_out))


@misconception(
    name="results-left-wide",
    message="You returned the wider dtype that you computed in; grad_x has the dtype of x, the "
    "other two that of weight.",
    link=PAGE + "dtype-and-upcast",
)
def results_left_wide(grad_out, x, weight, eps):
    g, h, w = _up(grad_out, x, weight)
    x_hat, rstd = _x_hat(h, eps)
    return _grad_x(g * w, x_hat, rstd), _rows(g * x_hat), _rows(g)


@misconception(
    name="gradient-modified",
    message="You changed grad_out in place (an operator such as *= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "in-place",
)
def gradient_modified(grad_out, x, weight, eps):
    g, h = _up(grad_out, x)
    x_hat, rstd = _x_hat(h, eps)
    grad_weight, grad_bias = _rows(g * x_hat), _rows(g)
    g *= weight  # g is grad_out itself, unless that is of a half type
    return _result(x, weight, _grad_x(g, x_hat, rstd), grad_weight, grad_bias)


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as -= or a method that ends in _); make a"
    " new tensor.",
    link=PAGE + "in-place",
)
def input_modified(grad_out, x, weight, eps):
    g, h, w = _up(grad_out, x, weight)
    h -= _mean(h)  # h is x itself, unless that is of a half type
    x_hat, rstd = _x_hat(h, eps)
    return _result(x, weight, _grad_x(g * w, x_hat, rstd), _rows(g * x_hat), _rows(g))
