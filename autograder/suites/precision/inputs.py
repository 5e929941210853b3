"""Inputs of the hidden tests and what is expected for them.

Each test is tight about its own property and generous about the others, so that one mistake costs
the tests that are about it. `near` vectors have a mean of the size of their spread: there every
formula for a variance is right. `far` vectors have a mean that is thousands of times larger: there
the numbers tell how the variance was computed. `LOOSE` forgives an unbiased variance at D = WIDTH,
a rounding to a half type, and nothing larger; `STRICT` leaves room for any order of float32
operations and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.suites.vocabulary import normal, uniform
from autograder.testing.compare import ROUNDED_ONCE, expect

WIDTH = 64
EPS = 1e-5
LOOSE = 0.03  # of the largest expected value
STRICT = 3e-5
WELFORD = "what welford returns"


def near(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x of `shape`; each vector has its own mean (±2 to ±6) and its own spread (2 to 8)."""
    own = (*shape[:-1], 1)
    sign = torch.randint(0, 2, own, generator=rng, dtype=torch.float64) * 2 - 1
    return (sign * uniform(rng, 2, 6, *own) + uniform(rng, 2, 8, *own) * normal(rng, *shape)).to(
        dtype
    )


def far(
    rng: torch.Generator, n: int, d: int, mean: float, spread: float, dtype: torch.dtype
) -> Tensor:
    """(n, d) with means of about ±`mean` and spreads of about `spread`."""
    sign = torch.randint(0, 2, (n, 1), generator=rng, dtype=torch.float64) * 2 - 1
    offset = sign * mean * uniform(rng, 0.8, 1.2, n, 1)
    return (offset + spread * uniform(rng, 0.8, 1.2, n, 1) * normal(rng, n, d)).to(dtype)


def signed(rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """(D,) of both signs, with magnitudes from 0.5 to 2."""
    sign = torch.randint(0, 2, (d,), generator=rng, dtype=torch.float64) * 2 - 1
    return (uniform(rng, 0.5, 2, d) * sign).to(dtype)


def upstream(rng: torch.Generator, x: Tensor) -> Tensor:
    """A random float64 upstream gradient (..., D) for x, with a mean and a part along x."""
    wide = x.double()
    centered = wide - wide.mean(-1, keepdim=True)
    along = centered / (centered.square().mean(-1, keepdim=True).sqrt() + 1e-300)
    return normal(rng, *x.shape) + 1.5 + along


def wide_dtype(x: Tensor) -> torch.dtype:
    """The dtype of statistics: float32 for half types."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance (...) in float64, rounded once to the dtype of statistics."""
    wide = x.double()
    mean = wide.mean(-1)
    var = (wide - mean[..., None]).square().mean(-1)
    return mean.to(wide_dtype(x)), var.to(wide_dtype(x))


def piece(x: Tensor) -> tuple[int, Tensor, Tensor]:
    """(count, mean, M2) of x (..., D), exact but for one rounding."""
    wide = x.double()
    mean = wide.mean(-1)
    m2 = (wide - mean[..., None]).square().sum(-1)
    return x.shape[-1], mean.to(x.dtype), m2.to(x.dtype)


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The formula in float64, for numbers whose squares float64 can hold."""
    x = x.double()
    centered = x - x.mean(-1, keepdim=True)
    y = centered / torch.sqrt(centered.square().mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight.double()
    return y if bias is None else y + bias.double()


def gradients(
    function: Callable[..., Tensor], grad_out: Tensor, *inputs: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of `function(*inputs)` by autograd in float64, rounded once to each one's dtype."""
    leaves = [t.detach().double().requires_grad_() for t in inputs]
    found = torch.autograd.grad(function(*leaves), leaves, grad_out)
    return tuple(g.to(t.dtype) for g, t in zip(found, inputs, strict=True))


def share(want: Tensor, part: float) -> dict[str, float]:
    """Tolerance of `expect`: `part` of the largest expected value, for every element."""
    largest = float(want.double().abs().max()) if want.numel() else 0.0
    return {"rtol": 0.0, "atol": part * largest + 1e-30}


def expect_pair(got: Any, want: tuple[Tensor, Tensor], part: float) -> None:
    """`got` is (mean, var): its form first, then each of the two, element by element.

    The mean may be off by its own roundings, and by `part` of the spread.
    """
    mean, var = want
    expect(got, want, rtol=0, atol=float("inf"), what=WELFORD)
    rounding = 16 * torch.finfo(mean.dtype).eps * float(mean.abs().max())
    atol = part * float(var.max()) ** 0.5 + rounding
    expect(got[0], mean, rtol=0, atol=atol, what="the mean")
    expect(got[1], var, rtol=part, atol=1e-30, what="the variance")


def expect_half(got: Any, want: Tensor, part: float, what: str = "the output") -> None:
    """`expect` for a float16 or bfloat16 `want`: its form first, then its values as float32.

    Known mistakes are recognised by values that agree to a few roundings of their dtype. For half
    types that would be so coarse that right and wrong look alike; in float32 it is not.
    """
    expect(got, want, rtol=0, atol=1e9, what=what)
    expect(got.float(), want.float(), **share(want, part), what=what)


def expect_rounded_once(got: Any, want: Tensor, dtype: torch.dtype) -> None:
    """`got`, of the half type `dtype`, is the float64 tensor `want` after a single rounding."""
    expect_half(got, want.to(dtype), LOOSE)
    # One rounding: half a step (eps / 2 of the value), and float32's own error around it.
    half_step = 1.02 * torch.finfo(dtype).eps / 2
    expect(got.float(), want.float(), rtol=half_step, atol=2e-5, what=ROUNDED_ONCE)
