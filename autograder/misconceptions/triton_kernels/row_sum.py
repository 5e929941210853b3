"""Wrong versions of `row_sum(x)`; x is (..., D)."""

from __future__ import annotations

import torch

from autograder.misconceptions.triton_kernels.shared import (
    FIXED,
    cut,
    declarer,
    first_row_everywhere,
    only_first_row,
)

say = declarer("row_sum")


@say(
    "same-row-in-every-program",
    "one-program-per-row",
    "You load the same row in every program; row `tl.program_id(0)` begins at that number times "
    "the row stride.",
)
def same_row(x):
    return first_row_everywhere(x).float().sum(-1)


@say(
    "one-program",
    "one-program-per-row",
    "You start one program only, so all rows but the first keep what was in memory; the grid is "
    "`(M,)`, one program for each row.",
)
def one_program(x):
    sums = x.float().sum(-1)
    return only_first_row(sums, sums.dim())


@say(
    "mean-instead-of-sum",
    "one-program-per-row",
    "You divide the sum by D; this exercise asks for the sum itself.",
)
def mean_of_row(x):
    return x.float().mean(-1)


@say(
    "sum-over-rows",
    "one-program-per-row",
    "You add the rows to one another; each row is to be added up by itself, along the last axis.",
)
def sum_over_rows(x):
    rows = x.float().reshape(-1, x.shape[-1])
    return rows.sum(0).expand(*x.shape[:-1], -1)[..., 0] if rows.shape[1] else rows.sum(-1)


@say(
    "mask-off-by-one",
    "masks",
    "Your mask leaves out the last number of each row; columns count from 0, so they are those "
    "with `cols < D`.",
)
def last_left_out(x):
    return x[..., :-1].float().sum(-1)


for _lanes in (None, *FIXED):
    say(
        "block-too-small",
        "ragged-rows",
        "Your block is smaller than the row, and the numbers behind it are left out; take the next "
        "power of two, `triton.next_power_of_2(D)`.",
    )(lambda x, lanes=_lanes: cut(x, lanes).float().sum(-1))


@say(
    "lanes-beyond-the-row",
    "masks",
    "You fill the lanes beyond the row with 1 and add them too; `other=0.0` adds nothing.",
)
def ones_beyond(x):
    d = x.shape[-1]
    return x.float().sum(-1) + ((1 << (d - 1).bit_length()) - d)


@say(
    "added-in-half",
    "upcast",
    "You add in the half type of x, which overflows and rounds; convert right after the load, "
    "`.to(tl.float32)`.",
)
def added_in_half(x):
    if x.dtype == torch.float32:
        return x.sum(-1)
    total = torch.zeros(x.shape[:-1], dtype=x.dtype)
    for column in x.unbind(-1):
        total = total + column
    return total.float()


@say(
    "result-in-half",
    "upcast",
    "You return the sums in the dtype of x; they are to be float32 always.",
)
def result_in_half(x):
    return x.float().sum(-1).to(x.dtype)


@say(
    "axis-kept",
    "one-program-per-row",
    "You keep the last axis, with length 1; the result has the shape of x without it.",
)
def axis_kept(x):
    return x.float().sum(-1, keepdim=True)


@say(
    "rows-flattened",
    "one-program-per-row",
    "You return one long row of sums; the result has the shape of x without its last axis, "
    "whatever the number of axes.",
)
def flattened(x):
    return x.float().reshape(-1, x.shape[-1]).sum(-1)


@say(
    "nothing-stored",
    "one-program-per-row",
    "You return memory that no program has written: `torch.empty` holds anything (here NaN). Each "
    "program stores its result with `tl.store`.",
)
def nothing_stored(x):
    return torch.full(x.shape[:-1], torch.nan)
