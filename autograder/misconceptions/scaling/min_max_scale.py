"""Wrong versions of `min_max_scale(x, dim)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.scaling.standardize import PAGE, up

misconception = partial(declare, exercise="min_max_scale")


def ends(h: torch.Tensor, dims) -> tuple[torch.Tensor, torch.Tensor]:
    return h.amin(dims, keepdim=True), h.amax(dims, keepdim=True)


def safe(spread: torch.Tensor) -> torch.Tensor:
    """The right way to divide by it: a range of 0 becomes 1."""
    return torch.where(spread > 0, spread, 1.0)


def scaled(h: torch.Tensor, dims) -> torch.Tensor:
    low, high = ends(h, dims)
    return (h - low) / safe(high - low)


def _centred(formula):
    """A version with its own `formula(h, low, high)`, half types widened."""

    def min_max_scale(x, dim):
        h = up(x)
        return formula(h, *ends(h, dim)).to(x.dtype)

    return min_max_scale


# -- the formula ----------------------------------------------------------------------------------


@misconception(
    name="divided-by-maximum",
    message="You divided by the largest number; divide by the range, largest minus smallest.",
    link=PAGE + "why-min-max",
)
@_centred
def divided_by_maximum(h, low, high):
    return (h - low) / torch.where(high == 0, 1.0, high)


@misconception(name="divided-by-maximum")
@_centred
def only_divided_by_maximum(h, low, high):
    return h / torch.where(high == 0, 1.0, high)


@misconception(
    name="divided-by-largest-magnitude",
    message="You divided by the largest absolute value, which scales to -1 to 1; subtract the "
    "smallest number and divide by the range.",
    link=PAGE + "why-min-max",
)
@_centred
def divided_by_largest_magnitude(h, low, high):
    size = torch.maximum(low.abs(), high.abs())
    return h / torch.where(size > 0, size, 1.0)


@misconception(
    name="minimum-not-subtracted",
    message="You divided x by its range without subtracting its smallest number first.",
    link=PAGE + "why-min-max",
)
@_centred
def minimum_not_subtracted(h, low, high):
    return h / safe(high - low)


@misconception(
    name="mean-instead-of-minimum",
    message="You subtracted the mean; min-max scaling subtracts the smallest number.",
    link=PAGE + "why-min-max",
)
def mean_instead_of_minimum(x, dim):
    h = up(x)
    low, high = ends(h, dim)
    return ((h - h.mean(dim, keepdim=True)) / safe(high - low)).to(x.dtype)


@misconception(
    name="standardized-instead",
    message="You subtracted the mean and divided by the standard deviation; that is "
    "standardization, and its result does not run from 0 to 1.",
    link=PAGE + "why-min-max",
)
def standardized_instead(x, dim):
    h = up(x)
    centered = h - h.mean(dim, keepdim=True)
    return (centered / safe(centered.square().mean(dim, keepdim=True).sqrt())).to(x.dtype)


@misconception(
    name="upside-down",
    message="You subtracted x from its largest number, so the largest became 0; subtract the "
    "smallest number from x.",
    link=PAGE + "why-min-max",
)
@_centred
def upside_down(h, low, high):
    return (high - h) / safe(high - low)


@misconception(
    name="range-minus-one-to-one",
    message="You scaled to the range from -1 to 1; here it runs from 0 to 1.",
    link=PAGE + "why-min-max",
)
@_centred
def range_minus_one_to_one(h, low, high):
    return 2 * (h - low) / safe(high - low) - 1


@misconception(
    name="parentheses-forgotten",
    message="You computed x - min / (max - min); the difference belongs in parentheses: "
    "(x - min) / (max - min).",
    link=PAGE + "why-min-max",
)
@_centred
def parentheses_forgotten(h, low, high):
    return h - low / safe(high - low)


@misconception(
    name="clamped-instead",
    message="You cut the numbers off at 0 and 1; scaling moves them all.",
    link=PAGE + "why-min-max",
)
@_centred
def clamped_instead(h, low, high):
    return h.clamp(0, 1)


# -- equal numbers --------------------------------------------------------------------------------


@misconception(
    name="equal-numbers-nan",
    message="You divided 0 by 0 where all numbers of a slice are equal, which gives NaN; the "
    "agreed answer is 0.",
    link=PAGE + "why-equal-numbers",
)
@_centred
def equal_numbers_nan(h, low, high):
    return (h - low) / (high - low)


@misconception(
    name="equal-numbers-not-zero",
    message="You gave a slice of equal numbers another value than the agreed 0.",
    link=PAGE + "why-equal-numbers",
)
@_centred
def equal_numbers_one(h, low, high):
    return torch.where(high > low, (h - low) / safe(high - low), 1.0)


@misconception(name="equal-numbers-not-zero")
@_centred
def equal_numbers_half(h, low, high):
    return torch.where(high > low, (h - low) / safe(high - low), 0.5)


@misconception(name="equal-numbers-not-zero")
@_centred
def equal_numbers_kept(h, low, high):
    return torch.where(high > low, (h - low) / safe(high - low), h)


@misconception(
    name="eps-added",
    message="You added a small number to the range, so a small range is not stretched to 1; "
    "replace only a range of 0.",
    link=PAGE + "why-equal-numbers",
)
@_centred
def eps_added(h, low, high):
    return (h - low) / (high - low + 1e-8)


@misconception(name="eps-added")
@_centred
def larger_eps_added(h, low, high):
    return (h - low) / (high - low + 1e-5)


@misconception(name="eps-added")
@_centred
def range_clamped(h, low, high):
    return (h - low) / (high - low).clamp(min=1e-8)


# -- which numbers --------------------------------------------------------------------------------


@misconception(
    name="over-everything",
    message="You took one minimum and one maximum of the whole tensor; take them along dim, for "
    "each slice alone.",
    link=PAGE + "why-which-dim",
)
def over_everything(x, dim):
    return scaled(up(x), tuple(range(x.dim()))).to(x.dtype)


@misconception(
    name="dim-ignored",
    message="You took minimum and maximum along a fixed axis; use the argument dim.",
    link=PAGE + "why-which-dim",
)
def always_dim_0(x, dim):
    return scaled(up(x), 0).to(x.dtype)


@misconception(name="dim-ignored")
def always_last(x, dim):
    return scaled(up(x), -1).to(x.dtype)


@misconception(
    name="keepdim-forgotten",
    message="You dropped the axis dim of minimum and maximum, so they broadcast along the wrong "
    "axis; keepdim=True keeps it in place.",
    link=PAGE + "why-which-dim",
)
def keepdim_forgotten(x, dim):
    h = up(x)
    low, high = h.amin(dim), h.amax(dim)
    return ((h - low) / safe(high - low)).to(x.dtype)


# -- dtypes and memory ----------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed in half precision, where the range overflows and digits are lost; widen "
    "x to float32 first.",
    link=PAGE + "why-precision",
)
def no_upcast(x, dim):
    low, high = ends(x, dim)
    return (x - low) / torch.where(high > low, high - low, 1.0).to(x.dtype)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; cast the result back to the dtype "
    "of x.",
    link=PAGE + "why-precision",
)
def result_left_in_float32(x, dim):
    return scaled(up(x), dim)


@misconception(name="result-left-wide")
def result_left_in_float64(x, dim):
    return scaled(x.double(), dim)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "why-precision",
)
def always_float32(x, dim):
    return scaled(x.float(), dim).to(x.dtype)


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as -= or a method that ends in _); "
    "make a new tensor.",
    link=PAGE + "why-in-place",
)
def input_modified(x, dim):
    if x.stride() and 0 in x.stride():
        return scaled(up(x), dim).to(x.dtype)  # torch refuses expanded tensors
    h = up(x)
    h -= h.amin(dim, keepdim=True)
    return (h / safe(h.amax(dim, keepdim=True))).to(x.dtype)
