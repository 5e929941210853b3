"""Inputs of the hidden tests and what is expected for them.

Each test is tight about its own property and generous about the others, so that one mistake costs
the tests that are about it. `LOOSE` forgives an unbiased variance of 64 numbers (0.8 %) and an eps
of 1e-3 at a wrong place (slices have a spread of at least 2), and nothing larger. `STRICT` leaves
room for any order of float32 operations and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import solutions.scaling.scaling as reference
from autograder.testing.compare import expect

LENGTH = 64  # of the axis that is scaled
EPS = 1e-3
LOOSE = 0.02  # of the largest expected value
STRICT = 2e-5


def slices(
    rng: torch.Generator, *shape: int, dim: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Random x of `shape`; every slice along `dim` has its own mean (about ±10) and spread."""
    own = list(shape)
    own[dim] = 1
    mean = 10 * torch.randn(own, generator=rng, dtype=torch.float64)
    spread = 2 + 6 * torch.rand(own, generator=rng, dtype=torch.float64)
    noise = torch.randn(shape, generator=rng, dtype=torch.float64)
    return (mean + spread * noise).to(dtype)


def cloud(
    rng: torch.Generator, n: int, d: int, dtype: torch.dtype = torch.float32, far: float = 5.0
) -> Tensor:
    """n samples of d correlated features around a point about `far` from the origin.

    The standard deviations along the main directions lie between 1 and 4, well apart, and no main
    direction lies along an axis.
    """
    noise = torch.randn(n, d, generator=rng, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(d, d, generator=rng, dtype=torch.float64))[0]
    spread = torch.linspace(1, 4, d, dtype=torch.float64)
    centre = far * (0.5 + torch.rand(d, generator=rng, dtype=torch.float64))
    return (centre + noise * spread @ turn.T).to(dtype)


def standardized(x: Tensor, dim: int, eps: float) -> Tensor:
    """standardize in float64, rounded once to the dtype of x."""
    return reference.standardize(x.double(), dim, eps).to(x.dtype)


def min_max_scaled(x: Tensor, dim: int) -> Tensor:
    """min_max_scale in float64, rounded once to the dtype of x."""
    return reference.min_max_scale(x.double(), dim).to(x.dtype)


def whitened(x: Tensor, eps: float) -> Tensor:
    """whiten in float64, rounded once to the dtype of x."""
    return reference.whiten(x.double(), eps).to(x.dtype)


def covariance(x: Tensor) -> Tensor:
    """The (D, D) covariance matrix of (N, D), biased, in float64."""
    centered = x.double() - x.double().mean(0)
    return centered.T @ centered / len(x)


def share(want: Tensor, part: float) -> dict[str, float]:
    """Tolerance of `expect`: `part` of the largest expected value, for every element."""
    largest = float(want.double().abs().max()) if want.numel() else 0.0
    return {"rtol": 0.0, "atol": part * largest or 1e-7}


def form(got: Any, want: Tensor, what: str = "the output") -> None:
    """Only type, dtype, shape and finiteness: before a test computes with a value."""
    expect(got, want, rtol=0, atol=1e30, what=what)


def expect_half(got: Any, want: Tensor, part: float, what: str = "the output") -> None:
    """`expect` for a float16 or bfloat16 `want`: its form first, then its values as float32.

    Known mistakes are recognised by values that agree to a few roundings of their dtype. For half
    types that would be so coarse that right and wrong look alike; in float32 it is not.
    """
    form(got, want, what)
    expect(got.float(), want.float(), **share(want, part), what=what)
