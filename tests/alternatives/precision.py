"""Right solutions in other styles than the reference: each must get full marks.

`STYLES` maps the name of a style to the graded names it defines.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import torch

HALF = (torch.float16, torch.bfloat16)


def _wide(x):
    """float32 for half types, as the exercises ask."""
    return x.float() if x.dtype in HALF else x


# -- one_pass_var ----------------------------------------------------------------------------------


def one_pass_with_sums(x):
    d = x.shape[-1]
    return (x * x).sum(-1) / d - (x.sum(-1) / d) ** 2


def one_pass_by_einsum(x):
    d = x.size(-1)
    return torch.einsum("...d,...d->...", x, x) / d - torch.einsum("...d->...", x).div(d).pow(2)


def one_pass_by_matmul(x):
    squares = (x.unsqueeze(-2) @ x.unsqueeze(-1))[..., 0, 0] / x.shape[-1]
    return squares - torch.mean(x, -1) ** 2


def one_pass_fused(x):
    """The difference is rounded only once; what is subtracted has been rounded before."""
    mean = x.mean(dim=-1, keepdim=True)
    return torch.addcmul((x**2).mean(dim=-1, keepdim=True), mean, mean, value=-1).squeeze(-1)


def one_pass_by_loop(x):
    total, squares = torch.zeros_like(x[..., 0]), torch.zeros_like(x[..., 0])
    for column in x.unbind(-1):
        total, squares = total + column, squares + column * column
    return squares / x.shape[-1] - (total / x.shape[-1]) ** 2


# -- two_pass_var ----------------------------------------------------------------------------------


def two_pass_with_sums(x):
    h = _wide(x)
    d = h.shape[-1]
    return ((h - h.sum(-1, keepdim=True) / d) ** 2).sum(-1) / d


def two_pass_by_einsum(x):
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    centered = h - torch.einsum("...d->...", h)[..., None] / h.shape[-1]
    return torch.einsum("...d,...d->...", centered, centered) / h.shape[-1]


def two_pass_in_float64(x):
    h = x.double()
    return (h - h.mean(-1, True)).pow(2).mean(-1).to(_wide(x[..., :0]).dtype)


def two_pass_by_dtype(x):
    """Widened by the operations themselves."""
    wide = torch.promote_types(x.dtype, torch.float32)
    centered = x - x.mean(-1, keepdim=True, dtype=wide)
    return centered.mul(centered).mean(dim=-1)


def two_pass_corrected(x):
    """Björck's correction: what the rounded mean leaves is taken out again."""
    h = _wide(x)
    centered = h - h.mean(-1, keepdim=True)
    return centered.square().mean(-1) - centered.mean(-1).square()


def shifted_by_the_first(x):
    """One pass over numbers from which one of them has been subtracted."""
    h = _wide(x)
    h = h - h[..., :1]
    return (h.square().mean(-1) - h.mean(-1).square()).clamp(min=0)


# -- welford ---------------------------------------------------------------------------------------


def welford_in_place(x):
    h = _wide(x).detach()
    mean, m2 = h[..., 0].clone(), torch.zeros_like(h[..., 0])
    for k in range(2, h.shape[-1] + 1):
        delta = h[..., k - 1] - mean
        mean += delta / k
        m2 += delta * (h[..., k - 1] - mean)
    return mean, m2.div_(h.shape[-1])


def welford_with_the_factor(x):
    """As Chan's formula with one number: delta² (k - 1) / k."""
    mean = m2 = torch.zeros((), dtype=_wide(x[..., :0]).dtype)
    for k, column in enumerate(_wide(x).unbind(-1), start=1):
        delta = column - mean
        mean, m2 = mean + delta / k, m2 + delta * delta * ((k - 1) / k)
    return mean, m2 / k


def welford_of_the_variance(x):
    """The variance itself is kept, not the sum."""
    h = x.to(torch.promote_types(x.dtype, torch.float32)).movedim(-1, 0)
    mean, var = h[0], h[0] * 0
    for k in range(1, len(h)):
        before, mean = mean, torch.lerp(mean, h[k], 1 / (k + 1))
        var = var + ((h[k] - before) * (h[k] - mean) - var) / (k + 1)
    return mean, var


