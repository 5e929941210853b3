"""Wrong versions of `deepnorm_constants(n_layers)`."""

from __future__ import annotations

from functools import partial

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.placement.shared import PAGE

misconception = partial(declare, exercise="deepnorm_constants", link=PAGE + "deepnorm")


@misconception(
    name="alpha-and-beta-swapped",
    message="You returned beta before alpha; alpha, the factor of the stream, comes first.",
)
def swapped(n):
    return (8 * n) ** -0.25, (2 * n) ** 0.25


@misconception(
    name="beta-above-one",
    message="You forgot the minus in beta's exponent; beta makes the initial weights smaller.",
)
def beta_above_one(n):
    return (2 * n) ** 0.25, (8 * n) ** 0.25


@misconception(
    name="alpha-below-one",
    message="You gave alpha a minus in its exponent; alpha is above 1 and grows with depth.",
)
def alpha_below_one(n):
    return (2 * n) ** -0.25, (8 * n) ** -0.25


@misconception(
    name="square-roots",
    message="You took square roots; DeepNorm's constants are fourth roots.",
)
def square_roots(n):
    return (2 * n) ** 0.5, (8 * n) ** -0.5


@misconception(
    name="sublayers-counted",
    message="You counted sublayers; N is the number of layers, each with two sublayers.",
)
def sublayers(n):
    return (4 * n) ** 0.25, (16 * n) ** -0.25


@misconception(
    name="constants-of-a-decoder-with-encoder",
    message="You used the constants for the decoder of an encoder-decoder model, 3N and 12N; a "
    "single stack has 2N and 8N.",
)
def of_a_decoder(n):
    return (3 * n) ** 0.25, (12 * n) ** -0.25


@misconception(
    name="no-root",
    message="You left out the fourth root: 2N and 8N are raised to 1/4 and -1/4.",
)
def no_root(n):
    return 2.0 * n, 1 / (8 * n)


@misconception(
    name="power-before-product",
    message="You raised N alone to the power; 2N and 8N as a whole are raised.",
)
def before_product(n):
    return 2 * n**0.25, 8 * n**-0.25


@misconception(
    name="beta-is-one-over-alpha",
    message="You took one over alpha for beta; beta is made of 8N, not of 2N.",
)
def reciprocal(n):
    return (2 * n) ** 0.25, (2 * n) ** -0.25


@misconception(
    name="two-and-eight-swapped",
    message="You swapped the 2 and the 8: alpha is made of 2N, beta of 8N.",
)
def two_and_eight(n):
    return (8 * n) ** 0.25, (2 * n) ** -0.25


@misconception(
    name="whole-numbers",
    message="You rounded the constants; they are fractions.",
)
def whole(n):
    return round((2 * n) ** 0.25), round((8 * n) ** -0.25, 1)
