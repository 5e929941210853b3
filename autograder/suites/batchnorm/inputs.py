"""Inputs of the hidden tests and what is expected for them.

Each test is tight about its own property and generous about the others, so that one mistake costs
the tests that are about it. `LOOSE` forgives an unbiased variance where a channel has MANY values
or more (0.8 %) and an eps of 1e-3 at a wrong place (channels have a spread of at least 2), and
nothing larger; mistakes in axes, modes or parameters are 10 % and more. `STRICT` leaves room for
any order of float32 operations and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import solutions.batchnorm.batchnorm as reference
from autograder.suites.vocabulary import (
    COARSE,
    REACHES,
    expect_half,
    reaches,
)
from autograder.testing.compare import expect

C = 5
MANY = 64  # values of a channel from which on LOOSE forgives an unbiased variance
EPS = 1e-3
LOOSE = 0.02  # of the largest expected value
STRICT = 2e-5
MODES = {"training": True, "evaluation": False}


def along(x: Tensor, t: Tensor) -> Tensor:
    """t (C,) in a shape that lines up with axis 1 of x."""
    return t.reshape(1, -1, *[1] * (x.dim() - 2))


def others(x: Tensor) -> list[int]:
    """Every axis of x but the channels."""
    return [0, *range(2, x.dim())]


def _normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def batch(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x (N, C, *); every channel has its own mean (about ±10) and spread (2 to 8)."""
    x = _normal(rng, *shape)
    mean = 10 * _normal(rng, shape[1])
    spread = 2 + 6 * torch.rand(shape[1], generator=rng, dtype=torch.float64)
    return (along(x, mean) + along(x, spread) * x).to(dtype)


def affine(
    rng: torch.Generator, c: int = C, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """weight (C,) of both signs with magnitudes 0.5 to 2, and bias (C,) with magnitudes 1 to 3."""
    sign = torch.randint(0, 2, (2, c), generator=rng, dtype=torch.float64) * 2 - 1
    size = torch.rand((2, c), generator=rng, dtype=torch.float64)
    return ((0.5 + 1.5 * size[0]) * sign[0]).to(dtype), ((1 + 2 * size[1]) * sign[1]).to(dtype)


def plain(c: int = C, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """weight and bias that change nothing."""
    return torch.ones(c, dtype=dtype), torch.zeros(c, dtype=dtype)


def fresh(c: int = C, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """running_mean and running_var of a layer that has seen nothing."""
    return torch.zeros(c, dtype=dtype), torch.ones(c, dtype=dtype)


def seasoned(
    rng: torch.Generator, c: int = C, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """running_mean (about ±10) and running_var (4 to 64) of a layer that has seen other batches."""
    spread = 2 + 6 * torch.rand(c, generator=rng, dtype=torch.float64)
    return (10 * _normal(rng, c)).to(dtype), spread.square().to(dtype)


def upstream(rng: torch.Generator, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A random upstream gradient for x with a mean and a part along the normalized x.

    Both matter: without them the two mean terms of the backward pass are close to zero.
    """
    wide, dims = x.double(), others(x)
    deviation = wide - wide.mean(dims, keepdim=True)
    direction = deviation / (deviation.square().mean(dims, keepdim=True).sqrt() + 1e-300)
    return (_normal(rng, *x.shape) + 1.5 + direction).to(dtype)


def positive_weight(rng: torch.Generator, c: int = C, dtype: torch.dtype = torch.float32) -> Tensor:
    """weight (C,), 0.5 to 2, but one entry negative and one exactly 0 (where C allows)."""
    weight = 0.5 + 1.5 * torch.rand(c, generator=rng, dtype=torch.float64)
    if c > 3:
        weight[1], weight[3] = -1.5, 0.0
    return weight.to(dtype)


def after(
    x: Tensor,
    parameters: tuple[Tensor, Tensor],
    running: tuple[Tensor, Tensor],
    training: bool,
    momentum: float | None = 0.1,
    eps: float = EPS,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Output and running statistics after batch_norm, in float64, rounded once at the end."""
    wide = [t.double() for t in (x, *parameters)]
    mean, var = (t.double().clone() for t in running)
    y = reference.batch_norm(*wide, mean, var, training, momentum, eps)
    return y.to(x.dtype), (mean.to(running[0].dtype), var.to(running[1].dtype))


def gradients(grad_out: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, ...]:
    """batch_norm_backward in float64, rounded once to the dtypes of x, weight and weight."""
    exact = reference.batch_norm_backward(grad_out.double(), x.double(), weight.double(), eps)
    return tuple(g.to(t.dtype) for g, t in zip(exact, (x, weight, weight), strict=True))


def expect_bfloat16_gradients(found: Any, want: tuple[Tensor, ...]) -> None:
    """Whether gradients reach a bfloat16 x, weight and bias; then whether they are those wanted."""
    what = REACHES.format("x, weight and bias in bfloat16")
    expect(reaches(found, *want), [True] * 3, what=what)
    for i, name in ((2, "bias"), (1, "weight"), (0, "x")):
        expect_half(found[i], want[i], COARSE, f"the gradient for {name} in bfloat16")
