"""Wrong versions of `add_layer_norm(x, residual, weight, bias, eps)`; x, residual are (..., D)."""

from __future__ import annotations

import torch

from autograder.misconceptions.triton_kernels import shared
from autograder.misconceptions.triton_kernels.shared import declarer, forward, up

say = declarer("add_layer_norm")


def _norm(statistics=shared.right, ending=shared.scaled):
    """add_layer_norm with these parts; the statistics see the float32 sum."""

    def add_layer_norm(x, residual, weight, bias, eps):
        total = up(x) + up(residual)
        y, mean, rstd = forward(statistics, ending)(total, weight, bias, eps)
        return y.to(x.dtype), total.to(x.dtype), mean, rstd

    return add_layer_norm


right = _norm()


# -- the sum ------------------------------------------------------------------------------------


@say(
    "statistics-of-the-rounded-sum",
    "residual-add",
    "You normalize the rounded sum; mean, variance and y come from the float32 sum in the "
    "register, and only the store of s rounds.",
)
def rounded_sum(x, residual, weight, bias, eps):
    s = (up(x) + up(residual)).to(x.dtype)
    y, mean, rstd = forward()(s, weight, bias, eps)
    return y, s, mean, rstd


@say(
    "norm-of-x-alone",
    "residual-add",
    "You normalize x alone; the norm is that of the sum x + residual.",
)
def norm_of_x(x, residual, weight, bias, eps):
    y, mean, rstd = forward()(x, weight, bias, eps)
    return y, (up(x) + up(residual)).to(x.dtype), mean, rstd


@say(
    "norm-of-x-alone",
    "residual-add",
    "You normalize x alone; the norm is that of the sum x + residual.",
)
def mean_of_x(x, residual, weight, bias, eps):
    def statistics(total, eps):
        mean = up(x).mean(-1, keepdim=True)
        centered = total - mean
        return centered, mean, torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)

    return _norm(statistics)(x, residual, weight, bias, eps)


@say(
    "multiplied-out",
    "two-pass-in-registers",
    "You multiply out, s * rstd - mean * rstd: far from 0 two large rounded numbers are "
    "subtracted. Subtract the mean from s first.",
)
def multiplied_out(x, residual, weight, bias, eps):
    total = up(x) + up(residual)
    _, mean, rstd = shared.right(total, eps)
    y = shared.scaled(shared.multiplied_out(total, mean, rstd), weight, bias).to(x.dtype)
    return y, total.to(x.dtype), mean.squeeze(-1), rstd.squeeze(-1)


@say(
    "rounded-before-weight",
    "upcast",
    "You round the normalized row to the half type of x before weight and bias; it stays float32, "
    "and only the store of y rounds.",
)
def rounded_before_weight(x, residual, weight, bias, eps):
    y, s, mean, rstd = right(x, residual, None, None, eps)
    return shared.scaled(up(y), weight, bias).to(x.dtype), s, mean, rstd


@say(
    "norm-before-the-addition",
    "residual-add",
    "You normalize x and add the residual to the result; here the addition comes first.",
)
def norm_first(x, residual, weight, bias, eps):
    y, mean, rstd = forward()(x, weight, bias, eps)
    return (up(y) + up(residual)).to(x.dtype), (up(x) + up(residual)).to(x.dtype), mean, rstd


@say(
    "residual-returned",
    "residual-add",
    "You return the old residual stream as s; the new one is the sum x + residual.",
)
def residual_returned(x, residual, weight, bias, eps):
    y, _, mean, rstd = right(x, residual, weight, bias, eps)
    return y, residual.contiguous(), mean, rstd


@say(
    "results-swapped",
    "residual-add",
    "You return s before y; the order is y, s, mean, rstd.",
)
def swapped(x, residual, weight, bias, eps):
    y, s, mean, rstd = right(x, residual, weight, bias, eps)
    return s, y, mean, rstd


@say(
    "added-twice",
    "residual-add",
    "You add the residual twice; s is x + residual.",
)
def added_twice(x, residual, weight, bias, eps):
    total = up(x) + 2 * up(residual)
    y, mean, rstd = forward()(total, weight, bias, eps)
    return y.to(x.dtype), total.to(x.dtype), mean, rstd


@say(
    "residual-modified",
    "residual-add",
    "You write the sum over the residual; here neither input is changed, and s is a new tensor.",
)
def residual_modified(x, residual, weight, bias, eps):
    results = right(x, residual, weight, bias, eps)
    if residual.is_contiguous():
        residual.copy_(results[1])
    return results


