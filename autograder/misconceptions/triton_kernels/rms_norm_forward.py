"""Wrong versions of `rms_norm_forward(x, weight, eps)`; x is (..., D)."""

from __future__ import annotations

import torch

from autograder.misconceptions.triton_kernels import shared
from autograder.misconceptions.triton_kernels.shared import block, declarer, scaled, up

say = declarer("rms_norm_forward")


def _mean_square(h, eps):
    return torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)


def _norm(rstd=_mean_square, ending=scaled):
    """rms_norm_forward with these parts: `rstd(h, eps)`, `ending(x_hat, weight, None)`."""

    def rms_norm_forward(x, weight, eps):
        h = up(x)
        r = rstd(h, eps)
        return ending(h * r, weight, None).to(x.dtype), r.squeeze(-1)

    return rms_norm_forward


right = _norm()


# -- the mean square ----------------------------------------------------------------------------

say(
    "divided-by-block",
    "ragged-rows",
    "You divide the sum of the squares by BLOCK, the number of lanes; divide by D, the number of "
    "numbers in the row.",
)(_norm(lambda h, eps: torch.rsqrt(h.square().sum(-1, keepdim=True) / block(h.shape[-1]) + eps)))
say(
    "sum-of-squares",
    "rms-kernel",
    "You divide by the root of the sum of the squares; it is the root of their mean: divide by D.",
)(_norm(lambda h, eps: torch.rsqrt(h.square().sum(-1, keepdim=True) + eps)))
say(
    "unbiased",
    "rms-kernel",
    "You divide the sum of the squares by D - 1; the mean square divides by D.",
)(_norm(lambda h, eps: torch.rsqrt(h.square().sum(-1, keepdim=True) / (h.shape[-1] - 1) + eps)))
say(
    "eps-outside-root",
    "rms-kernel",
    "You add eps outside the root; it is added to the mean square, and the root is taken of both.",
)(_norm(lambda h, eps: 1 / (h.square().mean(-1, keepdim=True).sqrt() + eps)))
say(
    "eps-forgotten",
    "rms-kernel",
    "You leave eps out: a row of zeros then divides 0 by 0.",
)(_norm(lambda h, eps: _mean_square(h, 0.0)))
say(
    "eps-fixed",
    "rms-kernel",
    "You use an eps of your own; it is an argument, and the kernel gets it from the launch.",
)(_norm(lambda h, eps: _mean_square(h, 1e-6)))
say(
    "root-forgotten",
    "rms-kernel",
    "You divide by the mean square; divide by its root, as tl.rsqrt does.",
)(_norm(lambda h, eps: 1 / (h.square().mean(-1, keepdim=True) + eps)))
say(
    "variance-instead",
    "rms-kernel",
    "You take the squares of x minus its mean; RMSNorm squares x itself, and subtracts nothing.",
)(_norm(lambda h, eps: shared.right(h, eps)[2]))
say(
    "abs-instead-of-squares",
    "rms-kernel",
    "You take the mean of the absolute values; the root mean square squares, averages, takes the "
    "root.",
)(_norm(lambda h, eps: 1 / (h.abs().mean(-1, keepdim=True) + eps)))


@say(
    "mean-subtracted",
    "rms-kernel",
    "You subtract the mean, as layer norm does; RMSNorm only divides by the root mean square.",
)
def mean_subtracted(x, weight, eps):
    y, _, rstd = shared.forward()(x, weight, None, eps)
    return y, rstd


# -- the weight ---------------------------------------------------------------------------------

say(
    "weight-forgotten",
    "rms-kernel",
    "You return the normalized rows; multiply them by weight.",
)(_norm(ending=shared.affine_forgotten))
say(
    "one-plus-weight",
    "rms-kernel",
    "You multiply by 1 + weight, as Gemma's checkpoints want it; here the weight itself is the "
    "scale.",
)(_norm(ending=lambda h, weight, bias: h if weight is None else h * (1 + weight.float())))
say(
    "weight-of-the-row",
    "rms-kernel",
    "You load the weight at the number of the row; it belongs to the columns, `weight_ptr + cols`.",
)(_norm(ending=shared.affine_of_the_row))


