"""Inputs of the hidden tests of the kernels, and what is expected for them in float64.

In the interpreter a program costs milliseconds, whatever the width of its row: rows are few, and
as wide as they need to be. Each test is tight about its own property and generous about the
others. `LOOSE` forgives an unbiased variance at D = WIDTH (0.8 %) and what bfloat16 rounds, and
nothing larger; mistakes in masks, strides or statistics are 5 % and more, since every row has a
mean of several times its spread. `STRICT` leaves room for any order of float32 operations
(measured: below 2e-6 of the largest value) and for no mistake at all.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograder.suites.vocabulary import normal, share
from autograder.testing.compare import expect
from autograder.testing.later import later

WIDTH = 64
EPS = 1e-3
LOOSE = 0.02  # of the largest expected value
STRICT = 2e-5
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SECOND_AXIS = "The second axis of the grid grows with the rows, and ends at 65,535; use the first."


# -- inputs -----------------------------------------------------------------------------------


def rows(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random x of `shape`; every row has its own mean (±5 to ±15) and its own spread (2 to 6)."""
    own = (*shape[:-1], 1)
    sign = torch.randint(0, 2, own, generator=rng, dtype=torch.float64) * 2 - 1
    mean = sign * (5 + 10 * torch.rand(own, generator=rng, dtype=torch.float64))
    spread = 2 + 4 * torch.rand(own, generator=rng, dtype=torch.float64)
    return (mean + spread * normal(rng, *shape)).to(dtype)


