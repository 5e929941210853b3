"""Kernels in steps: rows scaled to unit length, y = weight * x / max(|x|, eps).

The ladder of the chapter on fused kernels. Unit length stands in for LayerNorm and RMSNorm, which
are the exercises there: the same structure, another formula. Each step changes one thing and says
why. All steps run on a CPU when TRITON_INTERPRET=1 is set before triton is imported.

Shapes: x (M, D), weight (D,), y as x, r (M,) the reciprocal of max(|x|, eps) in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# fmt: off
# Laid out by hand, at most 84 columns: the chapter shows these lines.

# -- forward ---------------------------------------------------------------------------------------


# Step 1. One program for each row. Row number `program_id(0)` starts `row * D` elements after the
# first one. `tl.arange` gives all column numbers at once: a block of lanes, not a loop.
# It works for D = 1, 2, 4, 8, ... only: a block has a power of two of lanes.
@triton.jit
def step_1(x_ptr, y_ptr, D: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, D)
    x = tl.load(x_ptr + row * D + cols)
    norm = tl.sqrt(tl.sum(x * x, axis=0))
    tl.store(y_ptr + row * D + cols, x / norm)


# Step 2. Any D. The block is the next power of two; lanes past the row are switched off by a mask,
# in the load and in the store. `other` says what a switched-off lane holds: 0 adds nothing.
@triton.jit
def step_2(x_ptr, y_ptr, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
    norm = tl.maximum(tl.sqrt(tl.sum(x * x, axis=0)), eps)
    tl.store(y_ptr + row * D + cols, x / norm, mask=mask)


# Step 3. The real forward pass. Four changes, each with its section in the chapter:
# the row number is int64 (2^31 elements), x has strides (a view needs no copy), x is raised to
# float32 before anything is computed, and the reciprocal is saved for the backward pass.
@triton.jit
def forward(x_ptr, w_ptr, y_ptr, r_ptr, x_row, x_col, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    at = row * x_row + cols * x_col
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    r = 1.0 / tl.maximum(tl.sqrt(tl.sum(x * x, axis=0)), eps)
    tl.store(r_ptr + row, r)
    y = x * r
    if w_ptr is not None:  # decided when the kernel is compiled, not while it runs
        y *= tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * D + cols, y, mask=mask)  # rounds to the dtype of y


def unit_rows(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """y in the dtype of x, contiguous, and r in float32."""
    rows, width = x.shape
    y = torch.empty(rows, width, dtype=x.dtype, device=x.device)
    r = torch.empty(rows, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(width)
    forward[(rows,)](x, weight, y, r, *x.stride(), width, eps, BLOCK=block)
    return y, r


# -- backward --------------------------------------------------------------------------------------


# What all versions of the backward pass share: dx of one row. The unit vector is x * r. Lengthening
# x does not change it, so the part of the gradient along it is taken away (unless eps decided r).
@triton.jit
def row_gradient(grad, x, weight, r, eps):
    unit = x * r
    g = grad * weight
    along = tl.where(r < 1.0 / eps, tl.sum(unit * g, axis=0), 0.0)
    return r * (g - unit * along), grad * unit  # dx, and this row's part of dw


# Step 4. One row for each program again. dx is easy. But every program adds to the same dw:
# atomically here, element by element, in whatever order the programs come.
@triton.jit
def backward_atomic(
    grad_ptr, x_ptr, w_ptr, r_ptr, dx_ptr, dw_ptr, D, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    at = row * D + cols
    grad = tl.load(grad_ptr + at, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dx, part = row_gradient(grad, x, w, tl.load(r_ptr + row), eps)
    tl.store(dx_ptr + at, dx, mask=mask)
    tl.atomic_add(dw_ptr + cols, part, mask=mask)


# Step 5. A fixed, small number of programs. Each takes every so-many-th row, keeps its share of
# dw in registers, and writes it once, to a row of its own. No two programs write one place.
# A program without any row still writes its zeros: the second stage reads them.
@triton.jit
def backward_partial(
    grad_ptr, x_ptr, w_ptr, r_ptr, dx_ptr, partial_ptr,
    grad_row, grad_col, x_row, x_col, M, D, eps, BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for i in range(program, M, tl.num_programs(0)):
        row = tl.cast(i, tl.int64)
        at = row * grad_row + cols * grad_col
        grad = tl.load(grad_ptr + at, mask=mask, other=0.0).to(tl.float32)
        at = row * x_row + cols * x_col
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dx, part = row_gradient(grad, x, w, tl.load(r_ptr + row), eps)
        tl.store(dx_ptr + row * D + cols, dx, mask=mask)
        total += part
    tl.store(partial_ptr + program * D + cols, total, mask=mask)


def unit_rows_backward(
    grad: Tensor, x: Tensor, weight: Tensor, r: Tensor, eps: float, programs: int = 4
) -> tuple[Tensor, Tensor]:
    """dx in the dtype of x, and dw in that of weight: both stages."""
    rows, width = x.shape
    dx = torch.empty(rows, width, dtype=x.dtype, device=x.device)
    partial = torch.empty(programs, width, dtype=torch.float32, device=x.device)
    backward_partial[(programs,)](
        grad, x, weight, r, dx, partial, *grad.stride(), *x.stride(), rows, width, eps,
        BLOCK=triton.next_power_of_2(width),
    )
    return dx, partial.sum(0).to(weight.dtype)  # the second stage


class UnitRows(torch.autograd.Function):
    """Both passes behind one call, `UnitRows.apply(x, weight, eps)`, for autograd."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        y, r = unit_rows(x, weight, eps)
        ctx.save_for_backward(x, weight, r)
        ctx.eps = eps
        return y

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return *unit_rows_backward(grad, *ctx.saved_tensors, ctx.eps), None


# -- two variations --------------------------------------------------------------------------------


# Step 6. The residual addition in the same pass: s = x + residual is needed anyway, by the next
# block. ROUNDED decides which sum the length sees: the one that s stores, or the one in float32.
@triton.jit
def add_forward(
    x_ptr, residual_ptr, s_ptr, y_ptr, D, eps, ROUNDED: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    at = row * D + cols
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    s = x + tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(s_ptr + at, s, mask=mask)
    if ROUNDED:
        s = s.to(s_ptr.dtype.element_ty).to(tl.float32)
    norm = tl.maximum(tl.sqrt(tl.sum(s * s, axis=0)), eps)
    tl.store(y_ptr + at, s / norm, mask=mask)


# Step 7. Short rows. A row of 64 numbers does not fill even one group of 32 threads with 16-byte
# loads. So one program takes ROWS of them: a tile with two axes, a mask with two conditions.
@triton.jit
def forward_tile(x_ptr, y_ptr, M, D, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    at = rows[:, None] * D + cols[None, :]  # (ROWS, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < D)
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    norm = tl.maximum(tl.sqrt(tl.sum(x * x, axis=1)), eps)  # (ROWS,)
    tl.store(y_ptr + at, x / norm[:, None], mask=mask)


# Not a step: what happens when a row does not fit into one block. Two sweeps over the row, so x is
# read twice.
@triton.jit
def forward_swept(x_ptr, y_ptr, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, D, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * D + cols, mask=cols < D, other=0.0)
        squares += x.to(tl.float32) * x.to(tl.float32)
    norm = tl.maximum(tl.sqrt(tl.sum(squares, axis=0)), eps)
    for start in range(0, D, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * D + cols, mask=cols < D, other=0.0)
        tl.store(y_ptr + row * D + cols, x.to(tl.float32) / norm, mask=cols < D)
