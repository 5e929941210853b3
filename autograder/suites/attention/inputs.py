"""Inputs of the hidden tests and what is expected for them.

Two kinds of inputs. In `sharp` ones every query fits one key far better than the others, so that
the weights are almost 0 and 1 however the scores are scaled: tests about masks, heads and axes use
them, and a mistake in the scale costs its own tests only. In `soft` ones all keys matter, and every
factor shows. `LOOSE` forgives a rounding to a half type and nothing larger; `STRICT` leaves room
for any order of float32 operations and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

import solutions.attention.attention as reference
from autograder.suites.vocabulary import (
    normal,
    share,
)
from autograder.testing.compare import expect

LOOSE = 0.02  # of the largest expected value
STRICT = 2e-5
SHARP = 80.0  # the best score before scaling; its exponential still fits into float32


def values(rng: torch.Generator, *shape: int) -> Tensor:
    """Values (..., S, E) that differ in every place, none of them near 0."""
    x = 2 * normal(rng, *shape)
    return x + 3 * x.sign()


def soft(
    rng: torch.Generator,
    front: tuple[int, ...],
    lq: int,
    s: int,
    d: int,
    e: int,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v whose scaled scores have a spread of about 1.5, and v of length e."""
    q, k = 1.5**0.5 * normal(rng, *front, lq, d), 1.5**0.5 * normal(rng, *front, s, d)
    return q.to(dtype), k.to(dtype), values(rng, *front, s, e).to(dtype)


def sharp(
    rng: torch.Generator, front: tuple[int, ...], lq: int, s: int, e: int
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v with orthogonal keys of length D = s; each query fits them in an order of its own.

    The scores of a query before scaling are SHARP times 1, 0.6, 0.2, -0.2, -0.6, ...: when the
    best keys are padding, the next one gets all the weight.
    """
    k = torch.linalg.qr(normal(rng, *front, s, s))[0]
    order = torch.rand((*front, lq, s), generator=rng).argsort(-1)
    q = SHARP * (1 - 0.4 * order.double()) @ k
    return q.float(), k.float(), values(rng, *front, s, e).float()


def padding(rng: torch.Generator, b: int, s: int) -> Tensor:
    """(b, s), True at padding: in any order, each sentence with at least one of each kind."""
    mask = torch.rand((b, s), generator=rng) < 0.5
    rows, places = torch.arange(b), torch.rand((b, s), generator=rng).argsort(-1)
    mask[rows, places[:, 0]] = False
    if s > 1:
        mask[rows, places[:, 1]] = True
    return mask


def at_the_end(lengths: list[int], s: int) -> Tensor:
    """(B, s), True behind the first lengths[b] places of row b, as batches are padded."""
    return torch.arange(s) >= torch.tensor(lengths)[:, None]


def wanted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The reference's attention in float64, rounded once to the dtype of q."""
    return reference.attention(q.double(), k.double(), v.double(), mask).to(q.dtype)


# -- the module ----------------------------------------------------------------------------------

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
State = dict[str, Tensor]


def state(
    rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32, bias: float = 0.0
) -> State:
    """Weights that make soft scores from tokens of spread 1, and biases of spread `bias`."""
    found = {}
    for name in PROJECTIONS:
        gain = 1.25 if name in ("q_proj", "k_proj") else 1.0
        found[f"{name}.weight"] = (gain * d**-0.5 * normal(rng, d, d)).to(dtype)
        found[f"{name}.bias"] = (bias * normal(rng, d)).to(dtype)
    return found


def tokens(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return normal(rng, *shape).to(dtype)


def forward(x: Tensor, mask: Tensor | None, heads: int, parameters: State) -> Tensor:
    """The reference module as a function of everything that gradients may reach."""
    m = reference.MultiHeadAttention(x.shape[-1], heads).to(x.dtype)
    return functional_call(m, parameters, (x, mask))


def wanted_module(x: Tensor, mask: Tensor | None, heads: int, parameters: State) -> Tensor:
    """The reference module's output in float64, rounded once to the dtype of x."""
    wide = {name: t.double() for name, t in parameters.items()}
    return forward(x.double(), mask, heads, wide).detach().to(x.dtype)


# -- comparing -----------------------------------------------------------------------------------


def expect_half(got: Any, want: Tensor, part: float, what: str) -> None:
    """`expect` for a float16 or bfloat16 `want`: its form first, then its values as float32.

    Known mistakes are recognised by values that agree to a few roundings of their dtype. For half
    types that would be so coarse that right and wrong look alike; in float32 it is not.
    """
    expect(got, want, rtol=0, atol=float("inf"), what=what)
    expect(got.float(), want.float(), **share(want, part), what=what)


def expect_rounded_once(got: Any, want: Tensor, dtype: torch.dtype) -> None:
    """`want` is the float32 result; `got` may be off by one rounding to the half type `dtype`."""
    expect_half(got, want.to(dtype), LOOSE, "the output")
    # Half a step (eps / 2 of the value), and float32's own error around it.
    half_step = 1.02 * torch.finfo(dtype).eps / 2
    expect(got.float(), want, rtol=half_step, atol=5e-5, what="the output's last digit")


def shapes(value: Any) -> Any:
    """The shapes of named tensors, since their values are random; anything else as it is."""
    if isinstance(value, dict) and all(isinstance(t, Tensor) for t in value.values()):
        return {name: list(t.shape) for name, t in sorted(value.items())}
    return value
