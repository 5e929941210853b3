"""Wrong versions of `group_norm(x, num_groups, weight, bias, eps)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.family.shared import (
    PAGE,
    affine,
    along,
    declare_cores,
    declare_endings,
    right,
    up,
)

misconception = partial(declare, exercise="group_norm")


def _refuse(x, num_groups):
    if x.shape[1] % num_groups:
        raise ValueError("groups")


def _by_groups(h, num_groups, eps, core=right):
    """h normalized rightly, by `core`."""
    _refuse(h, num_groups)
    grouped = h.unflatten(1, (num_groups, -1))
    return core(grouped, tuple(range(2, grouped.dim())), eps).flatten(1, 2)


def _with_core(core):
    def group_norm(x, num_groups, weight, bias, eps):
        return affine(_by_groups(up(x), num_groups, eps, core), x, weight, bias)

    return group_norm


def _with_ending(end):
    def group_norm(x, num_groups, weight, bias, eps):
        y = _by_groups(up(x), num_groups, eps)
        return end(y, along(x, weight), along(x, bias)).to(x.dtype)

    return group_norm


def _normalized_by(normalize):
    """A group norm whose `normalize(h, num_groups, eps)` is wrong."""

    def group_norm(x, num_groups, weight, bias, eps):
        _refuse(x, num_groups)
        return affine(normalize(up(x), num_groups, eps), x, weight, bias)

    return group_norm


# -- which numbers share their statistics --------------------------------------------------------


@misconception(
    name="groups-with-a-stride",
    message="You put every G-th channel into a group; a group is made of neighbours: with six "
    "channels in two groups 0, 1, 2 and 3, 4, 5.",
    link=PAGE + "family-neighbours",
)
@_normalized_by
def groups_with_a_stride(h, num_groups, eps):
    grouped = h.unflatten(1, (-1, num_groups))  # (N, C/G, G, *)
    return right(grouped, (1, *range(3, grouped.dim())), eps).flatten(1, 2)


@misconception(
    name="group-size-taken-for-number",
    message="You took num_groups for the size of a group; it is the number of groups.",
    link=PAGE + "family-neighbours",
)
@_normalized_by
def group_size_taken_for_number(h, num_groups, eps):
    return _by_groups(h, h.shape[1] // num_groups, eps)


@misconception(
    name="statistics-per-channel",
    message="You normalized each channel by itself, which is instance norm; the channels of a "
    "group share one mean and one variance.",
    link=PAGE + "family-group",
)
@_normalized_by
def per_channel(h, num_groups, eps):
    positions = tuple(range(2, h.dim()))
    return right(h, positions, eps) if positions else 0 * h


@misconception(
    name="statistics-over-all-channels",
    message="You normalized over all channels together, which is layer norm; each group has "
    "statistics of its own.",
    link=PAGE + "family-group",
)
@_normalized_by
def over_all_channels(h, num_groups, eps):
    return right(h, tuple(range(1, h.dim())), eps)


@misconception(
    name="statistics-over-the-batch",
    message="You averaged over the batch, too; each sample has statistics of its own.",
    link=PAGE + "family-group",
)
@_normalized_by
def over_the_batch(h, num_groups, eps):
    grouped = h.unflatten(1, (num_groups, -1))
    return right(grouped, (0, *range(2, grouped.dim())), eps).flatten(1, 2)


@misconception(
    name="batch-cut-into-groups",
    message="You cut the whole tensor into num_groups pieces, so that samples share statistics; "
    "cut axis 1 of each sample.",
    link=PAGE + "family-group",
)
@_normalized_by
def batch_cut_into_groups(h, num_groups, eps):
    pieces = h.reshape(num_groups, -1) if h.numel() % num_groups == 0 else h.reshape(1, -1)
    return right(pieces, (1,), eps).reshape(h.shape)


@misconception(
    name="statistics-at-each-position",
    message="You averaged over the channels of a group at each position; average over the "
    "positions, too.",
    link=PAGE + "family-group",
)
@_normalized_by
def at_each_position(h, num_groups, eps):
    return right(h.unflatten(1, (num_groups, -1)), (2,), eps).flatten(1, 2)


@misconception(
    name="statistics-over-the-groups",
    message="You averaged over the axis of the groups instead of the channels within a group.",
    link=PAGE + "family-group",
)
@_normalized_by
def over_the_groups(h, num_groups, eps):
    grouped = h.unflatten(1, (num_groups, -1))
    return right(grouped, (1, *range(3, grouped.dim())), eps).flatten(1, 2)


declare_cores("group_norm", _with_core)

# -- weight and bias -----------------------------------------------------------------------------

declare_endings("group_norm", _with_ending)


@misconception(
    name="affine-per-group",
    message="You gave a whole group one weight and one bias; each channel has its own.",
    link=PAGE + "family-affine",
)
def affine_per_group(x, num_groups, weight, bias, eps):
    y = _by_groups(up(x), num_groups, eps)
    size = x.shape[1] // num_groups
    first = [t[::size].repeat_interleave(size) for t in (weight, bias)]
    return affine(y, x, *first)


@misconception(
    name="affine-along-last-axis",
    message="You let weight and bias line up with the last axis; they belong to axis 1, so give "
    "them the shape (C, 1, 1).",
    link=PAGE + "family-affine",
)
def affine_along_last_axis(x, num_groups, weight, bias, eps):
    return (_by_groups(up(x), num_groups, eps) * weight + bias).to(x.dtype)


@misconception(
    name="affine-before-normalizing",
    message="You applied weight and bias to x before normalizing; they come after.",
    link=PAGE + "family-affine",
)
def affine_before_normalizing(x, num_groups, weight, bias, eps):
    h = up(x) * along(x, weight) + along(x, bias)
    return _by_groups(h, num_groups, eps).to(x.dtype)


# -- groups that do not fit ------------------------------------------------------------------------


@misconception(
    name="misfit-not-refused",
    message="You did not raise a ValueError where num_groups does not divide the number of "
    "channels; check it before anything else.",
    link=PAGE + "family-neighbours",
)
def uneven_groups(x, num_groups, weight, bias, eps):
    pieces = up(x).chunk(num_groups, dim=1)  # gives uneven pieces where the cut does not fit
    y = [right(piece, tuple(range(1, x.dim())), eps) for piece in pieces]
    return affine(torch.cat(y, dim=1), x, weight, bias)


@misconception(name="misfit-not-refused")
def misfit_left_to_torch(x, num_groups, weight, bias, eps):
    grouped = up(x).unflatten(1, (num_groups, -1))  # a RuntimeError of torch's own
    y = right(grouped, tuple(range(2, grouped.dim())), eps).flatten(1, 2)
    return affine(y, x, weight, bias)


# -- dtypes ------------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and "
    "digits are lost; widen x to float32 first.",
    link=PAGE + "family-dtype",
)
def no_upcast(x, num_groups, weight, bias, eps):
    return affine(_by_groups(x, num_groups, eps), x, weight, bias)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "family-dtype",
)
def result_left_wide(x, num_groups, weight, bias, eps):
    h = up(x)
    y = _by_groups(h, num_groups, eps)
    return y * along(x, weight).to(h.dtype) + along(x, bias).to(h.dtype)


@misconception(
    name="cast-before-affine",
    message="You cast back to the dtype of x before applying weight and bias (normalize does so, "
    "if you give it a half type); cast once, at the end.",
    link=PAGE + "family-dtype",
)
def cast_before_affine(x, num_groups, weight, bias, eps):
    return affine(_by_groups(up(x), num_groups, eps).to(x.dtype), x, weight, bias)


@misconception(name="cast-before-affine")
def cast_before_affine_only(x, num_groups, weight, bias, eps):
    return _by_groups(up(x), num_groups, eps).to(x.dtype) * along(x, weight) + along(x, bias)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "family-dtype",
)
def always_float32(x, num_groups, weight, bias, eps):
    y = _by_groups(x.float(), num_groups, eps)
    return affine(y, x, weight.float(), bias.float())


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "family-dtype")
def detached_in_half(x, num_groups, weight, bias, eps):
    h, w, b = half_types.cut(x, weight, bias)
    return affine(_by_groups(h, num_groups, eps), x, w, b)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, num_groups, weight, bias, eps):
    return affine(_by_groups(*half_types.cut(x), num_groups, eps), x, weight, bias)
