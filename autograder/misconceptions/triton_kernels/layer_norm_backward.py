"""Wrong versions of `layer_norm_backward(grad_out, x, weight, mean, rstd)`; x is (..., D)."""

from __future__ import annotations

import torch

from autograder.misconceptions.triton_kernels.shared import (
    PROGRAMS,
    block,
    declarer,
    first_row_everywhere,
    in_the_layout_of,
    multiplied_out,
    up,
)
from autograder.misconceptions.triton_kernels.shared import right as statistics

say = declarer("layer_norm_backward")
DERIVATION = "layernorm.html#backward-derivation"


def _mean(t):
    return t.mean(-1, keepdim=True)


def _right_x(g_hat, x_hat, rstd, weight):
    return rstd * (g_hat - _mean(g_hat) - x_hat * _mean(g_hat * x_hat))


def _right_hat(x, mean, rstd):
    return (x - mean) * rstd


def _over_rows(t):
    """The sum over all rows, by as many programs as there may be: partial rows, then their sum."""
    return t.reshape(-1, t.shape[-1]).sum(0)


def _backward(
    grad_x=_right_x,
    x_hat=_right_hat,
    g_hat=lambda g, w: g * w,
    for_weight=lambda g, x_hat, w: g * x_hat,
    for_bias=lambda g, w: g,
    over_rows=_over_rows,
):
    """layer_norm_backward with these parts; w is 1 where there is no weight."""

    def layer_norm_backward(grad_out, x, weight, mean, rstd):
        g, r, w = up(grad_out), rstd[..., None], 1.0 if weight is None else up(weight)
        hat = x_hat(up(x), mean[..., None], r)
        dx = grad_x(g_hat(g, w), hat, r, w).to(x.dtype)
        grad_bias = over_rows(for_bias(g, w))
        if weight is None:
            return dx, None, grad_bias
        grad_weight = over_rows(for_weight(g, hat, w))
        return dx, grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)

    return layer_norm_backward


right = _backward()


# -- grad_x -------------------------------------------------------------------------------------

say(
    "mean-term-missing",
    DERIVATION,
    "You leave out the mean of the arriving gradient; it is subtracted from every entry of its "
    "row.",
)(_backward(lambda g, h, r, w: r * (g - h * _mean(g * h))))
say(
    "x-hat-term-missing",
    DERIVATION,
    "You leave out the part along x_hat, which comes from the variance: subtract "
    "x_hat * mean(g_hat * x_hat).",
)(_backward(lambda g, h, r, w: r * (g - _mean(g))))
say(
    "both-terms-missing",
    DERIVATION,
    "You treat mean and rstd as constants; x reaches the output through them too, and each adds a "
    "term to grad_x.",
)(_backward(lambda g, h, r, w: r * g))
say(
    "wrong-sign",
    DERIVATION,
    "You add the term along x_hat; it is subtracted.",
)(_backward(lambda g, h, r, w: r * (g - _mean(g) + h * _mean(g * h))))
say(
    "sums-instead-of-means",
    DERIVATION,
    "You subtract sums where means are asked: divide both by D.",
)(
    _backward(
        lambda g, h, r, w: r * (g - g.sum(-1, keepdim=True) - h * (g * h).sum(-1, keepdim=True))
    )
)
say(
    "divided-by-block",
    "ragged-rows",
    "You divide by BLOCK, the number of lanes; both means divide by D, the number of numbers in "
    "the row.",
)(
    _backward(
        lambda g, h, r, w: (
            r * (g - (_mean(g) + h * _mean(g * h)) * (g.shape[-1] / block(g.shape[-1])))
        )
    )
)
say(
    "rstd-forgotten",
    DERIVATION,
    "You leave out the factor rstd of grad_x: where x is spread wide, its gradient is small.",
)(_backward(lambda g, h, r, w: g - _mean(g) - h * _mean(g * h)))
say(
    "weight-after-the-means",
    DERIVATION,
    "You multiply by weight after the means are taken; it comes first, g_hat = grad_out * weight.",
)(_backward(lambda g, h, r, w: w * _right_x(g, h, r, w), g_hat=lambda g, w: g))
say(
    "weight-forgotten",
    DERIVATION,
    "You leave the weight out of grad_x; the gradient that arrives at x_hat is grad_out * weight.",
)(_backward(g_hat=lambda g, w: g))
say(
    "mean-not-subtracted",
    "saved-statistics",
    "You use x * rstd as x_hat; it is (x - mean) * rstd, with the mean that was saved.",
)(_backward(x_hat=lambda x, mean, r: x * r))
say(
    "rstd-not-used",
    "saved-statistics",
    "You use x - mean as x_hat; it is (x - mean) * rstd, with the rstd that was saved.",
)(_backward(x_hat=lambda x, mean, r: x - mean))
say(
    "divided-by-rstd",
    "saved-statistics",
    "You divide by rstd; it is a reciprocal already, so multiply by it.",
)(_backward(lambda g, h, r, w: _right_x(g, h, 1 / r, w), x_hat=lambda x, mean, r: (x - mean) / r))

