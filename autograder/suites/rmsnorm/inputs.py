"""Inputs of the hidden tests and what is expected for them.

Each test is tight about its own property and generous about the others, so that one mistake costs
the tests that are about it. `LOOSE` forgives an eps of 1e-3 at a wrong place (vectors have a root
mean square of at least 2), an unbiased variance at D = WIDTH (0.8 %) and a rounding to a half type,
and nothing larger; mistakes in axes, centering or parameters are 10 % and more. `STRICT` leaves
room for any order of float32 operations and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.suites.vocabulary import (
    COARSE,
    REACHES,
    expect_half,
    normal,
    reaches,
    uniform,
)
from autograder.testing.compare import ROUNDED_ONCE, expect

WIDTH = 64
EPS = 1e-3
LOOSE = 0.02  # of the largest expected value
STRICT = 2e-5
HALF = (torch.float16, torch.bfloat16)


def rows(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x of `shape`; every vector has its own mean (±2 to ±6) and its own spread (2 to 8).

    The mean matters: whoever subtracts it, or forgets to, is off by 10 % and more.
    """
    own = (*shape[:-1], 1)
    sign = torch.randint(0, 2, own, generator=rng, dtype=torch.float64) * 2 - 1
    mean = sign * uniform(rng, 2, 6, *own)
    return (mean + uniform(rng, 2, 8, *own) * normal(rng, *shape)).to(dtype)


def signed(
    rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32, low: float = 0.5
) -> Tensor:
    """(D,) of both signs, with magnitudes from `low` to 2."""
    sign = torch.randint(0, 2, (d,), generator=rng, dtype=torch.float64) * 2 - 1
    return (uniform(rng, low, 2, d) * sign).to(dtype)


def positive_weight(rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """weight (D,), 0.5 to 2, but one entry negative and one exactly 0 (where D allows)."""
    weight = uniform(rng, 0.5, 2, d)
    if d > 3:
        weight[1], weight[3] = -1.5, 0.0
    return weight.to(dtype)


def upstream(rng: torch.Generator, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A random upstream gradient (..., D) for x, with a mean and a part along x.

    Both matter: without them the terms of a backward pass that remove them are close to zero.
    """
    wide = x.double()
    along = wide / (wide.square().mean(-1, keepdim=True).sqrt() + 1e-300)
    return (normal(rng, *x.shape) + 1.5 + along).to(dtype)


def scales(rng: torch.Generator, d: int, *spreads: float) -> Tensor:
    """float32 vectors (len(spreads), D) whose numbers are of the sizes `spreads`."""
    spread = torch.tensor(spreads, dtype=torch.float64)[:, None]
    return (spread * (0.5 + normal(rng, len(spreads), d))).float()


def exact(function: Callable[..., Tensor], x: Tensor, *rest: Any) -> Tensor:
    """`function` in float64, rounded once to the dtype of x."""
    wide = [a.double() if isinstance(a, Tensor) else a for a in (x, *rest)]
    return function(*wide).detach().to(x.dtype)


def gradients(
    function: Callable[..., Tensor], grad_out: Tensor, *inputs: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of `function(*inputs)` by autograd in float64, rounded once to each one's dtype."""
    leaves = [t.detach().double().requires_grad_() for t in inputs]
    found = torch.autograd.grad(function(*leaves), leaves, grad_out.double())
    return tuple(g.to(t.dtype) for g, t in zip(found, inputs, strict=True))


def expect_rounded_once(got: Any, want: Tensor, dtype: torch.dtype) -> None:
    """`got`, of the half type `dtype`, is the float32 tensor `want` after a single rounding."""
    expect_half(got, want.to(dtype), LOOSE)
    # One rounding: half a step (eps / 2 of the value), and float32's own error around it.
    half_step = 1.02 * torch.finfo(dtype).eps / 2
    expect(got.float(), want, rtol=half_step, atol=2e-5, what=ROUNDED_ONCE)


def expect_bfloat16_gradients(found: Any, want: Sequence[Tensor], *names: str) -> None:
    """Whether gradients reach the tensors `names` of a bfloat16 x; then whether they are right."""
    *first, last = names
    told = f"{', '.join(first)} and {last}" if first else last
    what = REACHES.format(f"{told} in bfloat16")
    expect(reaches(found, *want), [True] * len(want), what=what)
    for i in reversed(range(len(want))):  # x, the hardest, comes last
        expect_half(found[i], want[i], COARSE, f"the gradient for {names[i]} in bfloat16")