def welford_in_float64(x):
    dtype = _wide(x[..., :0]).dtype
    h = x.double()
    count, mean, m2 = 0, torch.zeros_like(h[..., 0]), torch.zeros_like(h[..., 0])
    while count < h.shape[-1]:
        value = h[..., count]
        count += 1
        old = value - mean
        mean = mean + old / count
        m2 = torch.addcmul(m2, old, value - mean)
    return [mean.to(dtype), (m2 / count).to(dtype)]


def welford_by_chan(x):
    parts = [(1, column, torch.zeros_like(column)) for column in _wide(x).unbind(-1)]
    count, mean, m2 = reduce(combine_by_weights, parts)
    return mean, m2 / count


# -- combine_moments -------------------------------------------------------------------------------


def combine_by_weights(a, b):
    """The mean as a weighted mean of the two."""
    if not (a[0] and b[0]):
        return a if a[0] else b
    n = a[0] + b[0]
    mean = (a[0] / n) * a[1] + (b[0] / n) * b[1]
    return n, mean, a[2] + b[2] + (a[1] - b[1]) ** 2 * (a[0] / n) * b[0]


def combine_around_the_mean(a, b):
    """Each M2 moved to the new mean."""
    (n, mean_a, m2_a), (m, mean_b, m2_b) = a, b
    if n == 0 or m == 0:
        return [m, mean_b, m2_b] if n == 0 else [n, mean_a, m2_a]
    mean = mean_b + (mean_a - mean_b) * n / (n + m)
    return [n + m, mean, m2_a + n * (mean_a - mean) ** 2 + m2_b + m * (mean_b - mean) ** 2]


def combine_with_max(a, b):
    """No branch: an empty piece is replaced by zeros, and the count is at least 1 below."""
    (n, mean_a, m2_a), (m, mean_b, m2_b) = a, b
    mean_a, m2_a = (t if n else torch.zeros_like(t) for t in (mean_a, m2_a))
    mean_b, m2_b = (t if m else torch.zeros_like(t) for t in (mean_b, m2_b))
    total = max(n + m, 1)
    delta = mean_b - mean_a
    mean = torch.where(
        torch.tensor(n >= m), mean_a + delta * (m / total), mean_b - delta * (n / total)
    )
    return n + m, mean, m2_a + m2_b + delta.mul(delta).mul(n * m / total)


def combine_in_float64(a, b):
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    dtype = a[1].dtype
    n = a[0] + b[0]
    total = a[0] * a[1].double() + b[0] * b[1].double()
    delta = a[1].double() - b[1].double()
    m2 = a[2].double() + b[2].double() + delta**2 / (1 / a[0] + 1 / b[0])
    return n, (total / n).to(dtype), m2.to(dtype)


# -- layer_norm_low_precision ----------------------------------------------------------------------


def low_by_division(x, weight, bias, eps):
    h = x.to(torch.float32)
    h = h - h.mean(-1, keepdim=True)
    h = h / ((h * h).mean(-1, keepdim=True) + eps).sqrt()
    h = h if weight is None else h * weight.float()
    h = h if bias is None else h + bias.float()
    return h.type_as(x)


def low_in_float64(x, weight, bias, eps):
    h = x.double()
    d = h.shape[-1]
    h = h - h.sum(-1, keepdim=True) / d
    y = h / torch.sqrt(torch.einsum("...d,...d->...", h, h)[..., None] / d + eps)
    return (y * (1 if weight is None else weight) + (0 if bias is None else bias)).to(x.dtype)


def low_by_addcmul(x, weight, bias, eps):
    d = x.shape[-1]
    weight = torch.ones(d) if weight is None else weight.float()
    bias = torch.zeros(d) if bias is None else bias.float()
    h = x.float()
    centered = h - h.mean(dim=-1, keepdim=True)
    length = torch.linalg.vector_norm(centered, dim=-1, keepdim=True)
    return torch.addcmul(bias, centered * (length**2 / d + eps) ** -0.5, weight).to(x.dtype)


