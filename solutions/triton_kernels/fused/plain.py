"""The same norms in plain torch, for machines where no kernel can run. Correct, not fast."""

from __future__ import annotations

import torch
from torch import Tensor


def forward(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    eps: float, *, rms: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:  # fmt: skip
    """y, s, mean, rstd of rows (M, D), as the kernels give them: float32 inside, y in x's dtype."""
    value = x.float()
    s = None
    if residual is not None:
        value = value + residual.float()
        s = value.to(x.dtype)
    mean = None
    if not rms:
        mean = value.mean(1)
        value = value - mean[:, None]
    rstd = torch.rsqrt((value * value).mean(1) + eps)
    y = value * rstd[:, None]
    if weight is not None:
        y = y * weight.float()
    if bias is not None:
        y = y + bias.float()
    return y.to(x.dtype), s, mean, rstd


def backward(
    dy: Tensor, ds: Tensor | None, x: Tensor, weight: Tensor | None, mean: Tensor | None,
    rstd: Tensor, *, rms: bool, dweight_dtype: torch.dtype | None, dbias_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """dx, dweight, dbias of rows (M, D); the last two only where a dtype is given."""
    g = dy.float()
    xhat = x.float() if mean is None else x.float() - mean[:, None]
    xhat = xhat * rstd[:, None]
    dweight = None if dweight_dtype is None else (g * xhat).sum(0).to(dweight_dtype)
    dbias = None if dbias_dtype is None else g.sum(0).to(dbias_dtype)
    if weight is not None:
        g = g * weight.float()
    dx = g - xhat * (g * xhat).mean(1, keepdim=True)
    if not rms:
        dx = dx - g.mean(1, keepdim=True)
    dx = dx * rstd[:, None]
    if ds is not None:
        dx = dx + ds.float()
    return dx.to(x.dtype), dweight, dbias
