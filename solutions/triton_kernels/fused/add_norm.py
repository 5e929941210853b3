"""The residual add in the same pass: s = x + residual, and y = norm(s).

Apart, the add writes s and the norm reads it back; together x and residual are read once, y and s
are written once. s, rounded to x's dtype, is the residual stream that goes on. The statistics and y
are of the float32 sum before it is rounded, as flash-attention and QuACK have it (Liger-Kernel
takes the rounded one); in float32 the two are the same. Backward has only the rounded s: where a
row spreads no wider than that rounding (D = 1, or a mean a thousand times the spread in float16),
its gradients are as rough as s.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from solutions.triton_kernels.fused import norm


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """layer_norm(x + residual) and x + residual, with gradients for all four tensors.

    Args:
        x: (..., D), float32, float16 or bfloat16, any strides. No rows at all is fine.
        residual: shape, dtype and device of x, any strides.
        weight, bias, eps: as in `layer_norm`.

    Returns:
        y and s, (..., D) in x's dtype, contiguous. Gradients may come into both.

    Raises:
        TypeError, ValueError: see `checks.check_forward`.
        RuntimeError: a gradient of a gradient is asked for.
    """
    return _AddNorm.apply(x, residual, weight, bias, eps, False)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """rms_norm(x + residual) and x + residual, with gradients for all three tensors.

    Arguments, results and errors are those of `add_layer_norm`, without a bias.
    """
    return _AddNorm.apply(x, residual, weight, None, eps, True)


def add_layer_norm_forward(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`add_layer_norm` without autograd: y, s, and mean, rstd, float32 of shape x.shape[:-1]."""
    y, s, mean, rstd = norm.forward(x, residual, weight, bias, eps, rms=False)
    assert s is not None and mean is not None
    return y, s, mean, rstd


def add_rms_norm_forward(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """`add_rms_norm` without autograd: y, s, and rstd, float32 of shape x.shape[:-1]."""
    y, s, _, rstd = norm.forward(x, residual, weight, None, eps, rms=True)
    assert s is not None
    return y, s, rstd


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None,
        eps: float, rms: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        y, s, mean, rstd = norm.forward(x, residual, weight, bias, eps, rms=rms)
        assert s is not None
        ctx.save_for_backward(s, weight, mean, rstd)
        ctx.bias_dtype = None if bias is None else bias.dtype
        ctx.rms = rms
        ctx.set_materialize_grads(False)  # None for an output that nobody used, and not zeros
        return y, s

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_y: Tensor | None, grad_s: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        s, weight, mean, rstd = ctx.saved_tensors
        weight_wanted, bias_wanted = ctx.needs_input_grad[2:4]
        if grad_y is None:  # y was not used: the sum hands its gradient on
            return grad_s, grad_s, None, None, None, None
        # s = x + residual, so both get the gradient of s: what came into s, and what the norm adds.
        dx, dweight, dbias = norm.backward(
            grad_y, grad_s, s, weight, mean, rstd, rms=ctx.rms,
            dweight_dtype=weight.dtype if weight_wanted else None,
            dbias_dtype=ctx.bias_dtype if bias_wanted else None,
        )  # fmt: skip
        return dx, dx, dweight, dbias, None, None
