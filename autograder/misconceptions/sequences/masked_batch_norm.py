"""Wrong versions of `masked_batch_norm(x, mask, weight, bias, eps)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.sequences.statistics import PAGE, declare_cores, filled, right, up

misconception = partial(declare, exercise="masked_batch_norm")


def _refuse(mask):
    if mask.sum() < 2:
        raise ValueError("fewer than two real tokens")


def _with_core(core):
    """Statistics by `core`, which sees the input as it came; the rest is right."""

    def masked_batch_norm(x, mask, weight, bias, eps):
        _refuse(mask)
        mean, var = core(up(x), mask)
        h = filled(up(x), mask)
        y = (h - mean) * torch.rsqrt(var + eps) * weight + bias
        return filled(y, mask).to(x.dtype)

    return masked_batch_norm


def _with_divisor(divisor):
    """Right statistics, divided by `divisor(var, eps)`."""

    def masked_batch_norm(x, mask, weight, bias, eps):
        _refuse(mask)
        h = filled(up(x), mask)
        mean, var = right(h, mask)
        return filled((h - mean) / divisor(var, eps) * weight + bias, mask).to(x.dtype)

    return masked_batch_norm


def _with_ending(end):
    """x_hat (..., D) is right, 0 at the padding; `end(x_hat, mask, weight, bias, h)` is not."""

    def masked_batch_norm(x, mask, weight, bias, eps):
        _refuse(mask)
        h = filled(up(x), mask)
        mean, var = right(h, mask)
        x_hat = filled((h - mean) * torch.rsqrt(var + eps), mask)
        return end(x_hat, mask, weight, bias, h).to(x.dtype)

    return masked_batch_norm


# Before the detached statistics: in a half type some give the same.
@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "seq-dtype")
def detached_in_half(x, mask, weight, bias, eps):
    _refuse(mask)
    h, w, b = half_types.cut(filled(x, mask), weight, bias)
    mean, var = right(h, mask)
    return filled((h - mean) * torch.rsqrt(var + eps) * w + b, mask).to(x.dtype)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, mask, weight, bias, eps):
    _refuse(mask)
    (h,) = half_types.cut(filled(x, mask))
    mean, var = right(h, mask)
    return filled((h - mean) * torch.rsqrt(var + eps) * weight + bias, mask).to(x.dtype)


@misconception(name=half_types.NAME)
def statistics_detached_in_half(x, mask, weight, bias, eps):
    """By a masked_mean_var that cuts the graph; the numbers themselves are widened by it."""
    _refuse(mask)
    h = filled(x, mask)
    mean, var = right(*half_types.cut(h), mask)
    return filled((h - mean) * torch.rsqrt(var + eps) * weight + bias, mask).to(x.dtype)


declare_cores("masked_batch_norm", _with_core, without=("std-instead-of-variance",))

# -- the root ------------------------------------------------------------------------------------

DIVISORS = [
    (
        "eps-outside-root",
        "You added eps to the standard deviation, outside the root; it belongs under the root: "
        "sqrt(var + eps).",
        lambda var, eps: torch.sqrt(var) + eps,
    ),
    (
        "root-forgotten",
        "You divided by the variance; divide by its square root.",
        lambda var, eps: var + eps,
    ),
    (
        "root-of-std",
        "You took the root of the standard deviation; the variance belongs under the root.",
        lambda var, eps: torch.sqrt(torch.sqrt(var) + eps),
    ),
    (
        "multiplied-by-std",
        "You multiplied by the standard deviation; divide by it.",
        lambda var, eps: torch.rsqrt(var + eps),
    ),
    (
        "eps-forgotten",
        "You left eps out; without it equal numbers divide zero by zero.",
        lambda var, eps: torch.sqrt(var),
    ),
    (
        "eps-hard-coded",
        "You used a fixed eps of 1e-5; use the argument eps.",
        lambda var, eps: torch.sqrt(var + 1e-5),
    ),
    (
        "eps-twice",
        "You added eps twice, under the root and again outside; once under the root is enough.",
        lambda var, eps: torch.sqrt(var + eps) + eps,
    ),
    (
        "eps-clamped",
        "You used eps as a lower limit (clamp or max); add it to the variance.",
        lambda var, eps: torch.sqrt(var.clamp(min=eps)),
    ),
]
for _name, _message, _divisor in DIVISORS:
    misconception(name=_name, message=_message, link=PAGE + "seq-eps")(_with_divisor(_divisor))


# -- what is subtracted and divided --------------------------------------------------------------


@misconception(
    name="mean-not-subtracted",
    message="You divided by the standard deviation without subtracting the mean.",
    link=PAGE + "seq-masked",
)
def mean_not_subtracted(x, mask, weight, bias, eps):
    _refuse(mask)
    h = filled(up(x), mask)
    _, var = right(h, mask)
    return filled(h * torch.rsqrt(var + eps) * weight + bias, mask).to(x.dtype)


@misconception(
    name="variance-not-divided-out",
    message="You subtracted the mean, but did not divide by the standard deviation.",
    link=PAGE + "seq-masked",
)
def only_centered(x, mask, weight, bias, eps):
    _refuse(mask)
    h = filled(up(x), mask)
    return filled((h - right(h, mask)[0]) * weight + bias, mask).to(x.dtype)


# -- weight, bias, padding -------------------------------------------------------------------------

ENDINGS = [
    (
        "bias-forgotten",
        "You left out the bias; it is added last.",
        "seq-affine",
        lambda x_hat, mask, weight, bias, h: x_hat * weight,
    ),
    (
        "weight-forgotten",
        "You left out the weight; the normalized values are multiplied by it.",
        "seq-affine",
        lambda x_hat, mask, weight, bias, h: filled(x_hat + bias, mask),
    ),
    (
        "bias-before-weight",
        "You added the bias before multiplying by the weight; multiply first, then add.",
        "seq-affine",
        lambda x_hat, mask, weight, bias, h: filled((x_hat + bias) * weight, mask),
    ),
    (
        "weight-and-bias-swapped",
        "You swapped weight and bias: the weight multiplies, the bias is added.",
        "seq-affine",
        lambda x_hat, mask, weight, bias, h: filled(x_hat * bias + weight, mask),
    ),
    (
        "bias-in-the-padding",
        "You left the bias in the padding; padding comes out as 0, so mask after the bias was "
        "added.",
        "seq-zero",
        lambda x_hat, mask, weight, bias, h: x_hat * weight + bias,
    ),
    (
        "padding-passed-through",
        "You left the padding as it came in; it must come out as 0.",
        "seq-zero",
        lambda x_hat, mask, weight, bias, h: torch.where(
            mask.unsqueeze(-1), x_hat * weight + bias, h + 5.0
        ),
    ),
    (
        "real-tokens-set-to-zero",
        "You set the real tokens to 0 and kept the padding; True in the mask is the sign of a real "
        "token.",
        "seq-zero",
        lambda x_hat, mask, weight, bias, h: filled(x_hat * weight + bias, ~mask),
    ),
    (
        "only-real-tokens-returned",
        "You returned the real tokens packed; the result has the shape of x, with zeros at the "
        "padding.",
        "seq-zero",
        lambda x_hat, mask, weight, bias, h: (x_hat * weight + bias)[mask],
    ),
]
for _name, _message, _anchor, _end in ENDINGS:
    misconception(name=_name, message=_message, link=PAGE + _anchor)(_with_ending(_end))


@misconception(name="padding-passed-through")
def as_it_came_in(x, mask, weight, bias, eps):
    _refuse(mask)
    h = filled(up(x), mask)
    mean, var = right(h, mask)
    y = (h - mean) * torch.rsqrt(var + eps) * weight + bias
    return torch.where(mask.unsqueeze(-1), y.to(x.dtype), x)


@misconception(name="bias-in-the-padding")
def padding_normalized(x, mask, weight, bias, eps):
    """Padding is normalized like a token: (0 - mean) / std * weight + bias."""
    _refuse(mask)
    h = filled(up(x), mask)
    mean, var = right(h, mask)
    return ((h - mean) * torch.rsqrt(var + eps) * weight + bias).to(x.dtype)


@misconception(
    name="padding-replaced-too-late",
    message="You replaced the padding at the end only, so that NaN in it reached the gradient of "
    "weight (0 times NaN is NaN); replace it before you normalize, too.",
    link=PAGE + "seq-anything",
)
def replaced_too_late(x, mask, weight, bias, eps):
    _refuse(mask)
    h = up(x)
    mean, var = right(h, mask)
    return filled((h - mean) * torch.rsqrt(var + eps) * weight + bias, mask).to(x.dtype)


@misconception(
    name="zeroed-by-multiplication",
    message="You set the padding to 0 by multiplying with the mask; that does not remove inf or "
    "NaN, so use masked_fill or where.",
    link=PAGE + "seq-anything",
)
def zeroed_by_multiplication(x, mask, weight, bias, eps):
    _refuse(mask)
    h = up(x)
    mean, var = right(h, mask)
    y = (h - mean) * torch.rsqrt(var + eps) * weight + bias
    return (y * mask.unsqueeze(-1)).to(x.dtype)


# -- refusals and dtypes ---------------------------------------------------------------------------


@misconception(
    name="single-token-not-refused",
    message="You accept a batch of fewer than two real tokens; one token minus its own mean is 0, "
    "so raise a ValueError.",
    link=PAGE + "seq-refuse",
)
def not_refused(x, mask, weight, bias, eps):
    h = filled(up(x), mask)
    mean, var = right(h, mask)
    return filled((h - mean) * torch.rsqrt(var + eps) * weight + bias, mask).to(x.dtype)


@misconception(name="single-token-not-refused")
def one_is_enough(x, mask, weight, bias, eps):
    if not mask.any():
        raise ValueError("no real token")
    return not_refused(x, mask, weight, bias, eps)


@misconception(name="single-token-not-refused")
def places_counted(x, mask, weight, bias, eps):
    if mask.numel() < 2:
        raise ValueError("one place")
    return not_refused(x, mask, weight, bias, eps)


@misconception(
    name="half-types-not-widened",
    message="You computed float16 or bfloat16 in its own precision; turn it into float32 first, "
    "and cast back at the end.",
    link=PAGE + "seq-dtype",
)
def not_widened(x, mask, weight, bias, eps):
    _refuse(mask)
    h = filled(x, mask)
    mean, var = right(h, mask)
    return filled((h - mean) * torch.rsqrt(var + eps) * weight + bias, mask).to(x.dtype)


@misconception(
    name="rounded-before-weight",
    message="You cast back to the half type before weight and bias; cast once, at the very end.",
    link=PAGE + "seq-dtype",
)
def rounded_before_weight(x, mask, weight, bias, eps):
    _refuse(mask)
    h = filled(up(x), mask)
    mean, var = right(h, mask)
    x_hat = ((h - mean) * torch.rsqrt(var + eps)).to(x.dtype)
    return filled(x_hat * weight + bias, mask).to(x.dtype)


@misconception(
    name="result-not-cast-back",
    message="You returned float32 for a half type; the result has the dtype of x.",
    link=PAGE + "seq-dtype",
)
def not_cast_back(x, mask, weight, bias, eps):
    _refuse(mask)
    h = filled(up(x), mask)
    mean, var = right(h, mask)
    return filled((h - mean) * torch.rsqrt(var + eps) * weight + bias, mask)