@say(
    "sum-always-float32",
    "upcast",
    "You return s or y in float32; both have the dtype of x, and the store rounds to it.",
)
def always_float32(x, residual, weight, bias, eps):
    return right(x.float(), residual, weight, bias, eps)


# -- the norm -----------------------------------------------------------------------------------

say(
    "lanes-in-variance",
    "ragged-rows",
    "You let the lanes beyond the row into the variance: after `s - mean` they hold -mean. Set "
    "them to 0 again, `tl.where(mask, s - mean, 0.0)`, before you square.",
)(_norm(shared.pad_lanes))
say(
    "divided-by-block",
    "ragged-rows",
    "You divide by BLOCK, the number of lanes; mean and variance divide by D, the number of "
    "numbers in the row.",
)(_norm(shared.all_by_block))
say(
    "unbiased-variance",
    "layernorm.html#biased-variance",
    "You divide the squared deviations by D - 1; layer norm divides by D.",
)(_norm(shared.unbiased))
say(
    "one-pass-variance",
    "two-pass-in-registers",
    "You compute the variance as mean(s²) - mean(s)², which cancels when the mean is large. The "
    "row is in registers: subtract the mean first, then square.",
)(_norm(shared.one_pass))
say(
    "eps-outside-root",
    "layernorm.html#eps-inside",
    "You add eps outside the root; it is added to the variance, and the root is taken of both.",
)(_norm(shared.eps_outside))
say(
    "eps-forgotten",
    "layernorm.html#eps-inside",
    "You leave eps out; it is added to the variance, so that a row of equal numbers does no harm.",
)(_norm(shared.eps_forgotten))
say(
    "mean-not-subtracted",
    "two-pass-in-registers",
    "You scale the sum itself; subtract its mean first.",
)(_norm(shared.not_centered))
say(
    "bias-needs-weight",
    "masks",
    "You add the bias only where there is a weight, too; each of them may be None on its own.",
)(_norm(ending=shared.bias_needs_weight))
say(
    "affine-forgotten",
    "layernorm.html#affine-shape",
    "You return the normalized rows as y; multiply them by weight and add bias.",
)(_norm(ending=shared.affine_forgotten))


@say(
    "std-saved",
    "saved-statistics",
    "You return the root of the variance as rstd; it is the reciprocal, 1 / sqrt(variance + eps).",
)
def std_saved(x, residual, weight, bias, eps):
    y, s, mean, rstd = right(x, residual, weight, bias, eps)
    return y, s, mean, 1 / rstd


@say(
    "statistics-keep-the-axis",
    "saved-statistics",
    "You give mean and rstd a last axis of length 1; they have the shape of x without its last "
    "axis.",
)
def statistics_keep_the_axis(x, residual, weight, bias, eps):
    y, s, mean, rstd = right(x, residual, weight, bias, eps)
    return y, s, mean[..., None], rstd[..., None]


@say(
    "same-row-in-every-program",
    "one-program-per-row",
    "You load the same row in every program; row `tl.program_id(0)` begins at that number times "
    "the row stride.",
)
def same_row(x, residual, weight, bias, eps):
    return right(shared.first_row_everywhere(x), residual, weight, bias, eps)


NOT_STORED = (
    "You return memory that no program has written: `torch.empty` holds anything (here NaN). Each "
    "program stores all that it computed for its row."
)


@say("nothing-stored", "one-program-per-row", NOT_STORED)
def y_not_stored(x, residual, weight, bias, eps):
    results = list(right(x, residual, weight, bias, eps))
    results[0] = torch.full_like(results[0], torch.nan)
    return tuple(results)


@say("nothing-stored", "saved-statistics", NOT_STORED)
def s_not_stored(x, residual, weight, bias, eps):
    results = list(right(x, residual, weight, bias, eps))
    results[1] = torch.full_like(results[1], torch.nan)
    return tuple(results)


@say("nothing-stored", "saved-statistics", NOT_STORED)
def mean_not_stored(x, residual, weight, bias, eps):
    results = list(right(x, residual, weight, bias, eps))
    results[2] = torch.full_like(results[2], torch.nan)
    return tuple(results)


@say("nothing-stored", "saved-statistics", NOT_STORED)
def rstd_not_stored(x, residual, weight, bias, eps):
    results = list(right(x, residual, weight, bias, eps))
    results[3] = torch.full_like(results[3], torch.nan)
    return tuple(results)