say(
    "multiplied-out",
    "saved-statistics",
    "You multiply out, x * rstd - mean * rstd: far from 0 two large rounded numbers are "
    "subtracted. Subtract the mean from x first.",
)(_backward(x_hat=multiplied_out))

RECOMPUTED = (
    "You compute mean and rstd again, with an eps of your own; use those that the forward pass has "
    "saved: they are arguments."
)


def _recomputed(rstd_of):
    def layer_norm_backward(grad_out, x, weight, mean, rstd):
        mean, rstd = rstd_of(x)
        return right(grad_out, x, weight, mean.squeeze(-1), rstd.squeeze(-1))

    return layer_norm_backward


for _eps in (1e-5, 1e-6, 0.0):
    say("statistics-recomputed", "saved-statistics", RECOMPUTED)(
        _recomputed(lambda x, eps=_eps: statistics(up(x), eps)[1:])
    )

# -- grad_weight and grad_bias, row by row ------------------------------------------------------

say(
    "grad-weight-with-weight",
    "partial-buffers",
    "You sum g_hat * x_hat for grad_weight; it is grad_out * x_hat, without the weight.",
)(_backward(for_weight=lambda g, h, w: g * w * h))
say(
    "grad-weight-without-x-hat",
    "partial-buffers",
    "You sum grad_out for grad_weight; each row adds grad_out * x_hat.",
)(_backward(for_weight=lambda g, h, w: g))
say(
    "grad-bias-with-weight",
    "partial-buffers",
    "You sum g_hat for grad_bias; each row adds grad_out itself, without the weight.",
)(_backward(for_bias=lambda g, w: g * w))

# -- the sums over all rows ---------------------------------------------------------------------


def _partial(t, programs):
    """The partial buffer (P, D): program p adds rows p, p + P, ..."""
    rows = t.reshape(-1, t.shape[-1])
    return torch.stack([rows[p::programs].sum(0) for p in range(programs)])


def _first_partial(t):
    rows = t.reshape(-1, t.shape[-1])
    if not len(rows):
        return rows.sum(0)
    return _partial(t, min(len(rows), PROGRAMS))[0]


def _mean_over_rows(t):
    rows = t.reshape(-1, t.shape[-1])
    return rows.sum(0) / max(1, len(rows))


def _last_row_of_each(t):
    """`=` instead of `+=`: each program keeps the last of its rows."""
    rows = t.reshape(-1, t.shape[-1])
    programs = max(1, min(len(rows), PROGRAMS))
    return rows[-programs:].sum(0)


