"""Kernels with one mistake each, for the chapter on fused kernels. Never run them without a net.

A stray address is a stray address on a CPU as well: run these under the course's sanitizer only.
Each is a step of `unit_rows` with one thing changed, and the comment says which.
"""

from __future__ import annotations

import triton
import triton.language as tl


# Step 1 with a block that is wider than the row, and no mask.
@triton.jit
def no_mask(x_ptr, y_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * D + cols)
    norm = tl.sqrt(tl.sum(x * x, axis=0))
    tl.store(y_ptr + row * D + cols, x / norm)


# Step 2 with a mask in the load and none in the store.
@triton.jit
def no_mask_in_the_store(x_ptr, y_ptr, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * D + cols, mask=cols < D, other=0.0)
    norm = tl.maximum(tl.sqrt(tl.sum(x * x, axis=0)), eps)
    tl.store(y_ptr + row * D + cols, x / norm)


# Step 2 without `other`: nobody says what a switched-off lane holds.
@triton.jit
def no_other(x_ptr, y_ptr, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * D + cols, mask=mask)
    norm = tl.maximum(tl.sqrt(tl.sum(x * x, axis=0)), eps)
    tl.store(y_ptr + row * D + cols, x / norm, mask=mask)


# Step 3 with the row number left in int32.
@triton.jit
def int32_offsets(x_ptr, y_ptr, x_row, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * x_row + cols, mask=mask, other=0.0).to(tl.float32)
    norm = tl.maximum(tl.sqrt(tl.sum(x * x, axis=0)), eps)
    tl.store(y_ptr + row * D + cols, x / norm, mask=mask)


# Step 3 without the cast to float32.
@triton.jit
def no_upcast(x_ptr, y_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
    norm = tl.sqrt(tl.sum(x * x, axis=0).to(tl.float32))
    tl.store(y_ptr + row * D + cols, x / norm, mask=mask)


# Step 4 with a load, an addition and a store in place of the atomic addition.
@triton.jit
def racing(x_ptr, grad_ptr, r_ptr, dw_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
    grad = tl.load(grad_ptr + row * D + cols, mask=mask, other=0.0)
    part = grad * x * tl.load(r_ptr + row)
    before = tl.load(dw_ptr + cols, mask=mask, other=0.0)
    tl.store(dw_ptr + cols, before + part, mask=mask)


# Step 5 with an early return: a program without rows leaves its partial row as it was.
@triton.jit
def leaves_early(x_ptr, grad_ptr, r_ptr, partial_ptr, M, D, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if program >= M:
        return
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(program, M, tl.num_programs(0)):
        x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
        grad = tl.load(grad_ptr + row * D + cols, mask=mask, other=0.0)
        total += grad * x * tl.load(r_ptr + row)
    tl.store(partial_ptr + program * D + cols, total, mask=mask)
