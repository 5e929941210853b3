"""Inputs of the hidden tests and what is expected for them.

Each test is tight about its own property and generous about the others, so that one mistake costs
the tests that are about it. `LOOSE` forgives an unbiased variance where MANY or more values share
one (0.8 %) and an eps of 1e-3 at a wrong place (the values have a spread of at least 2), and
nothing larger; mistakes in axes, groups or parameters are 10 % and more. `STRICT` leaves room for
any order of float32 operations and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import solutions.family.family as reference
from autograder.suites.vocabulary import (
    COARSE,
    REACHES,
    expect_bfloat16_output,
    expect_half,
    reaches,
    share,
)
from autograder.testing.compare import ROUNDED_ONCE, expect

MANY = 64  # values that share a variance, from which on LOOSE forgives an unbiased one
EPS = 1e-3
LOOSE = 0.02  # of the largest expected value
STRICT = 2e-5


def along(x: Tensor, t: Tensor) -> Tensor:
    """t (C,) in a shape that lines up with axis 1 of x."""
    return t.reshape(-1, *[1] * (x.dim() - 2))


def _normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def _uniform(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=rng, dtype=torch.float64)


def table(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x; each position along each axis adds a mean (about ±5) and scales (1 to 2) x."""
    x = 2 * _normal(rng, *shape)
    for axis, length in enumerate(shape):
        own = [1] * len(shape)
        own[axis] = length
        x = x * (1 + _uniform(rng, *own)) + 5 * _normal(rng, *own)
    return x.to(dtype)


def images(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x (N, C, *); each channel of each sample has a mean (±10) and a spread (2 to 8)."""
    own = (*shape[:2], *[1] * (len(shape) - 2))
    spread = 2 + 6 * _uniform(rng, *own)
    return (10 * _normal(rng, *own) + spread * _normal(rng, *shape)).to(dtype)


def affine(
    rng: torch.Generator, c: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """weight (C,) of both signs with magnitudes 0.5 to 2, and bias (C,) with magnitudes 1 to 3."""
    sign = torch.randint(0, 2, (2, c), generator=rng, dtype=torch.float64) * 2 - 1
    size = _uniform(rng, 2, c)
    return ((0.5 + 1.5 * size[0]) * sign[0]).to(dtype), ((1 + 2 * size[1]) * sign[1]).to(dtype)


def plain(c: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """weight and bias that change nothing."""
    return torch.ones(c, dtype=dtype), torch.zeros(c, dtype=dtype)


def spread_rows(rng: torch.Generator, length: int) -> Tensor:
    """(5, length): rows such that for each eps of a test some are ruled by it, some hardly."""
    spread = torch.tensor([3.0, 1e-1, 1e-3, 1e-5, 1e-6], dtype=torch.float64)[:, None]
    return (spread * (1 + _normal(rng, 5, length))).float()


def coarse(rng: torch.Generator, *shape: int) -> Tensor:
    """bfloat16 that steps by 1: a mean kept in it is off by up to a quarter of the spread."""
    return (200 + 2 * torch.randn(shape, generator=rng)).bfloat16()


def upstream(rng: torch.Generator, x: Tensor) -> Tensor:
    """A random upstream gradient with a mean and a part along x, in float64.

    Both matter: without them what flows through mean and variance is close to zero.
    """
    wide = x.double()
    return _normal(rng, *x.shape) + 1.5 + (wide - wide.mean()) / (wide.std() + 1e-300)


def wanted(name: str, *args: Any) -> Tensor:
    """The reference's function `name` in float64, rounded once to the dtype of its first tensor."""
    wide = [a.double() if isinstance(a, Tensor) else a for a in args]
    return getattr(reference, name)(*wide).to(args[0].dtype)


def expect_rounded_once(got: Any, want: Tensor, dtype: torch.dtype) -> None:
    """`want` is the float32 result; `got` may be off by one rounding to the half type `dtype`."""
    expect_half(got, want.to(dtype), LOOSE, "the output")
    # Half a step (eps / 2 of the value), and float32's own error around it.
    half_step = 1.02 * torch.finfo(dtype).eps / 2
    expect(got.float(), want, rtol=half_step, atol=2e-5, what=ROUNDED_ONCE)


def expect_gradients(student: Any, rng: torch.Generator, name: str, *args: Any) -> None:
    """Autograd's gradients of the learner's function, near a right output, for every tensor.

    A biased or unbiased variance differs by up to 1.6 % where MANY values or more share it; a
    missing path through mean or variance by half and more.
    """
    want, g = wanted(name, *args), upstream(rng, args[0])
    leaves = [a.double().requires_grad_() if isinstance(a, Tensor) else a for a in args]
    tensors = [a for a in leaves if isinstance(a, Tensor)]
    right = torch.autograd.grad(getattr(reference, name)(*leaves), tensors, g.double())
    y, vjp = student.vjp(name, *args)
    expect(y, want, **share(want, LOOSE))
    found, given = vjp(g.to(want.dtype)), [a for a in args if isinstance(a, Tensor)]
    names = ["x", "weight", "bias"][: len(given)] if name != "standardize_weight" else ["w"]
    answers = [True] * len(given)
    expect(reaches(found, *given), answers, what=REACHES.format(" and ".join(names)))
    for i, (part, exact, of) in enumerate(zip((0.05, 0.02, 0.02), right, names, strict=False)):
        expect(found[i], exact.to(want.dtype), **share(exact, part), what=f"the gradient for {of}")


def expect_bfloat16_gradients(student: Any, rng: torch.Generator, name: str, *args: Any) -> None:
    """Whether gradients reach all tensors in bfloat16; then whether they are those wanted."""
    args = tuple(a.bfloat16() if isinstance(a, Tensor) else a for a in args)
    want, g = wanted(name, *args), upstream(rng, args[0]).bfloat16()
    leaves = [a.double().requires_grad_() if isinstance(a, Tensor) else a for a in args]
    tensors = [a for a in leaves if isinstance(a, Tensor)]
    right = torch.autograd.grad(getattr(reference, name)(*leaves), tensors, g.double())
    names = ["x", "weight", "bias"][: len(right)] if name != "standardize_weight" else ["w"]
    y, vjp = student.vjp(name, *args)
    expect_bfloat16_output(y, want)
    expect_found_in_bfloat16(vjp(g), [t.bfloat16() for t in right], names)


def expect_found_in_bfloat16(
    found: Any, want: Sequence[Tensor], names: Sequence[str], values: int = 3
) -> None:
    """Gradients for an x in bfloat16: whether all are there, then the first few `values`."""
    *first, last = names
    told = f"{', '.join(first)} and {last}" if first else last
    what = REACHES.format(f"{told} in bfloat16")
    expect(reaches(found, *want), [True] * len(want), what=what)
    for i, name in enumerate(names[:values]):
        expect_half(found[i], want[i], COARSE, f"the gradient for {name} in bfloat16")
