"""RMSNorm: y = x * rstd * weight, rstd = 1 / root of (mean square of the row + eps).

LayerNorm without the mean, and so without the bias: one sum less a row, one gradient less.
The weight multiplies before the result is rounded to x's dtype (some models round first, some use
1 + weight; these are other functions in float16 and bfloat16).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from solutions.triton_kernels.fused import norm


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """RMS norm over the last axis, with gradients for x and weight.

    Args:
        x: (..., D), float32, float16 or bfloat16, any strides. No rows at all is fine.
        weight: (D,), one of these dtypes, not necessarily x's; None for ones.
        eps: added to the mean square, inside the root.

    Returns:
        (..., D) in x's dtype, contiguous. All arithmetic is float32.

    Raises:
        TypeError, ValueError: see `checks.check_forward`.
        RuntimeError: a gradient of a gradient is asked for.
    """
    return _RMSNorm.apply(x, weight, eps)


def rms_norm_forward(x: Tensor, weight: Tensor | None, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """`rms_norm` without autograd: y (..., D) in x's dtype, and rstd, float32 of x.shape[:-1]."""
    y, _, _, rstd = norm.forward(x, None, weight, None, eps, rms=True)
    return y, rstd


def rms_norm_backward(
    grad_out: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Gradients of `rms_norm_forward` with respect to x and weight.

    Args:
        grad_out: (..., D), any strides; it is only read.
        x, weight: as they went in.
        rstd: as it came out.

    Returns:
        dx (..., D) in x's dtype; dweight (D,) in weight's dtype, None without a weight, summed in
        float32, in the same order every time, and rounded once.

    Raises:
        TypeError, ValueError: see `checks.check_backward`.
    """
    dx, dweight, _ = norm.backward(
        grad_out, None, x, weight, None, rstd, rms=True,
        dweight_dtype=None if weight is None else weight.dtype, dbias_dtype=None,
    )  # fmt: skip
    return dx, dweight


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        y, rstd = rms_norm_forward(x, weight, eps)
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, rstd = ctx.saved_tensors
        dx, dweight, _ = norm.backward(
            grad_out, None, x, weight, None, rstd, rms=True,
            dweight_dtype=weight.dtype if ctx.needs_input_grad[1] else None, dbias_dtype=None,
        )  # fmt: skip
        return dx, dweight, None
