"""Wrong versions of `combine_moments(a, b)`; a, b and the result are (count, mean, M2)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.precision.shared import PAGE

misconception = partial(declare, exercise="combine_moments")
LINK = PAGE + "prec-chan"


def _unless_empty(formula):
    """Right for empty pieces; otherwise `formula(n, mean_a, m2_a, m, mean_b, m2_b)`."""

    def combine_moments(a, b):
        if a[0] == 0:
            return b
        return a if b[0] == 0 else formula(*a, *b)

    return combine_moments


def right_mean(n, mean_a, m, mean_b):
    return mean_a + (mean_b - mean_a) * (m / (n + m))


def right_m2(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a).square() * (n * m / (n + m))


right = _unless_empty(
    lambda n, mean_a, m2_a, m, mean_b, m2_b: (
        n + m, right_mean(n, mean_a, m, mean_b), right_m2(n, mean_a, m2_a, m, mean_b, m2_b)
    )
)  # fmt: skip


def _m2(formula):
    """Right but for M2, which is `formula(n, mean_a, m2_a, m, mean_b, m2_b)`."""
    return _unless_empty(
        lambda n, mean_a, m2_a, m, mean_b, m2_b: (
            n + m, right_mean(n, mean_a, m, mean_b), formula(n, mean_a, m2_a, m, mean_b, m2_b)
        )
    )  # fmt: skip


def _mean(formula):
    """Right but for the mean, which is `formula(n, mean_a, m, mean_b)`."""
    return _unless_empty(
        lambda n, mean_a, m2_a, m, mean_b, m2_b: (
            n + m, formula(n, mean_a, m, mean_b), right_m2(n, mean_a, m2_a, m, mean_b, m2_b)
        )
    )  # fmt: skip


# -- M2 ------------------------------------------------------------------------------------------


@misconception(
    name="distance-of-the-means-forgotten",
    message="You added the two M2 only; the distance of the two means adds delta² n_a n_b / n.",
    link=LINK,
)
@_m2
def distance_forgotten(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b


@misconception(
    name="delta-not-squared",
    message="You added delta n_a n_b / n; delta has to be squared.",
    link=LINK,
)
@_m2
def delta_not_squared(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a) * (n * m / (n + m))


@misconception(name="delta-not-squared")
@_m2
def delta_absolute(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a).abs() * (n * m / (n + m))


@misconception(
    name="not-divided-by-n",
    message="You added delta² n_a n_b; divide it by n = n_a + n_b.",
    link=LINK,
)
@_m2
def not_divided_by_n(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a).square() * (n * m)


@misconception(
    name="counts-forgotten",
    message="You added delta² without the factor n_a n_b / n.",
    link=LINK,
)
@_m2
def counts_forgotten(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a).square()


@misconception(
    name="divided-by-n-squared",
    message="You divided delta² n_a n_b by n², which is right for variances; M2 is a sum, so divide"
    " by n once.",
    link=LINK,
)
@_m2
def divided_by_n_squared(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a).square() * (n * m / (n + m) ** 2)


@misconception(
    name="only-one-count",
    message="You weighted delta² with one count only; the factor is n_a n_b / n.",
    link=LINK,
)
@_m2
def only_count_b(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a).square() * (m / (n + m))


@misconception(name="only-one-count")
@_m2
def only_count_a(n, mean_a, m2_a, m, mean_b, m2_b):
    return m2_a + m2_b + (mean_b - mean_a).square() * (n / (n + m))


@misconception(
    name="variance-returned",
    message="You returned a variance; M2 is the sum of the squared deviations, not divided by n.",
    link=LINK,
)
@_m2
def variance_returned(n, *rest):
    return right_m2(n, *rest) / (n + rest[2])


@misconception(
    name="m2-taken-for-a-variance",
    message="You treated M2 as a variance and weighted it with the counts; it is a sum already, so "
    "the two are simply added.",
    link=LINK,
)
@_m2
def m2_weighted(n, mean_a, m2_a, m, mean_b, m2_b):
    return n * m2_a + m * m2_b + (mean_b - mean_a).square() * (n * m / (n + m))


@misconception(name="m2-taken-for-a-variance")
@_m2
def m2_averaged(n, mean_a, m2_a, m, mean_b, m2_b):
    total = n + m
    return (n * m2_a + m * m2_b) / total + (mean_b - mean_a).square() * (n * m / total**2)


@misconception(
    name="back-to-sums-of-squares",
    message="You went back to sums of squares and subtracted n times the squared mean, which "
    "cancels when the means are large; use the distance between them.",
    link=PAGE + "prec-one-pass",
)
@_m2
def back_to_sums(n, mean_a, m2_a, m, mean_b, m2_b):
    squares = m2_a + n * mean_a.square() + m2_b + m * mean_b.square()
    return squares - (n + m) * right_mean(n, mean_a, m, mean_b).square()


@misconception(name="back-to-sums-of-squares")
@_m2
def back_to_sums_of_the_weighted_mean(n, mean_a, m2_a, m, mean_b, m2_b):
    mean = (n * mean_a + m * mean_b) / (n + m)
    return m2_a + n * mean_a**2 + m2_b + m * mean_b**2 - (n + m) * mean**2


# -- the mean ------------------------------------------------------------------------------------


@misconception(
    name="counts-not-used-for-the-mean",
    message="You averaged the two means half and half; the longer piece counts more.",
    link=LINK,
)
@_mean
def half_and_half(n, mean_a, m, mean_b):
    return (mean_a + mean_b) / 2


@misconception(
    name="counts-swapped",
    message="You moved from A's mean towards B's by A's share; B's share, n_b / n, is the one.",
    link=LINK,
)
@_mean
def counts_swapped(n, mean_a, m, mean_b):
    return mean_a + (mean_b - mean_a) * (n / (n + m))


@misconception(
    name="delta-reversed",
    message="You subtracted the means the other way round for the mean: it moves away from B "
    "instead of towards it.",
    link=LINK,
)
@_mean
def delta_reversed(n, mean_a, m, mean_b):
    return mean_a - (mean_b - mean_a) * (m / (n + m))


@misconception(
    name="means-added",
    message="You added the two means; the new mean lies between them.",
    link=LINK,
)
@_mean
def means_added(n, mean_a, m, mean_b):
    return mean_a + mean_b


# -- counts and empty pieces -----------------------------------------------------------------------


@misconception(
    name="wrong-side-returned",
    message="You returned the empty piece itself; the other one is the answer.",
    link=LINK,
)
def wrong_side_returned(a, b):
    if a[0] == 0:
        return a
    return b if b[0] == 0 else right(a, b)


@misconception(
    name="count-not-added",
    message="You returned the count of one piece; both counts add up.",
    link=LINK,
)
def count_not_added(a, b):
    return a[0], *right(a, b)[1:]


@misconception(name="count-not-added")
def count_of_b(a, b):
    return b[0], *right(a, b)[1:]


@misconception(
    name="empty-piece-left-in",
    message="You let an empty piece into the formula, where its mean (which may be NaN) spoils the "
    "result; if a count is 0, of whichever of the two, return the other piece.",
    link=LINK,
)
def empty_left_in(a, b):
    (n, mean_a, m2_a), (m, mean_b, m2_b) = a, b
    total = n + m
    delta = mean_b - mean_a
    share = torch.tensor(m) / torch.tensor(total)
    return total, mean_a + delta * share, m2_a + m2_b + delta.square() * share * n


@misconception(name="empty-piece-left-in")
def empty_left_in_at_least_one(a, b):
    (n, mean_a, m2_a), (m, mean_b, m2_b) = a, b
    total = max(n + m, 1)
    delta = mean_b - mean_a
    return n + m, mean_a + delta * m / total, m2_a + m2_b + delta.square() * (n * m / total)


@misconception(name="empty-piece-left-in")
def only_b_checked(a, b):
    return a if b[0] == 0 else empty_left_in(a, b)


@misconception(name="empty-piece-left-in")
def only_a_checked(a, b):
    return b if a[0] == 0 else empty_left_in(a, b)


# -- memory and dtypes -----------------------------------------------------------------------------


@misconception(
    name="pieces-changed",
    message="You changed the mean or M2 of a piece in place (+= or a method that ends in _); make "
    "new tensors: whoever called you may need the piece again.",
    link=LINK,
)
def pieces_changed(a, b):
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    (n, mean, m2), (m, mean_b, m2_b) = a, b
    delta = mean_b - mean
    mean += delta * (m / (n + m))
    m2 += m2_b + delta.square() * (n * m / (n + m))
    return n + m, mean, m2


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of the pieces, which loses half the digits "
    "of float64 ones; keep their dtype.",
    link=PAGE + "prec-statistics",
)
def always_float32(a, b):
    return right((a[0], a[1].float(), a[2].float()), (b[0], b[1].float(), b[2].float()))
