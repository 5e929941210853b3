"""Wrong versions of `layer_norm_forward(x, weight, bias, eps)`; x is (..., D)."""

from __future__ import annotations

import torch

from autograder.misconceptions.triton_kernels import shared
from autograder.misconceptions.triton_kernels.shared import declarer, forward, right, scaled, up

say = declarer("layer_norm_forward")

# -- the variance -------------------------------------------------------------------------------

LANES = (
    "You let the lanes beyond the row into the variance: after `x - mean` they hold -mean. Set "
    "them to 0 again, `tl.where(mask, x - mean, 0.0)`, before you square."
)
say("lanes-in-variance", "ragged-rows", LANES)(forward(shared.pad_lanes))
say("lanes-in-variance", "ragged-rows", LANES)(forward(shared.pad_lanes_by_block))

BY_BLOCK = (
    "You divide by BLOCK, the number of lanes; mean and variance divide by D, the number of "
    "numbers in the row."
)
say("divided-by-block", "ragged-rows", BY_BLOCK)(forward(shared.all_by_block))
say("divided-by-block", "ragged-rows", BY_BLOCK)(forward(shared.variance_by_block))

say(
    "unbiased-variance",
    "layernorm.html#biased-variance",
    "You divide the squared deviations by D - 1; layer norm divides by D.",
)(forward(shared.unbiased))
say(
    "one-pass-variance",
    "two-pass-in-registers",
    "You compute the variance as mean(x²) - mean(x)², which cancels when the mean is large. The "
    "row is in registers: subtract the mean first, then square.",
)(forward(shared.one_pass))
say(
    "eps-outside-root",
    "layernorm.html#eps-inside",
    "You add eps outside the root; it is added to the variance, and the root is taken of both.",
)(forward(shared.eps_outside))
say(
    "eps-forgotten",
    "layernorm.html#eps-inside",
    "You leave eps out: a row of equal numbers then divides 0 by 0.",
)(forward(shared.eps_forgotten))
say(
    "eps-fixed",
    "layernorm.html#eps-inside",
    "You use an eps of your own; it is an argument, and the kernel gets it from the launch.",
)(forward(shared.eps_fixed))
say(
    "mean-not-subtracted",
    "two-pass-in-registers",
    "You scale x itself; subtract the mean of the row first.",
)(forward(shared.not_centered))
say(
    "root-forgotten",
    "two-pass-in-registers",
    "You divide by the variance; divide by its root, as tl.rsqrt does.",
)(forward(shared.no_root))

# -- weight and bias ----------------------------------------------------------------------------

say(
    "bias-needs-weight",
    "masks",
    "You add the bias only where there is a weight, too; each of them may be None on its own.",
)(forward(ending=shared.bias_needs_weight))
say(
    "bias-before-weight",
    "layernorm.html#affine-shape",
    "You add the bias before you multiply by the weight; scale first, then shift.",
)(forward(ending=shared.bias_first))
say(
    "affine-forgotten",
    "layernorm.html#affine-shape",
    "You return the normalized rows; multiply them by weight and add bias.",
)(forward(ending=shared.affine_forgotten))
say(
    "weight-of-the-row",
    "layernorm.html#affine-shape",
    "You load weight or bias at the number of the row; they belong to the columns, "
    "`weight_ptr + cols`.",
)(forward(ending=shared.affine_of_the_row))


# -- what is saved ------------------------------------------------------------------------------


@say(
    "std-saved",
    "saved-statistics",
    "You return the root of the variance as rstd; it is the reciprocal, 1 / sqrt(variance + eps).",
)
def std_saved(x, weight, bias, eps):
    y, mean, rstd = forward()(x, weight, bias, eps)
    return y, mean, 1 / rstd


@say(
    "variance-saved",
    "saved-statistics",
    "You return the variance where rstd is asked, 1 / sqrt(variance + eps).",
)
def variance_saved(x, weight, bias, eps):
    y, mean, _ = forward()(x, weight, bias, eps)
    return y, mean, right(up(x), 0.0)[2].pow(-2).squeeze(-1)


@say(
    "statistics-in-half",
    "saved-statistics",
    "You keep mean and rstd in the dtype of x; in a half type they are too coarse for the backward "
    "pass, so they are float32 always.",
)
def statistics_in_half(x, weight, bias, eps):
    y, mean, rstd = forward()(x, weight, bias, eps)
    return y, mean.to(x.dtype), rstd.to(x.dtype)


@say(
    "statistics-rounded",
    "upcast",
    "You add up the row in the half type of x, or round mean or rstd to it; convert after the "
    "load, and keep them in float32 registers.",
)
def statistics_rounded(x, weight, bias, eps):
    def rounded(h, eps):
        _, mean, rstd = right(h, eps)
        mean, rstd = mean.to(x.dtype).float(), rstd.to(x.dtype).float()
        return h - mean, mean, rstd

    return forward(rounded)(x, weight, bias, eps)


@say(
    "statistics-keep-the-axis",
    "saved-statistics",
    "You give mean and rstd a last axis of length 1; they have the shape of x without its last "
    "axis.",
)
def statistics_keep_the_axis(x, weight, bias, eps):
    y, mean, rstd = forward()(x, weight, bias, eps)
    return y, mean[..., None], rstd[..., None]


