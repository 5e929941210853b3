"""What the emulated kernels have in common: blocks, rows, statistics and endings, right and wrong.

`h` is a float32 block of rows (..., D). Statistics give the centered rows, and mean and rstd with
a last axis of length 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.misconceptions import misconception as declare

PAGE = "triton-kernels.html#"
PROGRAMS = 128  # of the backward pass, at most


def declarer(exercise: str) -> Callable[..., Any]:
    """`say(name, anchor, message)` declares the decorated function for `exercise`."""

    def say(name: str, anchor: str, message: str) -> Callable[..., Any]:
        link = anchor if ".html" in anchor else PAGE + anchor
        return declare(exercise=exercise, name=name, message=message, link=link)

    return say


def block(d: int) -> int:
    """The power of two that a row of d numbers needs."""
    return 1 << (d - 1).bit_length()


# -- statistics -----------------------------------------------------------------------------------


def right(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = h.mean(-1, keepdim=True)
    centered = h - mean
    return centered, mean, torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)


def _from_variance(variance: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Statistics that are right but for the variance, `variance(centered, mean)`."""

    def statistics(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        centered, mean, _ = right(h, eps)
        return centered, mean, torch.rsqrt(variance(centered, mean) + eps)

    return statistics


def _squares(centered: Tensor) -> Tensor:
    return centered.square().sum(-1, keepdim=True)


def _with_lanes(centered: Tensor, mean: Tensor) -> Tensor:
    """The squares, and those of the lanes beyond D, each mean²."""
    d = centered.shape[-1]
    return _squares(centered) + (block(d) - d) * mean.square()


unbiased = _from_variance(lambda c, mean: _squares(c) / (c.shape[-1] - 1))
pad_lanes = _from_variance(lambda c, mean: _with_lanes(c, mean) / c.shape[-1])
pad_lanes_by_block = _from_variance(lambda c, mean: _with_lanes(c, mean) / block(c.shape[-1]))
variance_by_block = _from_variance(lambda c, mean: _squares(c) / block(c.shape[-1]))
one_pass = _from_variance(
    lambda c, mean: (c + mean).square().mean(-1, keepdim=True) - mean.square()
)


def all_by_block(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance divided by the lanes of the block; the lanes beyond D are masked."""
    lanes = block(h.shape[-1])
    mean = h.sum(-1, keepdim=True) / lanes
    return h - mean, mean, torch.rsqrt(_squares(h - mean) / lanes + eps)


def eps_outside(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centered, mean, _ = right(h, eps)
    return centered, mean, 1 / (centered.square().mean(-1, keepdim=True).sqrt() + eps)


def eps_forgotten(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return right(h, 0.0)


def eps_fixed(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return right(h, 1e-6)


def not_centered(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The right mean and rstd, but the mean is not subtracted."""
    _, mean, rstd = right(h, eps)
    return h, mean, rstd


def no_root(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centered, mean, _ = right(h, eps)
    return centered, mean, 1 / (centered.square().mean(-1, keepdim=True) + eps)


# -- endings --------------------------------------------------------------------------------------


def scaled(x_hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = x_hat if weight is None else x_hat * weight.float()
    return y if bias is None else y + bias.float()


def bias_needs_weight(x_hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return x_hat if weight is None else scaled(x_hat, weight, bias)


def bias_first(x_hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return scaled(scaled(x_hat, None, bias), weight, None)


def affine_forgotten(x_hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return x_hat


def affine_of_the_row(x_hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """weight_ptr + row instead of weight_ptr + cols: one number for each row."""
    rows = x_hat.reshape(-1, x_hat.shape[-1])
    one, other = (
        None if t is None else t.float()[: len(rows), None].expand(-1, 1) for t in (weight, bias)
    )
    return scaled(rows, one, other).reshape(x_hat.shape)


# -- rows -----------------------------------------------------------------------------------------


def first_row_everywhere(x: Tensor) -> Tensor:
    """Every program loads row 0."""
    rows = x.reshape(-1, x.shape[-1])
    return rows[:1].expand(len(rows), -1).reshape(x.shape)


FIXED = (1024, 2048, 4096)  # blocks of one size for every width


def cut(x: Tensor, lanes: int | None = None) -> Tensor:
    """The columns that a block holds which is too small: `lanes`, or the power of two up to D."""
    d = x.shape[-1]
    return x[..., : lanes or (block(d) if block(d) == d else block(d) // 2)]


def uncut(y: Tensor, d: int) -> Tensor:
    """y with the columns that no block has written: whatever was in memory, here NaN."""
    full = y.new_full((*y.shape[:-1], d), torch.nan)
    full[..., : y.shape[-1]] = y
    return full


def only_first_row(y: Tensor, axes: int) -> Tensor:
    """y whose rows (its first `axes` axes) are unwritten memory, here NaN, but for the first."""
    out = torch.full_like(y, torch.nan)
    if y.numel():
        out.reshape(-1, *y.shape[axes:])[0] = y.reshape(-1, *y.shape[axes:])[0]
    return out


def in_the_layout_of(x: Tensor, y: Tensor) -> Tensor:
    """y stored row after row into torch.empty_like(x), which may be transposed."""
    out = torch.empty_like(x)
    out.as_strided((x.numel(),), (1,)).copy_(y.reshape(-1))
    return out


def multiplied_out(x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    """x * rstd - mean * rstd: two large numbers, each rounded, and their difference."""
    return x * rstd - mean * rstd


def up(x: Tensor) -> Tensor:
    return x.float()


def forward(statistics: Callable[..., Any] = right, ending: Callable[..., Tensor] = scaled):
    """layer_norm_forward with these parts."""

    def layer_norm_forward(x, weight, bias, eps):
        centered, mean, rstd = statistics(up(x), eps)
        y = ending(centered * rstd, weight, bias).to(x.dtype)
        return y, mean.squeeze(-1), rstd.squeeze(-1)

    return layer_norm_forward
