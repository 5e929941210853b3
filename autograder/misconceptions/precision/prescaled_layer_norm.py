"""Wrong versions of `prescaled_layer_norm(x, eps)`; x is (..., D)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.precision.shared import PAGE

misconception = partial(declare, exercise="prescaled_layer_norm")
LINK = PAGE + "prec-prescale"


def largest(x):
    return x.abs().amax(-1, keepdim=True).clamp(min=1)


def norm(x, eps):
    """Layer norm in the dtype of x; eps a number or a tensor (..., 1)."""
    centered = x - x.mean(-1, keepdim=True)
    return centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)


def at_least_tiny(eps):
    return eps.clamp(min=torch.finfo(eps.dtype).tiny)


def _with_eps(rule):
    """Right but for the eps of the scaled vector, which is `rule(eps, s)`."""

    def prescaled_layer_norm(x, eps):
        s = largest(x)
        return norm(x / s, rule(eps, s))

    return prescaled_layer_norm


def _with_s(rule):
    """Right but for s, which is `rule(x)`."""

    def prescaled_layer_norm(x, eps):
        s = rule(x)
        return norm(x / s, at_least_tiny(eps / s / s))

    return prescaled_layer_norm


# -- s -------------------------------------------------------------------------------------------


@misconception(
    name="overflows",
    message="Your computation meets an infinite number: divide each vector by its largest absolute "
    "value before you sum or square anything. Clipping, or another dtype, only moves the limit.",
    link=LINK,
)
def not_scaled(x, eps):
    return norm(x, eps)


@misconception(name="overflows")
def computed_in_float64(x, eps):
    return norm(x.double(), eps).to(x.dtype)


@misconception(name="overflows")
def fixed_s(x, eps):
    return norm(x / 64, eps / 64**2)


@misconception(name="overflows")
def larger_fixed_s(x, eps):
    s = torch.full_like(x[..., :1], 2.0**15)
    return norm(x / s, at_least_tiny(eps / s / s))


@misconception(
    name="one-s-for-all",
    message="You took one s for the whole tensor, so that vectors much smaller than the largest "
    "vanish; each vector has its own.",
    link=LINK,
)
@_with_s
def one_s_for_all(x):
    return x.abs().max().clamp(min=1).expand(*x.shape[:-1], 1)


@misconception(
    name="largest-without-abs",
    message="You took the largest number instead of the largest absolute value; a vector of large "
    "negative numbers still overflows.",
    link=LINK,
)
@_with_s
def largest_without_abs(x):
    return x.amax(-1, keepdim=True).clamp(min=1)


@misconception(
    name="small-vectors-divided-by-zero",
    message="You divided by the largest absolute value even when it is 0 or nearly so; let s be at "
    "least 1.",
    link=LINK,
)
@_with_s
def divided_by_zero(x):
    return x.abs().amax(-1, keepdim=True)


@misconception(name="overflows")
@_with_s
def s_is_the_standard_deviation(x):
    centered = x - x.mean(-1, keepdim=True)
    return centered.square().mean(-1, keepdim=True).sqrt().clamp(min=1)


@misconception(name="overflows")
@_with_s
def s_is_the_norm(x):
    return x.square().sum(-1, keepdim=True).sqrt().clamp(min=1)


@misconception(name="overflows")
def mean_before_scaling(x, eps):
    h = x - x.mean(-1, keepdim=True)
    s = largest(h)
    h = h / s
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + at_least_tiny(eps / s / s))


@misconception(
    name="scaled-back",
    message="You multiplied the result by s again; the norm has removed the scale already.",
    link=LINK,
)
def scaled_back(x, eps):
    s = largest(x)
    return norm(x / s, at_least_tiny(eps / s / s)) * s


@misconception(name="overflows")
def infinities_replaced(x, eps):
    return torch.nan_to_num(norm(x, eps))


@misconception(name="overflows")
def clipped(x, eps):
    limit = torch.finfo(x.dtype).max ** 0.5 / 2
    return norm(x.clamp(-limit, limit), eps)


# -- eps -----------------------------------------------------------------------------------------


@misconception(
    name="eps-not-scaled",
    message="You divided x by s and left eps as it was, which is another function; divide eps by "
    "s².",
    link=LINK,
)
@_with_eps
def eps_not_scaled(eps, s):
    return eps


@misconception(
    name="eps-divided-by-s",
    message="You divided eps by s; it is added to a variance, which shrinks by s².",
    link=LINK,
)
@_with_eps
def eps_divided_by_s(eps, s):
    return at_least_tiny(eps / s)


@misconception(
    name="eps-multiplied",
    message="You multiplied eps by s²; when x is divided by s, eps is divided by s².",
    link=LINK,
)
@_with_eps
def eps_multiplied(eps, s):
    return eps * s * s


@misconception(name="eps-multiplied")
@_with_eps
def eps_multiplied_by_s(eps, s):
    return eps * s


@misconception(
    name="eps-underflows",
    message="Your scaled eps is 0 for very large vectors, so a constant one gives 0/0; keep it at "
    "least torch.finfo(x.dtype).tiny.",
    link=PAGE + "prec-eps",
)
@_with_eps
def eps_underflows(eps, s):
    return eps / s / s


@misconception(name="eps-underflows")
@_with_eps
def eps_over_square_underflows(eps, s):
    return eps / s**2


@misconception(
    name="eps-forgotten",
    message="You left eps out (or put a fixed tiny number in its place); vectors with a small "
    "spread must feel it.",
    link=PAGE + "prec-eps",
)
@_with_eps
def eps_forgotten(eps, s):
    return torch.finfo(s.dtype).tiny


@misconception(
    name="lower-limit-too-large",
    message="You put a lower limit below the scaled eps that is larger than many of them; only "
    "torch.finfo(x.dtype).tiny is small enough.",
    link=LINK,
)
@_with_eps
def lower_limit_too_large(eps, s):
    return (eps / s / s).clamp(min=1e-5)


@misconception(name="lower-limit-too-large")
@_with_eps
def lower_limit_as_usual(eps, s):
    return (eps / s / s).clamp(min=1e-8)


@misconception(name="lower-limit-too-large")
@_with_eps
def small_lower_limit(eps, s):
    return (eps / s / s).clamp(min=1e-12)


@misconception(
    name="eps-clamps",
    message="You used the scaled eps as a lower limit of the variance; it is added.",
    link=PAGE + "prec-eps",
)
def eps_clamps(x, eps):
    s = largest(x)
    h = x / s
    h = h - h.mean(-1, keepdim=True)
    return h / h.square().mean(-1, keepdim=True).clamp(min=at_least_tiny(eps / s / s)).sqrt()


@misconception(
    name="eps-outside-root",
    message="You added the scaled eps outside the root; it belongs to the variance, inside.",
    link=PAGE + "prec-eps",
)
def eps_outside_root(x, eps):
    s = largest(x)
    h = x / s
    h = h - h.mean(-1, keepdim=True)
    return h / (h.square().mean(-1, keepdim=True).sqrt() + at_least_tiny(eps / s / s))


# -- the norm ------------------------------------------------------------------------------------


@misconception(
    name="one-pass",
    message="You computed the variance as the mean of the squares minus the square of the mean, "
    "which cancels when the mean is large; subtract the mean first.",
    link=PAGE + "prec-one-pass",
)
def one_pass(x, eps):
    s = largest(x)
    h = x / s
    mean = h.mean(-1, keepdim=True)
    var = h.square().mean(-1, keepdim=True) - mean.square()
    return (h - mean) * torch.rsqrt(var + at_least_tiny(eps / s / s))


@misconception(
    name="unbiased",
    message="You divided the sum of squares by D - 1; layer norm divides by D.",
    link=PAGE + "prec-two-pass",
)
def unbiased(x, eps):
    s = largest(x)
    h = x / s
    var = h.var(-1, keepdim=True)
    return (h - h.mean(-1, keepdim=True)) * torch.rsqrt(var + at_least_tiny(eps / s / s))


@misconception(
    name="over-all-axes",
    message="You took one mean and variance for the whole tensor; each vector along the last axis "
    "has its own.",
    link=PAGE + "prec-two-pass",
)
def over_all_axes(x, eps):
    s = largest(x)
    h = x / s
    h = h - h.mean()
    return h * torch.rsqrt(h.square().mean() + at_least_tiny(eps / s / s))


@misconception(
    name="input-modified",
    message="You divided x in place; make a new tensor.",
    link=LINK,
)
def input_modified(x, eps):
    s = largest(x)
    x /= s
    return norm(x, at_least_tiny(eps / s / s))


@misconception(
    name="graph-cut",
    message="Your result carries no gradient (detach, no_grad, .data or numpy around the whole "
    "computation); training needs it.",
    link=LINK,
)
@torch.no_grad()
def graph_cut(x, eps):
    s = largest(x)
    return norm(x / s, at_least_tiny(eps / s / s))


@misconception(
    name="divisor-detached",
    message="You cut the variance out of the graph; it depends on x, and the gradient must flow "
    "through it.",
    link=LINK,
)
def divisor_detached(x, eps):
    s = largest(x)
    h = x / s
    h = h - h.mean(-1, keepdim=True)
    var = h.square().mean(-1, keepdim=True)
    return h * torch.rsqrt(var + at_least_tiny(eps / s / s)).detach()
