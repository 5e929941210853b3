"""Wrong versions of `masked_mean_var(x, mask)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.sequences.statistics import PAGE, declare_cores, right, up

misconception = partial(declare, exercise="masked_mean_var")


def _refuse(mask):
    if not mask.any():
        raise ValueError("no real token")


def _with_core(core):
    def masked_mean_var(x, mask):
        _refuse(mask)
        return core(up(x), mask)

    return masked_mean_var


# Before the detached statistics: in a half type it gives the same.
@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "seq-dtype")
def detached_in_half(x, mask):
    _refuse(mask)
    return right(*half_types.cut(x), mask)


declare_cores("masked_mean_var", _with_core)


@misconception(
    name="variance-before-mean",
    message="You returned the variance first; the order is mean, variance.",
    link=PAGE + "seq-masked",
)
@_with_core
def variance_first(h, mask):
    return right(h, mask)[::-1]


@misconception(
    name="axes-kept",
    message="Your statistics have axes of length 1; they have the shape (D,).",
    link=PAGE + "seq-masked",
)
@_with_core
def axes_kept(h, mask):
    return tuple(t.view(*[1] * (h.dim() - 1), -1) for t in right(h, mask))


@misconception(
    name="empty-batch-not-refused",
    message="You accept a mask without any real token; there is nothing to average, so raise a "
    "ValueError.",
    link=PAGE + "seq-refuse",
)
def not_refused(x, mask):
    return right(up(x), mask)


@misconception(name="empty-batch-not-refused")
def clamped(x, mask):
    if mask.any():
        return right(up(x), mask)
    return torch.zeros(x.shape[-1]), torch.zeros(x.shape[-1])


@misconception(
    name="single-token-refused",
    message="You refuse a single real token; its mean is the token, its variance 0. Only a batch "
    "without any real token is refused.",
    link=PAGE + "seq-refuse",
)
def single_refused(x, mask):
    if mask.sum() < 2:
        return None if mask.any() else _refuse(mask)
    return right(up(x), mask)


@misconception(
    name="half-types-not-widened",
    message="You computed float16 or bfloat16 in its own precision; turn it into float32 first, "
    "and leave the statistics in float32.",
    link=PAGE + "seq-dtype",
)
def not_widened(x, mask):
    _refuse(mask)
    return right(x, mask)


@misconception(
    name="statistics-cast-back",
    message="You computed in float32 but cast the statistics back to the half type; they stay "
    "float32.",
    link=PAGE + "seq-dtype",
)
def cast_back(x, mask):
    _refuse(mask)
    return tuple(t.to(x.dtype) for t in right(up(x), mask))


@misconception(
    name="statistics-in-float32-always",
    message="You turned float64 into float32; only float16 and bfloat16 are converted.",
    link=PAGE + "seq-dtype",
)
def always_float32(x, mask):
    _refuse(mask)
    return right(x.float(), mask)
