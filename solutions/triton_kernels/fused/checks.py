"""What the fused norms accept. Errors name the argument and what was expected of it."""

from __future__ import annotations

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check_forward(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None
) -> None:
    """Raises for arguments that no kernel is made for.

    Raises:
        TypeError: something is not a tensor, or not float32, float16 or bfloat16; residual has
            another dtype than x.
        ValueError: x has no axis, an empty last axis, or 2**31 rows or more; residual has another
            shape than x; weight or bias is not of shape (D,); tensors are on different devices.
    """
    _check_tensor(x, "x", x)
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"x must be of shape (..., D) with D of at least 1, not {_shape(x)}")
    if x.numel() // x.shape[-1] >= 2**31:
        raise ValueError(f"x has {x.numel() // x.shape[-1]} rows; 2**31 - 1 are the most")
    if residual is not None:
        _check_like(residual, "residual", x)
        if residual.dtype != x.dtype:
            raise TypeError(f"residual must have x's dtype {x.dtype}, not {residual.dtype}")
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            _check_vector(vector, name, x)


def check_backward(
    dy: Tensor, ds: Tensor | None, x: Tensor, weight: Tensor | None,
    mean: Tensor | None, rstd: Tensor,
) -> None:  # fmt: skip
    """Raises as `check_forward`, and if statistics are not float32 of shape x.shape[:-1]."""
    check_forward(x, None, weight, None)
    _check_like(dy, "grad_out", x)
    if ds is not None:
        _check_like(ds, "grad_s", x)
    for name, statistic in (("mean", mean), ("rstd", rstd)):
        if statistic is None and name == "mean":
            continue
        _check_tensor(statistic, name, x)
        if statistic.dtype != torch.float32:
            raise TypeError(f"{name} must be float32, not {statistic.dtype}")
        if statistic.shape != x.shape[:-1]:
            raise ValueError(
                f"{name} must be of shape {tuple(x.shape[:-1])}, not {_shape(statistic)}"
            )


def _check_like(tensor: Tensor, name: str, x: Tensor) -> None:
    _check_tensor(tensor, name, x)
    if tensor.shape != x.shape:
        raise ValueError(f"{name} must have x's shape {_shape(x)}, not {_shape(tensor)}")


def _check_vector(tensor: Tensor, name: str, x: Tensor) -> None:
    _check_tensor(tensor, name, x)
    if tensor.shape != x.shape[-1:]:
        raise ValueError(f"{name} must be of shape ({x.shape[-1]},), not {_shape(tensor)}")


def _check_tensor(tensor: Tensor, name: str, x: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, not {type(tensor).__name__}")
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{name} must be float32, float16 or bfloat16, not {tensor.dtype}")
    if tensor.device != x.device:
        raise ValueError(f"{name} is on {tensor.device}, but x is on {x.device}")


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)