@say(
    "rows-flattened",
    "one-program-per-row",
    "You return the rows as (M, D); the results have the leading axes of x.",
)
def rows_flattened(x, weight, bias, eps):
    return forward()(x.reshape(-1, x.shape[-1]), weight, bias, eps)


# -- precision ----------------------------------------------------------------------------------


@say(
    "computed-in-half",
    "upcast",
    "You compute in the half type of x, whose squares overflow and whose sums round; convert right "
    "after the load, `.to(tl.float32)`.",
)
def computed_in_half(x, weight, bias, eps):
    h = x
    mean = h.mean(-1, keepdim=True)
    centered = h - mean
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    y = scaled(centered * rstd, weight, bias).to(x.dtype)
    return y, mean.squeeze(-1).float(), rstd.squeeze(-1).float()


@say(
    "result-always-float32",
    "upcast",
    "You return y in float32; it has the dtype of x, and the store rounds to it.",
)
def always_float32(x, weight, bias, eps):
    y, mean, rstd = forward()(x.float(), weight, bias, eps)
    return y, mean, rstd


@say(
    "multiplied-out",
    "two-pass-in-registers",
    "You multiply out, x * rstd - mean * rstd: far from 0 two large rounded numbers are "
    "subtracted. Subtract the mean from x first.",
)
def multiplied_out(x, weight, bias, eps):
    _, mean, rstd = right(up(x), eps)
    y = scaled(shared.multiplied_out(up(x), mean, rstd), weight, bias).to(x.dtype)
    return y, mean.squeeze(-1), rstd.squeeze(-1)


@say(
    "rounded-before-weight",
    "upcast",
    "You round the normalized row to the half type of x before weight and bias; it stays float32, "
    "and only the store of y rounds.",
)
def rounded_before_weight(x, weight, bias, eps):
    y, mean, rstd = forward()(x, None, None, eps)
    return scaled(up(y), weight, bias).to(x.dtype), mean, rstd


# -- rows ---------------------------------------------------------------------------------------


@say(
    "same-row-in-every-program",
    "one-program-per-row",
    "You load the same row in every program; row `tl.program_id(0)` begins at that number times "
    "the row stride.",
)
def same_row(x, weight, bias, eps):
    return forward()(shared.first_row_everywhere(x), weight, bias, eps)


@say(
    "one-program",
    "one-program-per-row",
    "You start one program only, so all rows but the first keep what was in memory; the grid is "
    "`(M,)`, one program for each row.",
)
def one_program(x, weight, bias, eps):
    axes = x.dim() - 1
    return tuple(shared.only_first_row(t, axes) for t in forward()(x, weight, bias, eps))


def _in_a_block(lanes):
    def layer_norm_forward(x, weight, bias, eps):
        few = shared.cut(x, lanes)
        w, b = (None if t is None else t[: few.shape[-1]] for t in (weight, bias))
        y, mean, rstd = forward()(few, w, b, eps)
        return shared.uncut(y, x.shape[-1]), mean, rstd

    return layer_norm_forward


for _lanes in (None, *shared.FIXED):
    say(
        "block-too-small",
        "ragged-rows",
        "Your block is smaller than the row, and the numbers behind it are left out; take the next "
        "power of two, `triton.next_power_of_2(D)`.",
    )(_in_a_block(_lanes))


@say(
    "stored-in-the-layout-of-x",
    "strides",
    "You store row after row into `torch.empty_like(x)`, which is transposed where x is; make y by "
    "`torch.empty(x.shape, ...)`, or store with its own strides.",
)
def layout_of_x(x, weight, bias, eps):
    y, mean, rstd = forward()(x, weight, bias, eps)
    return shared.in_the_layout_of(x, y), mean, rstd


@say(
    "input-modified",
    "one-program-per-row",
    "You write the result over x; whoever called still needs it, so store into a tensor of your "
    "own.",
)
def input_modified(x, weight, bias, eps):
    y, mean, rstd = forward()(x, weight, bias, eps)
    if x.stride(-1) == 1 and (x.dim() == 1 or x.stride(0) >= x.shape[-1]):
        x.copy_(y)
    return y, mean, rstd


NOT_STORED = (
    "You return memory that no program has written: `torch.empty` holds anything (here NaN). Each "
    "program stores all that it computed for its row."
)


@say("nothing-stored", "one-program-per-row", NOT_STORED)
def y_not_stored(x, weight, bias, eps):
    results = list(forward()(x, weight, bias, eps))
    results[0] = torch.full_like(results[0], torch.nan)
    return tuple(results)


@say("nothing-stored", "saved-statistics", NOT_STORED)
def mean_not_stored(x, weight, bias, eps):
    results = list(forward()(x, weight, bias, eps))
    results[1] = torch.full_like(results[1], torch.nan)
    return tuple(results)


@say("nothing-stored", "saved-statistics", NOT_STORED)
def rstd_not_stored(x, weight, bias, eps):
    results = list(forward()(x, weight, bias, eps))
    results[2] = torch.full_like(results[2], torch.nan)
    return tuple(results)
