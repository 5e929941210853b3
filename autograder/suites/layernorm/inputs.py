"""Inputs of the hidden tests and what is expected for them.

Each test is tight about its own property and generous about the others, so that one mistake costs
the tests that are about it. `LOOSE` forgives an unbiased variance at D = WIDTH (0.8 %) and an eps
of 1e-3 at a wrong place (rows have a spread of at least 2), and nothing larger; mistakes in axes,
centering or parameters are 10 % and more. `STRICT` leaves room for any order of float32 operations
(measured: at most 2e-6 of the largest value) and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import solutions.layernorm.layernorm as reference
from autograder.suites.vocabulary import (
    COARSE,
    REACHES,
    expect_half,
    reaches,
    share,
)
from autograder.testing.compare import expect, judging

WIDTH = 64
EPS = 1e-3
LOOSE = 0.02  # of the largest expected value
STRICT = 2e-5


def rows(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x of `shape`; every vector has its own mean (about ±10) and spread (2 to 8)."""
    own = (*shape[:-1], 1)
    mean = 10 * torch.randn(own, generator=rng, dtype=torch.float64)
    spread = 2 + 6 * torch.rand(own, generator=rng, dtype=torch.float64)
    return (mean + spread * _standard(rng, shape)).to(dtype)


def _standard(rng: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def upstream(rng: torch.Generator, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A random upstream gradient (..., D) for x with a mean and a part along the normalized x.

    Both matter: without them the two mean terms of the backward pass are close to zero.
    """
    wide = x.double()
    deviation = wide - wide.mean(-1, keepdim=True)
    along = deviation / (deviation.square().mean(-1, keepdim=True).sqrt() + 1e-300)
    return (_standard(rng, tuple(x.shape)) + 1.5 + along).to(dtype)


def positive_weight(rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """weight (D,), 0.5 to 2, but one entry negative and one exactly 0 (where D allows)."""
    weight = 0.5 + 1.5 * torch.rand(d, generator=rng, dtype=torch.float64)
    if d > 3:
        weight[1], weight[3] = -1.5, 0.0
    return weight.to(dtype)


def normalized(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """layer_norm in float64, rounded once to the dtype of x."""
    y = reference.layer_norm(x.double(), weight.double(), bias.double(), eps)
    return y.to(x.dtype)


def gradients(grad_out: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, ...]:
    """layer_norm_backward in float64, rounded once to the dtypes of x, weight and weight."""
    exact = reference.layer_norm_backward(grad_out.double(), x.double(), weight.double(), eps)
    return tuple(g.to(t.dtype) for g, t in zip(exact, (x, weight, weight), strict=True))


@judging
def expect_near(got: Any, want: Tensor, part: float, what: str) -> None:
    """`expect` up to `part` of the largest value of `want`, which may come from replies."""
    expect(got, want, **share(want, part), what=what)


@judging
def expect_slope(grad_x: Tensor, u: Tensor, slope: Tensor, part: float, what: str) -> None:
    """The slope along the direction u (..., D) that grad_x gives, up to `part` of its size."""
    size = float(grad_x.norm(dim=-1).max())
    expect((grad_x * u).sum(-1), slope, rtol=0, atol=part * size, what=what)


def expect_bfloat16_gradients(found: Any, want: tuple[Tensor, ...]) -> None:
    """Whether gradients reach a bfloat16 x, weight and bias; then whether they are those wanted."""
    what = REACHES.format("x, weight and bias in bfloat16")
    expect(reaches(found, *want), [True] * 3, what=what)
    for i, name in ((2, "bias"), (1, "weight"), (0, "x")):
        expect_half(found[i], want[i], COARSE, f"the gradient for {name} in bfloat16")