def _whole_blocks(t):
    """floor(M / P) rows for each program: what is left over is left out."""
    rows = t.reshape(-1, t.shape[-1])
    programs = max(1, min(len(rows), PROGRAMS))
    return rows[: len(rows) // programs * programs].sum(0)


def _one_row_each(t):
    """No loop: each program takes one row."""
    return t.reshape(-1, t.shape[-1])[:PROGRAMS].sum(0)


def _unwritten(t):
    """Programs without a row return early, and their row of the buffer keeps what was there."""
    rows = t.reshape(-1, t.shape[-1])
    return rows.sum(0) if len(rows) >= PROGRAMS else torch.full((rows.shape[1],), torch.nan)


def _at_least_one(t):
    """With no rows at all the buffer has one row that nobody writes."""
    rows = t.reshape(-1, t.shape[-1])
    return rows.sum(0) if len(rows) else torch.full((rows.shape[1],), torch.nan)


say(
    "only-one-partial-row",
    "partial-buffers",
    "You return one row of the partial buffer; the second stage adds the rows of all programs.",
)(_backward(over_rows=_first_partial))
say(
    "mean-over-rows",
    "partial-buffers",
    "You average over the rows; the gradients of weight and bias are sums.",
)(_backward(over_rows=_mean_over_rows))
say(
    "last-row-only",
    "partial-buffers",
    "You keep only the last row of each program; add up in the loop, `grad_bias += ...`.",
)(_backward(over_rows=_last_row_of_each))
say(
    "rows-left-over",
    "partial-buffers",
    "You give each program the same number of rows and leave out those that remain; walk over rows "
    "p, p + P, ... as long as they are below M.",
)(_backward(over_rows=_whole_blocks))
say(
    "one-row-for-each-program",
    "partial-buffers",
    "You take one row in each program, and there are more rows than programs; each program needs a "
    "loop over its rows.",
)(_backward(over_rows=_one_row_each))
# Before the next one, which looks the same where there are no rows.
say(
    "no-rows-forgotten",
    "partial-buffers",
    "You return what was in memory when x has no rows; the sum over no rows is 0.",
)(_backward(over_rows=_at_least_one))
say(
    "partial-row-not-written",
    "partial-buffers",
    "You add rows of the partial buffer that no program has written, and `torch.empty` holds "
    "anything: start no more programs than rows, or let each store its zeros.",
)(_backward(over_rows=_unwritten))
say(
    "partial-sums-in-half",
    "partial-buffers",
    "You keep the partial sums in a half type; the buffers are float32, and the last step rounds.",
)(
    lambda grad_out, x, weight, mean, rstd: _backward(
        over_rows=lambda t: _partial_in(t, grad_out.dtype)
    )(grad_out, x, weight, mean, rstd)
)


def _partial_in(t, dtype):
    rows = t.reshape(-1, t.shape[-1])
    programs = min(len(rows), PROGRAMS)
    return _partial(t, programs).to(dtype).sum(0).float() if programs else rows.sum(0)


# -- precision, form and rows -------------------------------------------------------------------


@say(
    "statistics-rounded",
    "saved-statistics",
    "You round mean and rstd to the half type of x; they were saved in float32 to be used so.",
)
def statistics_rounded(grad_out, x, weight, mean, rstd):
    mean, rstd = (t.to(x.dtype).float() for t in (mean, rstd))
    return right(grad_out, x, weight, mean, rstd)


@say(
    "results-always-float32",
    "upcast",
    "You return float32 gradients; grad_x has the dtype of x, grad_weight and grad_bias that of "
    "weight.",
)
def always_float32(grad_out, x, weight, mean, rstd):
    return right(grad_out, x.float(), None if weight is None else weight.float(), mean, rstd)


@say(
    "gradients-in-the-dtype-of-x",
    "upcast",
    "You return grad_weight and grad_bias in the dtype of x; they have that of weight.",
)
def in_the_dtype_of_x(grad_out, x, weight, mean, rstd):
    return right(grad_out, x, None if weight is None else weight.to(x.dtype), mean, rstd)


@say(
    "order-of-results",
    "partial-buffers",
    "You return grad_bias before grad_weight; the order is grad_x, grad_weight, grad_bias.",
)
def swapped(grad_out, x, weight, mean, rstd):
    grad_x, grad_weight, grad_bias = right(grad_out, x, weight, mean, rstd)
    return (grad_x, None, grad_bias) if weight is None else (grad_x, grad_bias, grad_weight)


@say(
    "no-weight-no-bias",
    "partial-buffers",
    "You return no grad_bias where there is no weight; the bias has a gradient of its own, in "
    "float32 then.",
)
def no_bias_either(grad_out, x, weight, mean, rstd):
    results = right(grad_out, x, weight, mean, rstd)
    return results if weight is not None else (results[0], None, None)


@say(
    "grad-out-modified",
    "strides",
    "You write grad_x over grad_out; autograd may still need it, so store into a tensor of your "
    "own.",
)
def grad_out_modified(grad_out, x, weight, mean, rstd):
    results = right(grad_out, x, weight, mean, rstd)
    if grad_out.is_contiguous():
        grad_out.copy_(results[0])
    return results


@say(
    "same-row-in-every-program",
    "one-program-per-row",
    "You load the same row in every program; a row begins at its number times the row stride.",
)
def same_row(grad_out, x, weight, mean, rstd):
    g, row = first_row_everywhere(grad_out), first_row_everywhere(x)
    m, r = (first_row_everywhere(t[..., None])[..., 0] for t in (mean, rstd))
    return right(g, row, weight, m, r)


@say(
    "stored-in-the-layout-of-x",
    "strides",
    "You store row after row into `torch.empty_like(x)`, which is transposed where x is; make "
    "grad_x by `torch.empty(x.shape, ...)`, or store with its own strides.",
)
def layout_of_x(grad_out, x, weight, mean, rstd):
    grad_x, *rest = right(grad_out, x, weight, mean, rstd)
    return in_the_layout_of(x, grad_x), *rest


@say(
    "rows-flattened",
    "one-program-per-row",
    "You return grad_x as (M, D); it has the shape of x.",
)
def rows_flattened(grad_out, x, weight, mean, rstd):
    grad_x, *rest = right(grad_out, x, weight, mean, rstd)
    return grad_x.reshape(-1, x.shape[-1]), *rest


NOT_STORED = (
    "You return memory that no program has written: `torch.empty` holds anything (here NaN). Each "
    "program stores all that it computed for its row."
)


@say("nothing-stored", "one-program-per-row", NOT_STORED)
def grad_x_not_stored(grad_out, x, weight, mean, rstd):
    results = list(right(grad_out, x, weight, mean, rstd))
    results[0] = torch.full_like(results[0], torch.nan)
    return tuple(results)
