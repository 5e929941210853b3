"""Wrong versions of `saturated_fraction(z, threshold)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.scaling.standardize import PAGE

misconception = partial(declare, exercise="saturated_fraction")


def slope(z: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(z.double()) * torch.sigmoid(-z.double())


def share(saturated: torch.Tensor) -> float:
    return saturated.double().mean().item()


@misconception(
    name="count-instead-of-share",
    message="You counted the entries; divide by their number to get a share.",
    link=PAGE + "why-saturation",
)
def count(z, threshold):
    return (slope(z) < threshold).sum().item()


@misconception(name="count-instead-of-share")
def count_as_float(z, threshold):
    return float((slope(z) < threshold).sum())


@misconception(
    name="percent",
    message="You gave a percentage; the share runs from 0 to 1.",
    link=PAGE + "why-saturation",
)
def percent(z, threshold):
    return 100 * share(slope(z) < threshold)


@misconception(
    name="share-that-still-learns",
    message="You counted the entries whose slope is large; those with a small slope are saturated.",
    link=PAGE + "why-saturation",
)
def still_learning(z, threshold):
    return share(slope(z) > threshold)


@misconception(name="share-that-still-learns")
def one_minus(z, threshold):
    return 1 - share(slope(z) < threshold)


@misconception(
    name="equal-counted",
    message="You also counted slopes that equal the threshold; only smaller ones count.",
    link=PAGE + "why-saturation",
)
def equal_counted(z, threshold):
    return share(slope(z) <= threshold)


@misconception(
    name="lower-end-only",
    message="You compared the sigmoid with the threshold, which finds large negative z only; "
    "compare its slope, which is small at both ends.",
    link=PAGE + "why-slope",
)
def lower_end_only(z, threshold):
    return share(torch.sigmoid(z.double()) < threshold)


@misconception(
    name="upper-end-only",
    message="You counted only z for which the sigmoid is near 1; it is flat near 0 as well.",
    link=PAGE + "why-slope",
)
def upper_end_only(z, threshold):
    return share(torch.sigmoid(z.double()) > 1 - threshold)


@misconception(
    name="output-near-an-end",
    message="You measured how near the sigmoid is to 0 or 1; measure its slope, s * (1 - s).",
    link=PAGE + "why-slope",
)
def output_near_an_end(z, threshold):
    s = torch.sigmoid(z.double())
    return share((s < threshold) | (s > 1 - threshold))


@misconception(
    name="slope-of-tanh",
    message="You used the slope of tanh, 1 - t²; the sigmoid's is s * (1 - s).",
    link=PAGE + "why-slope",
)
def slope_of_tanh(z, threshold):
    return share(1 - torch.tanh(z.double()) ** 2 < threshold)


@misconception(
    name="square-of-sigmoid",
    message="You used 1 - s² for the slope; for the sigmoid it is s * (1 - s).",
    link=PAGE + "why-slope",
)
def square_of_sigmoid(z, threshold):
    return share(1 - torch.sigmoid(z.double()) ** 2 < threshold)


@misconception(
    name="threshold-on-input",
    message="You compared z itself with the threshold; compare the slope of the sigmoid at z.",
    link=PAGE + "why-slope",
)
def threshold_on_input(z, threshold):
    return share(z.double().abs() > threshold)


@misconception(name="threshold-on-input")
def small_input(z, threshold):
    return share(z.double().abs() < threshold)


@misconception(
    name="slope-of-output",
    message="You computed the slope at sigmoid(z), one sigmoid too many; compute it at z.",
    link=PAGE + "why-slope",
)
def slope_of_output(z, threshold):
    return share(slope(torch.sigmoid(z.double())) < threshold)


@misconception(
    name="z-taken-for-output",
    message="You computed z * (1 - z), which takes z for the sigmoid's output; apply the sigmoid "
    "first.",
    link=PAGE + "why-slope",
)
def z_taken_for_output(z, threshold):
    return share(z.double() * (1 - z.double()) < threshold)


@misconception(
    name="mean-slope",
    message="You gave the mean slope; count the entries whose slope is below the threshold.",
    link=PAGE + "why-saturation",
)
def mean_slope(z, threshold):
    return slope(z).mean().item()


@misconception(
    name="digits-lost-near-one",
    message="You computed 1 - sigmoid(z), which rounds to 0 for large z in float32; "
    "sigmoid(-z) is the same number with all its digits.",
    link=PAGE + "why-slope",
)
def digits_lost(z, threshold):
    s = torch.sigmoid(z.float())
    return share(s * (1 - s) < threshold)


@misconception(name="digits-lost-near-one")
def digits_lost_by_square(z, threshold):
    s = torch.sigmoid(z.float())
    return share(s - s * s < threshold)


@misconception(
    name="no-upcast",
    message="You computed in half precision, which is too coarse to compare a slope or to average "
    "over many entries; widen z to float32 first.",
    link=PAGE + "why-precision",
)
def no_upcast(z, threshold):
    return share(torch.sigmoid(z) * torch.sigmoid(-z) < threshold)


@misconception(parts=("digits-lost-near-one", "no-upcast"))
def digits_lost_in_half(z, threshold):
    s = torch.sigmoid(z)
    return share(s * (1 - s) < threshold)


@misconception(
    name="per-unit",
    message="You gave one share per column; the share is over all entries together.",
    link=PAGE + "why-saturation",
)
def per_unit(z, threshold):
    return (slope(z) < threshold).double().mean(0)


@misconception(
    name="input-modified",
    message="You changed z in place (a method that ends in _); make a new tensor.",
    link=PAGE + "why-in-place",
)
def input_modified(z, threshold):
    fraction = share(slope(z) < threshold)
    z.sigmoid_()
    return fraction
