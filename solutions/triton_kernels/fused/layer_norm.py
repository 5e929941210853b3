"""LayerNorm: y = (x - mean) * rstd * weight + bias, each row by its own mean and variance.

Forward reads x once and writes y once; backward reads x and grad_out once and writes dx once. The
design follows the row kernels that are in use (Triton's tutorial, Liger-Kernel, flash-attention,
QuACK), with what their bug reports taught; the chapter "Fused kernels" tells which.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from solutions.triton_kernels.fused import norm


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Layer norm over the last axis, with gradients for x, weight and bias.

    Args:
        x: (..., D), float32, float16 or bfloat16, any strides. No rows at all is fine.
        weight: (D,), one of these dtypes, not necessarily x's; None for ones.
        bias: as weight; None for zeros.
        eps: added to the biased variance, inside the root.

    Returns:
        (..., D) in x's dtype, contiguous. All arithmetic is float32.

    Raises:
        TypeError, ValueError: see `checks.check_forward`.
        RuntimeError: a gradient of a gradient is asked for.
    """
    return _LayerNorm.apply(x, weight, bias, eps)


def layer_norm_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm` without autograd, with what a backward pass needs.

    Returns:
        y (..., D) in x's dtype; mean and rstd, float32 of shape x.shape[:-1].
    """
    y, _, mean, rstd = norm.forward(x, None, weight, bias, eps, rms=False)
    assert mean is not None
    return y, mean, rstd


def layer_norm_backward(
    grad_out: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    *,
    bias_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradients of `layer_norm_forward` with respect to x, weight and bias.

    Args:
        grad_out: (..., D), any strides; it is only read.
        x, weight: as they went in.
        mean, rstd: as they came out.
        bias_dtype: dtype of dbias; None for weight's, or x's if there is no weight.

    Returns:
        dx (..., D) in x's dtype; dweight (D,) in weight's dtype, None without a weight; dbias (D,).
        dweight and dbias are summed in float32, in the same order every time, and rounded once.

    Raises:
        TypeError, ValueError: see `checks.check_backward`.
    """
    if bias_dtype is None:
        bias_dtype = x.dtype if weight is None else weight.dtype
    dx, dweight, dbias = norm.backward(
        grad_out, None, x, weight, mean, rstd, rms=False,
        dweight_dtype=None if weight is None else weight.dtype, dbias_dtype=bias_dtype,
    )  # fmt: skip
    assert dbias is not None
    return dx, dweight, dbias


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Tensor:
        y, mean, rstd = layer_norm_forward(x, weight, bias, eps)
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.bias_dtype = None if bias is None else bias.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, rstd = ctx.saved_tensors
        _, weight_wanted, bias_wanted, _ = ctx.needs_input_grad
        dx, dweight, dbias = norm.backward(
            grad_out, None, x, weight, mean, rstd, rms=False,
            dweight_dtype=weight.dtype if weight_wanted else None,
            dbias_dtype=ctx.bias_dtype if bias_wanted else None,
        )  # fmt: skip
        return dx, dweight, dbias, None
