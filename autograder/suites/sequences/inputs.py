"""Inputs of the hidden tests and what is expected for them.

Each test is tight about its own property and generous about the others, so that one mistake costs
the tests that are about it. `LOOSE` forgives an unbiased variance where MANY or more tokens share
one (at most 2 %) and an eps of 1e-3 at a wrong place (features have a spread of at least 2), and
nothing larger; padding that is counted, axes and parameters change the result by 10 % and more.
`STRICT` leaves room for any order of float32 operations and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import solutions.sequences.sequences as reference
from autograder.suites.vocabulary import COARSE, REACHES, expect_half, reaches, share
from autograder.testing.compare import expect, judging
from autograder.testing.later import later
from autograder.testing.verdict import LearnerError

MANY = 64  # real tokens, from which on LOOSE forgives an unbiased variance
EPS = 1e-3
LOOSE = 0.025  # of the largest expected value
STRICT = 2e-5


def _normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def _uniform(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=rng, dtype=torch.float64)


def sentences(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x (..., D) whose features, and whose sentences and positions, have own means.

    Features have means of ±4 to ±12 and a spread of 2 to 6, so that zeros among them show. Each
    place along the other axes adds a mean of about ±3, so that statistics per sentence or per
    position differ from those of all tokens together.
    """
    d = shape[-1]
    sign = torch.randint(0, 2, (d,), generator=rng, dtype=torch.float64) * 2 - 1
    x = (2 + 4 * _uniform(rng, d)) * _normal(rng, *shape) + sign * (4 + 8 * _uniform(rng, d))
    for axis, length in enumerate(shape[:-1]):
        own = [1] * len(shape)
        own[axis] = length
        x = x + 3 * _normal(rng, *own)
    return x.to(dtype)


def mask_of(lengths: Sequence[int], length: int) -> Tensor:
    """(B, L), True at the first lengths[b] positions."""
    return torch.arange(length) < torch.tensor(lengths)[:, None]


def holes(rng: torch.Generator, *shape: int, share: float = 0.7) -> Tensor:
    """A mask without any order: about `share` of the places are real, the first two always."""
    mask = torch.rand(shape, generator=rng) < share
    mask.view(-1)[:2] = True
    mask.view(-1)[-1] = False
    return mask


def padded(x: Tensor, mask: Tensor, value: float = 0.0) -> Tensor:
    """x with `value` wherever there is no real token."""
    return x.masked_fill(~mask.unsqueeze(-1), value)


def littered(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """x whose padding holds `value` in the first feature and -7 in the others."""
    x = padded(x, mask, -7.0)
    x[..., 0] = x[..., 0].masked_fill(~mask, value)
    return x


def coarse(rng: torch.Generator, *shape: int) -> Tensor:
    """bfloat16 numbers 200 and 201: a mean kept in bfloat16 is one of the two, not 200.5."""
    return (200 + (torch.rand(shape, generator=rng) < 0.5).float()).bfloat16()


def affine(
    rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """weight (D,) of both signs with magnitudes 0.5 to 2, and bias (D,) with magnitudes 1 to 3."""
    sign = torch.randint(0, 2, (2, d), generator=rng, dtype=torch.float64) * 2 - 1
    size = _uniform(rng, 2, d)
    return ((0.5 + 1.5 * size[0]) * sign[0]).to(dtype), ((1 + 2 * size[1]) * sign[1]).to(dtype)


def upstream(rng: torch.Generator, like: Tensor) -> Tensor:
    """A random upstream gradient with a mean and a part along `like`, in float64.

    Both matter: without them what flows through mean and variance is close to zero.
    """
    wide = like.double()
    part = (wide - wide.mean()) / (wide.std(correction=0) + 1e-300)
    return _normal(rng, *like.shape) + 1.5 + part


def wide(value: Any) -> Any:
    """Floating-point tensors in float64, everything else as it is."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.double()
    return [wide(v) for v in value] if isinstance(value, list) else value


def kept(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which statistics are returned."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def wanted_statistics(name: str, first: Any, *rest: Any) -> tuple[Tensor, Tensor]:
    """The reference's two tensors, computed in float64 and rounded once."""
    dtype = kept((first[0] if isinstance(first, list) else first).dtype)
    one, other = getattr(reference, name)(*map(wide, (first, *rest)))
    return one.to(dtype), other.to(dtype)


def wanted_norm(x: Tensor, *rest: Any) -> Tensor:
    """The reference's masked_batch_norm in float64, rounded once to the dtype of x."""
    return reference.masked_batch_norm(*map(wide, (x, *rest))).to(x.dtype)


@judging
def expect_pair(
    got: Any, want: tuple[Tensor, Tensor], parts: Sequence[float | None], names: Sequence[str]
) -> None:
    """Two results: their form first, so that they can be taken apart; then one by one.

    A part of None leaves that result to other tests.
    """
    expect(got, want, rtol=0.0, atol=float("inf"), what=" and ".join(names))
    for found, right, part, name in zip(got, want, parts, names, strict=True):
        if part is not None:
            expect(found, right, **share(right, part), what=name)


def refuses(call: Callable[[], Any]) -> bool:
    """Whether `call` raises a ValueError. Other failures go on, but for those a check may raise."""
    try:
        call()
    except LearnerError as error:
        if error.kind not in ("ValueError", "RuntimeError", "AssertionError", "IndexError"):
            raise
        return error.kind == "ValueError"
    return False


def expect_bfloat16_output(got: Any, want: Tensor) -> None:
    """The output whose gradients are asked for: about right. Its dtype has tests of its own."""
    expect(in_float32(got), want.float(), **share(want, COARSE), what="the output in bfloat16")


@later
def in_float32(value: Any) -> Any:
    """Floating-point tensors in float32, also in a tuple or list; anything else as it is."""
    if isinstance(value, (tuple, list)):
        return [in_float32(v) for v in value]
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


def expect_bfloat16_gradients(found: Any, want: Sequence[Tensor], *names: str) -> None:
    """Whether gradients reach the bfloat16 tensors `names`; then whether they are those wanted."""
    *first, last = names
    told = f"{', '.join(first)} and {last}" if first else last
    what = REACHES.format(f"{told} in bfloat16")
    expect(reaches(found, *want), [True] * len(want), what=what)
    for i, name in enumerate(names):
        expect_half(found[i], want[i], COARSE, f"the gradient for {name} in bfloat16")
