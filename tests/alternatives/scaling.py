"""Right solutions in other styles than the reference: each must get full marks.

`STYLES` maps the name of a style to the graded names it defines.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

HALF = (torch.float16, torch.bfloat16)


def _wide(x):
    return x.float() if x.dtype in HALF else x


# -- standardize -----------------------------------------------------------------------------------


def standardize_by_var_mean(x, dim, eps):
    h = _wide(x)
    var, mean = torch.var_mean(h, dim=dim, correction=0, keepdim=True)
    return ((h - mean) / torch.sqrt(var + eps)).to(x.dtype)


def standardize_at_the_end(x, dim, eps):
    """The axis is moved to the end first, and back in the last line."""
    h = x.double().movedim(dim, -1)
    h = h - h.mean(-1)[..., None]
    h = h * (h.pow(2).sum(-1, keepdim=True) / h.shape[-1] + eps).pow(-0.5)
    return h.movedim(-1, dim).type_as(x)


def standardize_by_std(x, dim, eps):
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    root = (h.std(dim, unbiased=False, keepdim=True).square() + eps).sqrt()
    return h.sub(h.mean(dim, True)).div(root).to(dtype=x.dtype)


def standardize_slice_by_slice(x, dim, eps):
    h = _wide(x)
    n = h.size(dim)
    mean = sum(h.unbind(dim)) / n
    var = sum((piece - mean) ** 2 for piece in h.unbind(dim)) / n
    pieces = [(piece - mean) / (var + eps) ** 0.5 for piece in h.unbind(dim)]
    return torch.stack(pieces, dim).to(x.dtype)


# -- min_max_scale ---------------------------------------------------------------------------------


def min_max_by_min_and_max(x, dim):
    h = _wide(x)
    low, high = h.min(dim, keepdim=True).values, h.max(dim, keepdim=True).values
    spread = high - low
    return ((h - low) / spread.masked_fill(spread == 0, 1)).to(x.dtype)


def min_max_by_aminmax(x, dim):
    low, high = torch.aminmax(x.double(), dim=dim, keepdim=True)
    y = (x.double() - low) / (high - low)
    return torch.nan_to_num(y, nan=0.0).to(x.dtype)


def min_max_in_two_steps(x, dim):
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    h = h - torch.amin(h, dim, keepdim=True)
    top = torch.amax(h, dim, keepdim=True)
    return torch.where(top == 0, torch.zeros_like(h), h / top).to(x.dtype)


def min_max_by_sorting(x, dim):
    h = _wide(x)
    ordered = h.sort(dim).values
    low = ordered.narrow(dim, 0, 1)
    spread = ordered.narrow(dim, -1, 1) - low
    spread = spread + (spread == 0).to(h.dtype)
    return h.sub(low).div(spread).to(x.dtype)


# -- whiten ----------------------------------------------------------------------------------------


def whiten_by_svd_of_the_data(x, eps):
    h = _wide(x)
    h = h - h.mean(0, keepdim=True)
    _, s, vh = torch.linalg.svd(h, full_matrices=False)
    scale = 1 / torch.sqrt(s**2 / h.shape[0] + eps)
    return (h @ (vh.T * scale) @ vh).to(x.dtype)


def whiten_by_torch_cov(x, eps):
    h = x.double()
    cov = torch.cov(h.T, correction=0).reshape(h.shape[1], h.shape[1])
    values, vectors = torch.linalg.eigh(cov)
    inverse_root = torch.einsum("ij,j,kj->ik", vectors, (values + eps).rsqrt(), vectors)
    return ((h - h.mean(0)) @ inverse_root).to(x.dtype)


def whiten_with_eps_on_the_diagonal(x, eps):
    h = _wide(x)
    centered = h - h.mean(0)
    cov = (centered.mT @ centered) / h.shape[0] + eps * torch.eye(h.shape[1], dtype=h.dtype)
    u, s, _ = torch.linalg.svd(cov)
    return ((centered @ u) / torch.sqrt(s) @ u.T).to(x.dtype)


def whiten_by_newton_schulz(x, eps):
    """The inverse root of the covariance without any eigenvector (coupled Newton iteration)."""
    h = x.double()
    centered = h - h.mean(0)
    eye = torch.eye(h.shape[1], dtype=h.dtype)
    cov = centered.T @ centered / len(h) + eps * eye
    norm = torch.linalg.matrix_norm(cov)
    y, z = cov / norm, eye
    for _ in range(60):
        t = (3 * eye - z @ y) / 2
        y, z = y @ t, t @ z
    return (centered @ z / norm.sqrt()).to(x.dtype)


# -- saturated_fraction ----------------------------------------------------------------------------


def saturated_by_exp(z, threshold):
    e = torch.exp(-z.double().abs())
    slope = e / (1 + e) ** 2
    return float((slope < threshold).sum()) / slope.numel()


def saturated_by_logsigmoid(z, threshold):
    z = _wide(z)
    log_slope = nn.functional.logsigmoid(z) + nn.functional.logsigmoid(-z)
    return (torch.exp(log_slope) < threshold).float().mean()


def saturated_by_cosh(z, threshold):
    slope = 0.25 / torch.cosh(z.double() / 2) ** 2
    return torch.count_nonzero(slope < threshold).item() / z.numel()


def saturated_by_symmetry(z, threshold):
    """1 - s of a negative number loses nothing."""
    s = torch.sigmoid(-_wide(z).abs())
    return torch.mean((s * (1 - s) < threshold).double())


# -- activation_stds -------------------------------------------------------------------------------


def stds_by_clamp(depth, width, gain, seed):
    g = torch.Generator()
    g.manual_seed(seed)
    h = torch.randn((128, width), generator=g, dtype=torch.double)
    out = torch.zeros(depth, dtype=torch.double)
    for layer in range(depth):
        w = torch.randn((width, width), generator=g, dtype=torch.double)
        h = (h @ w.t() * (gain / math.sqrt(width))).clamp(min=0)
        out[layer] = h.var(unbiased=False).sqrt()
    return out


def stds_by_linear(depth, width, gain, seed):
    g = torch.Generator(device="cpu").manual_seed(seed)
    options = {"generator": g, "dtype": torch.float64}
    h, stds = torch.randn(128, width, **options), []
    for _ in range(depth):
        h = nn.functional.relu(nn.functional.linear(h, torch.randn(width, width, **options)))
        h = h * gain / width**0.5
        stds.append(((h - h.mean()) ** 2).mean().sqrt().item())
    return torch.tensor(stds, dtype=torch.float64)


def stds_by_modules(depth, width, gain, seed):
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=g, dtype=torch.float64)
    layer = nn.Linear(width, width, bias=False, dtype=torch.float64)
    stds = []
    with torch.no_grad():
        for _ in range(depth):
            draw = torch.randn(width, width, generator=g, dtype=torch.float64)
            layer.weight.copy_(draw).mul_(gain * width**-0.5)
            h = torch.relu(layer(h))
            stds.append(torch.std(h, correction=0))
    return torch.stack(stds)


def stds_transposed(depth, width, gain, seed):
    """Samples in columns, so that the weight stands on the left."""
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=g, dtype=torch.float64).T
    stds = []
    for _ in range(depth):
        w = torch.randn(width, width, generator=g, dtype=torch.float64) / width**0.5
        h = torch.maximum(gain * (w @ h), torch.zeros((), dtype=torch.float64))
        stds.append(torch.linalg.vector_norm(h - h.mean()) / h.numel() ** 0.5)
    return torch.stack(stds)


def _style(standardize, min_max, whiten, saturated, stds) -> dict[str, Any]:
    return {
        "standardize": standardize,
        "min_max_scale": min_max,
        "whiten": whiten,
        "saturated_fraction": saturated,
        "activation_stds": stds,
    }


STYLES: dict[str, dict[str, Any]] = {
    "library_statistics": _style(
        standardize_by_var_mean, min_max_by_min_and_max, whiten_by_svd_of_the_data,
        saturated_by_exp, stds_by_clamp,
    ),
    "float64_inside": _style(
        standardize_at_the_end, min_max_by_aminmax, whiten_by_torch_cov,
        saturated_by_cosh, stds_by_linear,
    ),
    "promoted": _style(
        standardize_by_std, min_max_in_two_steps, whiten_with_eps_on_the_diagonal,
        saturated_by_logsigmoid, stds_by_modules,
    ),
    "by_other_means": _style(
        standardize_slice_by_slice, min_max_by_sorting, whiten_by_newton_schulz,
        saturated_by_symmetry, stds_transposed,
    ),
}  # fmt: skip
