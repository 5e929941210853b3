"""Wrong versions of `standardize_weight(w, eps)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.family.shared import PAGE, declare_cores, right, up

misconception = partial(declare, exercise="standardize_weight")


def _inputs(w):
    return tuple(range(1, w.dim()))


def _with_core(core):
    def standardize_weight(w, eps):
        return core(up(w), _inputs(w), eps).to(w.dtype)

    return standardize_weight


# -- which axes --------------------------------------------------------------------------------


def _over(axes):
    def standardize_weight(w, eps):
        return right(up(w), axes(w), eps).to(w.dtype)

    return standardize_weight


@misconception(
    name="statistics-over-outputs",
    message="You averaged over axis 0, the outputs; each output channel is standardized by itself, "
    "over all other axes.",
    link=PAGE + "family-weight-axes",
)
@_over
def over_outputs(w):
    return (0,)


@misconception(
    name="statistics-over-everything",
    message="You took one mean and one variance over the whole weight; each output channel has its "
    "own.",
    link=PAGE + "family-weight-axes",
)
@_over
def over_everything(w):
    return tuple(range(w.dim()))


@misconception(
    name="statistics-over-the-kernel",
    message="You averaged over the kernel alone; the input channels belong to it, too.",
    link=PAGE + "family-weight-axes",
)
@_over
def over_the_kernel(w):
    return tuple(range(2, w.dim())) or (1,)


@misconception(
    name="statistics-over-inputs-only",
    message="You averaged over the input channels alone; the kernel belongs to it, too.",
    link=PAGE + "family-weight-axes",
)
@_over
def over_inputs_only(w):
    return (1,)


@misconception(name="statistics-over-the-kernel")
@_over
def over_the_last_axis(w):
    return (-1,)


@misconception(
    name="input-channels-standardized",
    message="You standardized each input channel (axis 1); it is each output channel, axis 0.",
    link=PAGE + "family-weight-axes",
)
@_over
def input_channels(w):
    return (0, *range(2, w.dim()))


declare_cores("standardize_weight", _with_core, without=("sum-instead-of-mean",))


# -- relatives ---------------------------------------------------------------------------------


@misconception(
    name="length-instead-of-spread",
    message="You divided by the length of the weight vector, as weight normalization does; divide "
    "the centered weights by their standard deviation.",
    link=PAGE + "family-weight",
)
def length_instead_of_spread(w, eps):
    h = up(w)
    return (h * torch.rsqrt(h.square().sum(_inputs(w), keepdim=True) + eps)).to(w.dtype)


@misconception(
    name="scaled-by-inputs",
    message="You divided by the root of the sum of squares, so each row is too small by the root "
    "of its length (normalizer-free networks want that); here each row gets the variance 1.",
    link=PAGE + "family-free",
)
@_with_core
def root_of_the_sum(h, dims, eps):
    centered = h - h.mean(dims, keepdim=True)
    return centered * torch.rsqrt(centered.square().sum(dims, keepdim=True) + eps)


@misconception(name="scaled-by-inputs")
def scaled_afterwards(w, eps):
    return (right(up(w), _inputs(w), eps) / w[0].numel() ** 0.5).to(w.dtype)


# -- dtypes ------------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed mean and variance in half precision, where squares overflow and "
    "digits are lost; widen w to float32 first.",
    link=PAGE + "family-dtype",
)
def no_upcast(w, eps):
    return right(w, _inputs(w), eps)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of w in a variable "
    "before you widen w, and cast the result back to that.",
    link=PAGE + "family-dtype",
)
def result_left_wide(w, eps):
    return right(up(w), _inputs(w), eps)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of w, which loses half the digits of a "
    "float64 w; widen only the half types.",
    link=PAGE + "family-dtype",
)
def always_float32(w, eps):
    return right(w.float(), _inputs(w), eps).to(w.dtype)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "family-dtype")
def detached_in_half(w, eps):
    return right(*half_types.cut(w), _inputs(w), eps).to(w.dtype)
