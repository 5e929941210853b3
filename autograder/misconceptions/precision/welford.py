"""Wrong versions of `welford(x)`; x is (..., D), the result (mean, var) of the shape (...)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.precision.shared import PAGE, up

misconception = partial(declare, exercise="welford")


def _update(step):
    """A loop that is right but for `step(x_k, mean, m2, k)`, which gives the new mean and m2."""

    def welford(x):
        h = up(x)
        mean, m2 = torch.zeros_like(h[..., 0]), torch.zeros_like(h[..., 0])
        for k in range(h.shape[-1]):
            mean, m2 = step(h[..., k], mean, m2, k + 1)
        return mean, m2 / h.shape[-1]

    return welford


def right_step(x, mean, m2, k):
    delta = x - mean
    mean = mean + delta / k
    return mean, m2 + delta * (x - mean)


right = _update(right_step)


# -- the update ----------------------------------------------------------------------------------


@misconception(
    name="old-deviation-squared",
    message="You squared the deviation from the old mean; multiply it by the deviation from the new"
    " mean.",
    link=PAGE + "prec-welford",
)
@_update
def old_deviation_squared(x, mean, m2, k):
    delta = x - mean
    return mean + delta / k, m2 + delta * delta


@misconception(
    name="new-deviation-squared",
    message="You squared the deviation from the new mean; multiply it by the deviation from the old"
    " mean.",
    link=PAGE + "prec-welford",
)
@_update
def new_deviation_squared(x, mean, m2, k):
    mean = mean + (x - mean) / k
    return mean, m2 + (x - mean).square()


@misconception(
    name="divided-by-d",
    message="You moved the mean by delta / D; after k numbers it moves by delta / k.",
    link=PAGE + "prec-welford",
)
def divided_by_d(x):
    d = x.shape[-1]
    return _update(lambda v, mean, m2, k: right_step(v, mean, m2, d))(x)


@misconception(
    name="count-starts-at-two",
    message="You divided by a count that is one too large; the first number is number 1.",
    link=PAGE + "prec-welford",
)
@_update
def count_starts_at_two(x, mean, m2, k):
    return right_step(x, mean, m2, k + 1)


@misconception(
    name="count-starts-at-zero",
    message="You divided by a count that starts at 0; the first number is number 1 (divide by "
    "k + 1).",
    link=PAGE + "prec-welford",
)
@_update
def count_starts_at_zero(x, mean, m2, k):
    return right_step(x, mean, m2, torch.tensor(k - 1.0).to(x.dtype))


@misconception(
    name="mean-not-moved",
    message="You added the whole deviation to the mean; it moves by delta / k.",
    link=PAGE + "prec-welford",
)
@_update
def mean_not_divided(x, mean, m2, k):
    return right_step(x, mean, m2, 1)


@misconception(
    name="new-mean-is-average-of-two",
    message="You averaged the old mean and the new number half and half; the new number has the "
    "share 1 / k.",
    link=PAGE + "prec-welford",
)
@_update
def half_and_half(x, mean, m2, k):
    return right_step(x, mean, m2, min(k, 2))


@misconception(
    name="sums-of-squares",
    message="You added up squares and subtracted the squared mean at the end, which cancels when "
    "the mean is large; add up products of deviations.",
    link=PAGE + "prec-one-pass",
)
def sums_of_squares(x):
    h = up(x)
    total, squares = torch.zeros_like(h[..., 0]), torch.zeros_like(h[..., 0])
    for k in range(h.shape[-1]):
        total, squares = total + h[..., k], squares + h[..., k].square()
    mean = total / h.shape[-1]
    return mean, squares / h.shape[-1] - mean.square()


@misconception(name="sums-of-squares")
def means_of_squares(x):
    h = up(x)
    mean = h.mean(-1)
    return mean, h.square().mean(-1) - mean.square()


# -- which numbers -------------------------------------------------------------------------------


@misconception(
    name="first-number-skipped",
    message="You left out the first number; the loop begins with it, or the mean starts as it.",
    link=PAGE + "prec-welford",
)
def first_number_skipped(x):
    mean, var = right(x[..., 1:]) if x.shape[-1] > 1 else right(0 * x)
    return mean, var


@misconception(name="first-number-skipped")
def first_number_skipped_count_kept(x):
    h = up(x)
    mean, m2 = torch.zeros_like(h[..., 0]), torch.zeros_like(h[..., 0])
    for k in range(1, h.shape[-1]):
        mean, m2 = right_step(h[..., k], mean, m2, k)
    return mean, m2 / h.shape[-1]


@misconception(
    name="last-number-skipped",
    message="You left out the last number of each vector; the loop runs to D.",
    link=PAGE + "prec-welford",
)
def last_number_skipped(x):
    mean, var = right(x[..., :-1]) if x.shape[-1] > 1 else right(0 * x)
    return mean, var * ((x.shape[-1] - 1) / x.shape[-1])


@misconception(
    name="over-the-batch",
    message="You ran over the first axis; the loop goes along the last one, the features.",
    link=PAGE + "prec-welford",
)
def over_the_batch(x):
    return right(x.movedim(0, -1))


@misconception(
    name="over-all-axes",
    message="You kept one mean for the whole tensor; each vector along the last axis has its own.",
    link=PAGE + "prec-welford",
)
def over_all_axes(x):
    mean, var = right(x.reshape(-1))
    return mean.expand(x.shape[:-1]), var.expand(x.shape[:-1])


@misconception(name="over-all-axes")
def one_number(x):
    return right(x.reshape(-1))


# -- the results ---------------------------------------------------------------------------------


@misconception(
    name="sum-returned",
    message="You returned the sum of the squared deviations; divide it by D at the end.",
    link=PAGE + "prec-welford",
)
def sum_returned(x):
    mean, var = right(x)
    return mean, var * x.shape[-1]


@misconception(
    name="unbiased",
    message="You divided by D - 1; the biased variance divides by D.",
    link=PAGE + "prec-welford",
)
def unbiased(x):
    mean, var = right(x)
    return mean, var * (x.shape[-1] / max(x.shape[-1] - 1, 1))


@misconception(name="unbiased")
def unbiased_without_a_guard(x):
    mean, var = right(x)
    return mean, var * x.shape[-1] / torch.tensor(x.shape[-1] - 1.0)


@misconception(
    name="standard-deviation",
    message="You took a square root; the variance is asked for.",
    link=PAGE + "prec-welford",
)
def standard_deviation(x):
    mean, var = right(x)
    return mean, var.sqrt()


@misconception(
    name="order-swapped",
    message="You returned (var, mean), as torch.var_mean does; here it is (mean, var).",
    link=PAGE + "prec-welford",
)
def order_swapped(x):
    return right(x)[::-1]


@misconception(
    name="count-returned",
    message="You returned the count as well; two tensors are asked for, mean and var.",
    link=PAGE + "prec-welford",
)
def count_returned(x):
    return x.shape[-1], *right(x)


@misconception(
    name="axis-kept",
    message="You kept the last axis with length 1; the results have one axis less than x.",
    link=PAGE + "prec-welford",
)
def axis_kept(x):
    return tuple(t.unsqueeze(-1) for t in right(x))


# -- dtypes and memory ---------------------------------------------------------------------------


@misconception(
    name="bfloat16-not-widened",
    message="You widened float16 only; bfloat16 is a half type, too, and has even fewer digits.",
    link=PAGE + "prec-statistics",
)
def bfloat16_not_widened(x):
    if x.dtype == torch.bfloat16:
        return no_upcast(x)
    return right(x)


@misconception(
    name="no-upcast",
    message="You kept the running mean and sum in the half type, where they round at every step and"
    " overflow; widen x to float32 first.",
    link=PAGE + "prec-statistics",
)
def no_upcast(x):
    mean, m2 = torch.zeros_like(x[..., 0]), torch.zeros_like(x[..., 0])
    for k in range(x.shape[-1]):
        mean, m2 = right_step(x[..., k], mean, m2, k + 1)
    return mean, m2 / x.shape[-1]


@misconception(
    name="cast-back",
    message="You cast the results back to the half type, which cannot hold the variance of large "
    "numbers; statistics stay in float32.",
    link=PAGE + "prec-statistics",
)
def cast_back(x):
    return tuple(t.to(x.dtype) for t in right(x))


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "prec-statistics",
)
def always_float32(x):
    return right(x.float())


@misconception(name="always-float32")
def running_values_in_float32(x):
    mean, m2 = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for k in range(x.shape[-1]):
        mean, m2 = (t.float() for t in right_step(x[..., k], mean, m2, k + 1))
    return mean, m2 / x.shape[-1]


@misconception(
    name="left-in-float64",
    message="You returned float64; the results are float32, and float64 only for a float64 x.",
    link=PAGE + "prec-statistics",
)
def left_in_float64(x):
    return right(x.double())


@misconception(
    name="input-modified",
    message="You changed x: a running value that starts as x[..., 0] is a view of x, so make a copy"
    " before += changes it.",
    link=PAGE + "prec-welford",
)
def input_modified(x):
    h = up(x)
    mean, m2 = h[..., 0], torch.zeros_like(h[..., 0])
    for k in range(1, h.shape[-1]):
        delta = h[..., k] - mean
        mean += delta / (k + 1)
        m2 += delta * (h[..., k] - mean)
    return mean.clone(), m2 / h.shape[-1]