# -- what is saved, and precision ---------------------------------------------------------------


@say(
    "rms-saved",
    "saved-statistics",
    "You return the root mean square as rstd; it is the reciprocal, 1 / sqrt(mean square + eps).",
)
def rms_saved(x, weight, eps):
    y, rstd = right(x, weight, eps)
    return y, 1 / rstd


@say(
    "statistics-in-half",
    "saved-statistics",
    "You keep rstd in the dtype of x; in a half type it is too coarse for the backward pass, so it "
    "is float32 always.",
)
def rstd_in_half(x, weight, eps):
    y, rstd = right(x, weight, eps)
    return y, rstd.to(x.dtype)


@say(
    "statistics-keep-the-axis",
    "saved-statistics",
    "You give rstd a last axis of length 1; it has the shape of x without its last axis.",
)
def rstd_keeps_the_axis(x, weight, eps):
    y, rstd = right(x, weight, eps)
    return y, rstd[..., None]


@say(
    "computed-in-half",
    "upcast",
    "You compute in the half type of x, whose squares overflow and whose sums round; convert right "
    "after the load, `.to(tl.float32)`.",
)
def computed_in_half(x, weight, eps):
    rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return scaled(x * rstd, weight, None).to(x.dtype), rstd.squeeze(-1).float()


@say(
    "result-always-float32",
    "upcast",
    "You return y in float32; it has the dtype of x, and the store rounds to it.",
)
def always_float32(x, weight, eps):
    return right(x.float(), weight, eps)


@say(
    "rounded-before-weight",
    "upcast",
    "You round the normalized row to the half type of x before the weight; it stays float32, and "
    "only the store of y rounds.",
)
def rounded_before_weight(x, weight, eps):
    y, rstd = right(x, None, eps)
    return scaled(up(y), weight, None).to(x.dtype), rstd


# -- rows ---------------------------------------------------------------------------------------


@say(
    "same-row-in-every-program",
    "one-program-per-row",
    "You load the same row in every program; row `tl.program_id(0)` begins at that number times "
    "the row stride.",
)
def same_row(x, weight, eps):
    return right(shared.first_row_everywhere(x), weight, eps)


@say(
    "one-program",
    "one-program-per-row",
    "You start one program only, so all rows but the first keep what was in memory; the grid is "
    "`(M,)`, one program for each row.",
)
def one_program(x, weight, eps):
    return tuple(shared.only_first_row(t, x.dim() - 1) for t in right(x, weight, eps))


def _in_a_block(lanes):
    def rms_norm_forward(x, weight, eps):
        few = shared.cut(x, lanes)
        y, rstd = right(few, None if weight is None else weight[: few.shape[-1]], eps)
        return shared.uncut(y, x.shape[-1]), rstd

    return rms_norm_forward


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
def layout_of_x(x, weight, eps):
    y, rstd = right(x, weight, eps)
    return shared.in_the_layout_of(x, y), rstd


@say(
    "rows-flattened",
    "one-program-per-row",
    "You return the rows as (M, D); the results have the leading axes of x.",
)
def rows_flattened(x, weight, eps):
    return right(x.reshape(-1, x.shape[-1]), weight, eps)


@say(
    "input-modified",
    "one-program-per-row",
    "You write the result over x; whoever called still needs it, so store into a tensor of your "
    "own.",
)
def input_modified(x, weight, eps):
    y, rstd = right(x, weight, eps)
    if x.stride(-1) == 1 and (x.dim() == 1 or x.stride(0) >= x.shape[-1]):
        x.copy_(y)
    return y, rstd


NOT_STORED = (
    "You return memory that no program has written: `torch.empty` holds anything (here NaN). Each "
    "program stores all that it computed for its row."
)


@say("nothing-stored", "one-program-per-row", NOT_STORED)
def y_not_stored(x, weight, eps):
    results = list(right(x, weight, eps))
    results[0] = torch.full_like(results[0], torch.nan)
    return tuple(results)


@say("nothing-stored", "saved-statistics", NOT_STORED)
def rstd_not_stored(x, weight, eps):
    results = list(right(x, weight, eps))
    results[1] = torch.full_like(results[1], torch.nan)
    return tuple(results)