def low_by_casts(x, weight, bias, eps):
    """Every argument cast by itself, where no autocast can undo it."""
    with torch.autocast("cpu", enabled=False):
        h = x.to(torch.float32)
        h = h - h.mean(-1, keepdim=True)
        h = h / torch.sqrt(h.pow(2).mean(-1, keepdim=True) + eps)
        if weight is not None:
            h = h * weight.to(dtype=torch.float32)
        if bias is not None:
            h = h + bias.type(torch.float32)
        return h.to(x)


def low_by_rows(x, weight, bias, eps):
    out = []
    for row in x.reshape(-1, x.shape[-1]).float():
        row = row - row.mean()
        row = row * (two_pass_with_sums(row) + eps).rsqrt()
        row = row if weight is None else weight * row
        out.append(row if bias is None else bias + row)
    return torch.stack(out).reshape(x.shape).to(x.dtype)


# -- prescaled_layer_norm --------------------------------------------------------------------------


def prescaled_by_powers_of_two(x, eps):
    """s is a power of two, so that dividing rounds nothing."""
    exponent = torch.frexp(x.detach().abs().amax(-1, keepdim=True)).exponent
    s = (2.0 ** (exponent.clamp(min=1).double() - 1)).to(x.dtype)
    h = x / s
    h = h - h.mean(-1, keepdim=True)
    small = torch.full_like(s, eps) / s / s
    return h / torch.sqrt(h.square().mean(-1, keepdim=True) + small + torch.finfo(x.dtype).tiny)


def prescaled_with_the_root_of_eps(x, eps):
    """eps is one more number among the deviations, and is scaled like them."""
    largest = x.abs().max(dim=-1, keepdim=True).values
    s = torch.maximum(largest, torch.full_like(largest, math.sqrt(eps)))
    h = x / s
    h = h - h.mean(-1, keepdim=True)
    root = (math.sqrt(eps) / s).clamp(min=1e-18)
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + root**2)


def prescaled_twice(x, eps):
    """Scaled by D before the mean, and by the largest deviation after it."""
    first = x.detach().abs().amax(-1, keepdim=True).clamp(min=1.0)
    h = x / first
    h = h - h.mean(-1, keepdim=True)
    second = h.detach().abs().amax(-1, keepdim=True).clamp(min=1e-10)
    h = h / second
    small = eps / first / second / first / second
    return h / (h.square().mean(-1, keepdim=True) + small.clamp(min=1e-36)).sqrt()


def prescaled_only_large(x, eps):
    """Rows that are not large keep s = 1; where the deviations are 0 the result is, too."""
    s = x.abs().amax(-1, keepdim=True)
    s = torch.where(s > 1e6, s, torch.ones_like(s))
    h = x / s
    h = h - h.mean(-1, keepdim=True)
    var = h.square().mean(-1, keepdim=True) + eps / s**2
    return h * torch.where(var > 0, var, torch.ones_like(var)).rsqrt()


def _style(one, two, online, combine, low, prescaled) -> dict[str, Any]:
    return {
        "one_pass_var": one,
        "two_pass_var": two,
        "welford": online,
        "combine_moments": combine,
        "layer_norm_low_precision": low,
        "prescaled_layer_norm": prescaled,
    }


STYLES: dict[str, dict[str, Any]] = {
    "sums": _style(
        one_pass_with_sums, two_pass_with_sums, welford_in_place, combine_by_weights,
        low_by_division, prescaled_by_powers_of_two,
    ),
    "einsum": _style(
        one_pass_by_einsum, two_pass_by_einsum, welford_with_the_factor, combine_around_the_mean,
        low_by_addcmul, prescaled_with_the_root_of_eps,
    ),
    "float64_inside": _style(
        one_pass_by_matmul, two_pass_in_float64, welford_in_float64, combine_in_float64,
        low_in_float64, prescaled_twice,
    ),
    "casts": _style(
        one_pass_with_sums, two_pass_by_dtype, welford_in_place, combine_by_weights,
        low_by_casts, prescaled_twice,
    ),
    "corrected": _style(
        one_pass_fused, two_pass_corrected, welford_of_the_variance, combine_with_max,
        low_by_division, prescaled_only_large,
    ),
    "loops": _style(
        one_pass_by_loop, shifted_by_the_first, welford_by_chan, combine_around_the_mean,
        low_by_rows, prescaled_twice,
    ),
}  # fmt: skip

SLOW_STYLES = {"loops"}  # loops over elements in Python
