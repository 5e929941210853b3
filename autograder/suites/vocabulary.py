"""What the inputs and comparisons of several suites share: one definition each.

A suite's `inputs.py` has what is particular to its assignment, tolerances first of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.testing.compare import expect
from autograder.testing.later import later

COARSE = 0.1  # for gradients in bfloat16: room for code that computes in it throughout
REACHES = "the answer to whether a gradient reaches {}"


def normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def uniform(rng: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=rng, dtype=torch.float64)


def affine(
    rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """weight (D,) of both signs with magnitudes 0.5 to 2, and bias (D,) with magnitudes 1 to 3."""
    sign = torch.randint(0, 2, (2, d), generator=rng, dtype=torch.float64) * 2 - 1
    size = torch.rand((2, d), generator=rng, dtype=torch.float64)
    return ((0.5 + 1.5 * size[0]) * sign[0]).to(dtype), ((1 + 2 * size[1]) * sign[1]).to(dtype)


def plain(d: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """weight and bias that change nothing."""
    return torch.ones(d, dtype=dtype), torch.zeros(d, dtype=dtype)


def huge(rng: torch.Generator, *shape: int) -> Tensor:
    """float16 numbers whose squares do not fit into float16 (at most 65504)."""
    return (2e4 * torch.randn(shape, generator=rng)).clamp(-6e4, 6e4).half()


@later
def gathered(inputs: Any, count: int, parameters: Any, names: Sequence[str]) -> list[Any]:
    """The gradients of `count` inputs and of the parameters `names`; None where there is none."""
    first = [*inputs, *[None] * count][:count]
    return first + [parameters.get(name) for name in names]


def share(want: Tensor, part: float) -> dict[str, float]:
    """Tolerance of `expect`: `part` of the largest expected value, for every element."""
    largest = float(want.double().abs().max()) if want.numel() else 0.0
    return {"rtol": 0.0, "atol": part * largest + 1e-7}


def expect_half(got: Any, want: Tensor, part: float, what: str = "the output") -> None:
    """`expect` for a float16 or bfloat16 `want`: its form first, then its values as float32.

    Known mistakes are recognised by values that agree to a few roundings of their dtype. For half
    types that would be so coarse that right and wrong look alike; in float32 it is not.
    """
    expect(got, want, rtol=0, atol=1e9, what=what)
    expect(got.float(), want.float(), **share(want, part), what=what)


@later
def in_float32(value: Any) -> Any:
    """A floating-point tensor in float32, where its dtype has tests of its own."""
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


def expect_bfloat16_output(got: Any, want: Tensor) -> None:
    """The output whose gradients are asked for: about right. Its dtype has tests of its own."""
    expect(in_float32(got), want.float(), **share(want, COARSE), what="the output in bfloat16")


@later
def reaches(found: Any, *inputs: Tensor) -> list[bool]:
    """For each input, whether `found` holds a gradient of its shape and dtype."""
    entries = list(found) if isinstance(found, (tuple, list)) else []
    entries += [None] * (len(inputs) - len(entries))
    return [
        isinstance(g, Tensor) and (g.shape, g.dtype) == (t.shape, t.dtype)
        for g, t in zip(entries, inputs, strict=False)
    ]


@later
def text_list(value: Any) -> Any:
    """A list of names in a fixed order; anything else as it is."""
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return sorted(value)
    return value