def level(rng: torch.Generator) -> Tensor:
    """float32 rows far from 0 whose mean and deviations float32 holds exactly, (3, WIDTH).

    However the sum is taken, the mean has no error: what is left are those of the rest.
    """
    mean = torch.randint(8000, 16000, (3, 1), generator=rng)
    step = torch.randint(1, 33, (3, WIDTH // 2), generator=rng) / 8
    return torch.stack([mean + step, mean - step], -1).flatten(-2)


def strided(rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Tensors of three rows of d whose numbers lie otherwise than end to end, by what they are."""
    wide = rows(rng, 6, 2 * d + 3, dtype=dtype)
    return {
        "whose rows are parts of wider rows": rows(rng, 3, d + 5, dtype=dtype)[:, 2 : d + 2],
        "that takes every other row": wide[::2, :d],
        "that takes every other column": wide[:3, : 2 * d : 2],
        "that is transposed": rows(rng, 3, d, dtype=dtype).t().contiguous().t(),
        "that repeats one row": rows(rng, 1, d, dtype=dtype).expand(3, d),
    }


def swapped(rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A tensor of shape (3, 2, d) whose rows no single stride leads through."""
    x = rows(rng, 2, 3, d, dtype=dtype).transpose(0, 1)
    return {"whose first two axes were swapped": x}


def upstream(rng: torch.Generator, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A random upstream gradient (..., D) for x with a mean and a part along the normalized x.

    Both matter: without them the two mean terms of the backward pass are close to zero.
    """
    along = layer_norm(x, None, None, 1e-12)[0]
    return (normal(rng, *x.shape) + 1.5 + along).to(dtype)


def slopes(rng: torch.Generator, d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """weight (D,), 0.5 to 2, but some negative, one exactly 0 and one tiny (where D allows)."""
    weight = 0.5 + 1.5 * torch.rand(d, generator=rng, dtype=torch.float64)
    if d > 3:
        weight[1], weight[2], weight[3] = -1.5, 1e-8, 0.0
    return weight.to(dtype)


# -- what is expected, in float64 -----------------------------------------------------------------


def layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """y (..., D), mean (...), rstd (...) in float64."""
    wide = x.double()
    mean = wide.mean(-1, keepdim=True)
    centered = wide - mean
    rstd = torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)
    y = centered * rstd
    y = y if weight is None else y * weight.double()
    y = y if bias is None else y + bias.double()
    return y, mean.squeeze(-1), rstd.squeeze(-1)


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm` with the dtypes that the exercise asks for, each rounded once."""
    y, mean, rstd = layer_norm(x, weight, bias, eps)
    return y.to(x.dtype), mean.float(), rstd.float()


def saved(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """mean and rstd (...) as the forward pass hands them to the backward pass, float32."""
    return layer_norm(x, None, None, eps)[1].float(), layer_norm(x, None, None, eps)[2].float()


def backward(
    grad_out: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """grad_x, grad_weight and grad_bias in float64, each rounded once to the dtype asked for."""
    g, wide, r = grad_out.double(), x.double(), rstd.double()[..., None]
    x_hat = (wide - mean.double()[..., None]) * r
    g_hat = g if weight is None else g * weight.double()
    mean_g, mean_gx = g_hat.mean(-1, keepdim=True), (g_hat * x_hat).mean(-1, keepdim=True)
    grad_x = r * (g_hat - mean_g - x_hat * mean_gx)
    d = x.shape[-1]
    grad_bias = g.reshape(-1, d).sum(0)
    if weight is None:
        return grad_x.to(x.dtype), None, grad_bias.float()
    grad_weight = (g * x_hat).reshape(-1, d).sum(0)
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """y with the dtype of x and rstd in float32, computed in float64."""
    wide = x.double()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    y = wide * rstd if weight is None else wide * rstd * weight.double()
    return y.to(x.dtype), rstd.squeeze(-1).float()


def add_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y and s with the dtype of x, mean and rstd of the sum, which is exact in float64."""
    total = x.double() + residual.double()
    y, mean, rstd = layer_norm(total, weight, bias, eps)
    return y.to(x.dtype), total.to(x.dtype), mean.float(), rstd.float()


# -- comparing --------------------------------------------------------------------------------


@later
def parts(got: Any, *names: str) -> Any:
    """`got`, once it is known to hold as many values as there are `names`."""
    assert isinstance(got, (tuple, list)) and len(got) == len(names), (
        f"The result is not {len(names)} values; return {', '.join(names)}."
    )
    return got


def close(got: Any, want: Tensor, part: float, what: str) -> None:
    """`expect` up to `part` of the largest value.

    For half types the form comes first and then the values as float32: known mistakes are
    recognised by values that agree to a few roundings of their dtype, which for half types would
    be so coarse that right and wrong look alike.
    """
    if want.dtype.itemsize == 2:
        expect(got, want, rtol=0, atol=1e9, what=what)
        got, want = got.float(), want.float()
    expect(got, want, **share(want, part), what=what)


def rounded_once(got: Any, want: Tensor, dtype: torch.dtype, what: str) -> None:
    """`got`, of the half type `dtype`, is the float64 tensor `want` after a single rounding."""
    close(got, want.to(dtype), LOOSE, what)
    # One rounding is half a step; around it there are float32's own errors.
    want = want.float()
    atol = STRICT * float(want.abs().max())
    once = f"{what} (is it rounded only once, by the store?)"
    expect(got.float(), want, rtol=1.02 * torch.finfo(dtype).eps / 2, atol=atol, what=once)


# -- kernels at work ----------------------------------------------------------------------------


def launched(student: Any) -> list[dict[str, Any]] | None:
    """The launches of the last call. None where nobody watched: then right values must do.

    That is so where the kernel sanitizer does not fit the Triton installed, and on a GPU.
    """
    launches = student.launches()
    assert launches is None or launches, "No kernel was launched: do the work in a kernel."
    return launches


def moved(launches: list[dict[str, Any]], kind: str, tensor: Tensor) -> float:
    """How often the kernels read or wrote all numbers of tensors as large as `tensor`.

    kind: "reads" or "writes". 2.0 for two tensors of that size, each once, or one of them twice.
    """
    size = tensor.numel() * tensor.element_size()
    total = sum(
        launch[kind].get(name, 0)
        for launch in launches
        for name, bytes_held in launch["sizes"].items()
        if bytes_held == size
    )
    return total / size


def rewritten(launches: list[dict[str, Any]]) -> bool:
    """Whether a launch wrote more bytes to some tensor than the tensor holds."""
    return any(
        count > launch["sizes"].get(name, 0)
        for launch in launches
        for name, count in launch["writes"].items()
    )


def off_axis(launches: list[dict[str, Any]]) -> list[int]:
    """The programs on the second and third axis of each launch."""
    return [n for launch in launches for n in launch["grid"][1:]]
