"""What the chapter on precision compares: norms and variances computed in narrower ways than asked.

The page prints the numbers; `tests/claims/test_precision.py` asserts the effects. All of it is
seeded or exact, and takes less than a second each on one CPU core.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from solutions.precision import precision as reference

Variance = Callable[[Tensor], Tensor]


def exact_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Layer norm of x (..., D) in float64, whatever the dtype of x; no scale, no shift."""
    x = x.double()
    x = x - x.mean(dim=-1, keepdim=True)
    return x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def largest_error(y: Tensor, x: Tensor, eps: float = 1e-5) -> float:
    """The largest difference between y and the layer norm of x in float64; NaN counts as NaN."""
    return (y.double() - exact_norm(x, eps)).abs().max().item()


def norm_in_own_dtype(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Layer norm of x (..., D) by two passes, every step rounded to the dtype of x."""
    deviation = x - x.mean(dim=-1, keepdim=True)
    return deviation * torch.rsqrt((deviation * deviation).mean(dim=-1, keepdim=True) + eps)


def norm_with(variance: Variance, x: Tensor, eps: float = 1e-5) -> Tensor:
    """Layer norm of x (..., D) whose variance comes from `variance`, (..., D) -> (...)."""
    rstd = torch.rsqrt(variance(x)[..., None] + eps)
    return (x - x.mean(dim=-1, keepdim=True)) * rstd


def norm_with_rounded(x: Tensor, rounded: str, eps: float = 1e-5) -> Tensor:
    """Layer norm of a half x, in float32 but for what is kept in the half type meanwhile.

    rounded: "nothing", "rstd", or "mean and rstd".
    """
    dtype, wide = x.dtype, x.float()
    mean = wide.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt((wide - mean).square().mean(dim=-1, keepdim=True) + eps)
    if "rstd" in rounded:
        rstd = rstd.to(dtype).float()
    if "mean" in rounded:
        mean = mean.to(dtype).float()
    return ((wide - mean) * rstd).to(dtype)


def by_pieces(x: Tensor, pieces: int) -> Tensor:
    """The variance of x (..., D), from moments of pieces that are combined by Chan's formula."""
    parts = []
    for part in x.chunk(pieces, dim=-1):
        count = part.shape[-1]
        parts.append((count, part.mean(dim=-1), count * reference.two_pass_var(part)))
    count, _, m2 = reduce(reference.combine_moments, parts)
    return m2 / count


METHODS: dict[str, Variance] = {
    "one pass": reference.one_pass_var,
    "Welford": lambda x: reference.welford(x)[1],
    "Chan, 32 pieces": lambda x: by_pieces(x, 32),
    "two passes": reference.two_pass_var,
}


def variance_errors(
    ratios: list[float], rows: int = 60, width: int = 512
) -> dict[str, list[float]]:
    """For each method, the largest relative error of a float32 variance at each mean / std."""
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    for ratio in ratios:
        generator = torch.Generator().manual_seed(0)
        x = ratio + torch.randn(rows, width, generator=generator, dtype=torch.float64)
        x = x.float()
        right = x.double().var(dim=-1, correction=0)
        for name, method in METHODS.items():
            errors[name].append(((method(x).double() - right) / right).abs().max().item())
    return errors


# The inputs of bug reports on layer norms: who reported what is told on the page.
REPORTS: dict[str, Tensor] = {
    "pytorch 2470": torch.tensor([2281.5, 2281.25]),
    "mlx 2238": torch.tensor(
        [1449.5706, 1448.8741, 1450.6504, 1449.2633, 1449.7764, 1449.3171, 1449.3297, 1449.0779,
         1449.2181, 1449.4330, 1449.1605, 1449.4133, 1449.7933, 1450.0667, 1449.7762, 1450.3650]
    ),
    "onnxruntime 28463": torch.tensor([40000.0, 40001.0, 40002.0, 40003.0]),
    "pytorch 40302": 100
    + 0.01 * torch.randn(32768, generator=torch.Generator().manual_seed(1)),
}  # fmt: skip
