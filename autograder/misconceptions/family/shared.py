"""Mistakes that can be made in every exercise of `family`, written once.

A core is `core(h, dims, eps)`, the normalized h; an exercise says how it is called and what comes
before and after. `declare_cores` declares all wrong ones for an exercise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.misconceptions import misconception

PAGE = "family.html#"
Core = Callable[[Tensor, Any, float], Tensor]

# name, message, anchor (empty for a name given before), core
WRONG: list[tuple[str, str, str, Core]] = []


def up(x: Tensor) -> Tensor:
    """The right beginning: half types are widened to float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def along(x: Tensor, t: Tensor) -> Tensor:
    """t (C,) lined up with axis 1 of x."""
    return t.reshape(-1, *[1] * (x.dim() - 2))


def statistics(h: Tensor, dims: Any) -> tuple[Tensor, Tensor]:
    """Mean and biased variance, with length 1 along dims."""
    mean = h.mean(dims, keepdim=True)
    return mean, (h - mean).square().mean(dims, keepdim=True)


def right(h: Tensor, dims: Any, eps: float) -> Tensor:
    """The right core."""
    mean, var = statistics(h, dims)
    return (h - mean) * torch.rsqrt(var + eps)


def _wrong(name: str, message: str = "", anchor: str = "") -> Callable[[Core], Core]:
    def note(core: Core) -> Core:
        WRONG.append((name, message, anchor, core))
        return core

    return note


def _divided_by(divisor: Callable[[Tensor, float], Tensor], unbiased: bool = False) -> Core:
    """A core that is right but for what it divides by, `divisor(var, eps)`."""

    def core(h, dims, eps):
        mean, var = statistics(h, dims)
        if unbiased:
            n = h.numel() // max(var.numel(), 1)
            var = var * n / (n - 1) if n > 1 else var * float("nan")
        return (h - mean) / divisor(var, eps)

    return core


_wrong(
    "unbiased-variance",
    "You normalized with the unbiased variance (torch's default for var and std); divide the sum "
    "of squares by n, not by n - 1.",
    "family-biased",
)(_divided_by(lambda var, eps: torch.sqrt(var + eps), unbiased=True))

_wrong(
    "eps-outside-root",
    "You added eps to the standard deviation, outside the root; it belongs under the root: "
    "sqrt(var + eps).",
    "family-eps",
)(_divided_by(lambda var, eps: torch.sqrt(var) + eps))

_wrong("unbiased-variance+eps-outside-root")(
    _divided_by(lambda var, eps: torch.sqrt(var) + eps, unbiased=True)
)

_wrong(
    "root-forgotten",
    "You divided by the variance; divide by its square root.",
    "family-eps",
)(_divided_by(lambda var, eps: var + eps))

_wrong(
    "root-of-std",
    "You took the root of the standard deviation; the variance belongs under the root.",
    "family-eps",
)(_divided_by(lambda var, eps: torch.sqrt(torch.sqrt(var) + eps)))

_wrong(
    "multiplied-by-std",
    "You multiplied by the standard deviation; divide by it.",
    "family-eps",
)(_divided_by(lambda var, eps: torch.rsqrt(var + eps)))

_wrong(
    "eps-forgotten",
    "You left eps out; without it equal numbers divide zero by zero.",
    "family-eps",
)(_divided_by(lambda var, eps: torch.sqrt(var)))

_wrong(
    "eps-hard-coded",
    "You used a fixed eps of 1e-5; use the argument eps.",
    "family-eps",
)(_divided_by(lambda var, eps: torch.sqrt(var + 1e-5)))

_wrong(
    "eps-twice",
    "You added eps twice, under the root and again outside; once under the root is enough.",
    "family-eps",
)(_divided_by(lambda var, eps: torch.sqrt(var + eps) + eps))

_wrong(
    "eps-clamped",
    "You used eps as a lower limit (clamp or max); add it to the variance.",
    "family-eps",
)(_divided_by(lambda var, eps: torch.sqrt(var.clamp(min=eps))))

_wrong("eps-clamped")(_divided_by(lambda var, eps: torch.sqrt(var).clamp(min=eps)))


@_wrong(
    "one-pass-variance",
    "You computed the variance as E[x²] - E[x]², which loses all its digits when the mean is "
    "large; subtract the mean first, then square.",
    "family-precision",
)
def one_pass(h, dims, eps):
    mean = h.mean(dims, keepdim=True)
    var = h.square().mean(dims, keepdim=True) - mean.square()
    return (h - mean) * torch.rsqrt(var + eps)


@_wrong("one-pass-variance")
def one_pass_clamped(h, dims, eps):
    mean = h.mean(dims, keepdim=True)
    var = (h.square().mean(dims, keepdim=True) - mean.square()).clamp(min=0)
    return (h - mean) * torch.rsqrt(var + eps)


@_wrong(
    "mean-square-instead-of-variance",
    "You took the mean of the squares without subtracting the mean first; the variance is the "
    "mean square of the centered values.",
    "family-precision",
)
def mean_square(h, dims, eps):
    mean_square = h.square().mean(dims, keepdim=True)
    return (h - h.mean(dims, keepdim=True)) * torch.rsqrt(mean_square + eps)


@_wrong(
    "sum-instead-of-mean",
    "You summed the squared deviations; the variance is their mean, so divide by n.",
    "family-biased",
)
def summed(h, dims, eps):
    centered = h - h.mean(dims, keepdim=True)
    return centered * torch.rsqrt(centered.square().sum(dims, keepdim=True) + eps)


@_wrong(
    "mean-not-subtracted",
    "You divided by the standard deviation without subtracting the mean.",
    "family-normalize",
)
def mean_not_subtracted(h, dims, eps):
    return h * torch.rsqrt(statistics(h, dims)[1] + eps)


@_wrong(
    "variance-not-divided-out",
    "You subtracted the mean, but did not divide by the standard deviation.",
    "family-normalize",
)
def only_centered(h, dims, eps):
    return h - h.mean(dims, keepdim=True)


def _detaching(of_mean: bool, of_var: bool) -> Core:
    def core(h, dims, eps):
        mean, var = statistics(h, dims)
        mean, var = (mean.detach() if of_mean else mean), (var.detach() if of_var else var)
        return (h - mean) * torch.rsqrt(var + eps)

    return core


_wrong(
    "statistics-detached",
    "You cut mean and variance out of the graph (detach, no_grad, .data or .item); they depend on "
    "the input, and the gradient must flow through them.",
    "family-normalize",
)(_detaching(True, True))

_wrong("statistics-detached")(_detaching(False, True))


@_wrong(
    "input-modified",
    "You changed the input in place (an operator such as -= or a method that ends in _); make a "
    "new tensor.",
    "family-in-place",
)
def input_modified(h, dims, eps):
    mean, var = statistics(h, dims)
    h.sub_(mean)  # the tensor of the caller, when it is float32 or float64
    return h * torch.rsqrt(var + eps)


def declare_cores(
    exercise: str, make: Callable[[Core], Any], without: tuple[str, ...] = ()
) -> None:
    """Declare every wrong core as a misconception of `exercise`, made runnable by `make(core)`."""
    for name, message, anchor, core in WRONG:
        if name in without:
            continue
        if "+" in name:
            parts = tuple(name.split("+"))
            misconception(exercise=exercise, parts=parts)(make(core))
        elif message:
            misconception(exercise=exercise, name=name, message=message, link=PAGE + anchor)(
                make(core)
            )
        else:
            misconception(exercise=exercise, name=name)(make(core))


# -- what comes after a core, where there are weight and bias --------------------------------------

Ending = Callable[[Tensor, Tensor, Tensor], Tensor]


def affine(y: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The right ending: weight and bias in y's precision, then back to the dtype of x."""
    return (y * along(x, weight) + along(x, bias)).to(x.dtype)


# name, message, ending(y, weight, bias) with weight and bias lined up
ENDINGS: list[tuple[str, str, Ending]] = [
    (
        "bias-forgotten",
        "You left out the bias; it is added last.",
        lambda y, weight, bias: y * weight,
    ),
    (
        "weight-forgotten",
        "You left out the weight; the normalized values are multiplied by it.",
        lambda y, weight, bias: y + bias,
    ),
    ("weight-forgotten+bias-forgotten", "", lambda y, weight, bias: y),
    (
        "bias-before-weight",
        "You added the bias before multiplying by the weight; multiply first, then add.",
        lambda y, weight, bias: (y + bias) * weight,
    ),
    (
        "weight-and-bias-swapped",
        "You swapped weight and bias: the weight multiplies, the bias is added.",
        lambda y, weight, bias: y * bias + weight,
    ),
]


def declare_endings(exercise: str, make: Callable[[Ending], Any]) -> None:
    """Declare every wrong ending as a misconception of `exercise`, made runnable by `make`."""
    for name, message, ending in ENDINGS:
        if "+" in name:
            misconception(exercise=exercise, parts=tuple(name.split("+")))(make(ending))
        else:
            declare = partial(misconception, exercise=exercise, link=PAGE + "family-affine")
            declare(name=name, message=message)(make(ending))
