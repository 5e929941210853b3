"""Kernels with a fault in what they compute, and kernels that never end."""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def row_sum(x, y, D: tl.constexpr, B: tl.constexpr):
    cols = tl.arange(0, B)
    tl.store(y, tl.sum(tl.load(x + cols, mask=cols < D).to(tl.float32), axis=0))


@triton.jit
def row_max(x, y, D: tl.constexpr, B: tl.constexpr):
    cols = tl.arange(0, B)
    tl.store(y, tl.max(tl.load(x + cols, mask=cols < D), axis=0))


@triton.jit
def pad_lanes(x, y, D: tl.constexpr, B: tl.constexpr):
    cols = tl.arange(0, B)
    tl.store(y + cols, tl.load(x + cols, mask=cols < D) * 2.0)


@triton.jit
def by_index(index, x, y, D: tl.constexpr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    which = tl.load(index + lanes, mask=lanes < D)
    tl.store(y + lanes, tl.load(x + which))


@triton.jit
def row_offset(x, y, stride):
    tl.store(y + tl.program_id(0), tl.load(x + tl.program_id(0) * stride))


@triton.jit
def far_columns(x, y, first, B: tl.constexpr):
    cols = first + tl.arange(0, B)
    tl.store(y + tl.arange(0, B), tl.load(x + cols, mask=cols < 0, other=0.0))


@triton.jit
def far_before(x, y, first, B: tl.constexpr):
    cols = -first - 16 - tl.arange(0, B)
    tl.store(y + tl.arange(0, B), tl.load(x + cols, mask=cols > 0, other=0.0))


@triton.jit
def scaled(x, y, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(y + lanes, tl.load(x + lanes) * 3.0)


@triton.jit
def squared_sum(x, y, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    tl.store(y, tl.sum(value, axis=0))


@triton.jit
def bf16_sum(x, y, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.atomic_add(y + lanes, tl.load(x + lanes))


@triton.jit
def never_unlocked(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@triton.jit
def waits_for_a_flag(flag, y):
    while tl.load(flag) == 0:
        pass
    tl.store(y, 1.0)


@triton.jit
def copy_one(x, y):
    tl.store(y + tl.program_id(1), tl.load(x + tl.program_id(1)))


def poison_in_a_sum():
    row_sum[(1,)](torch.ones(5), torch.empty(1), D=5, B=8)


def poison_in_a_sum_of_bfloat16():
    row_sum[(1,)](torch.ones(5, dtype=torch.bfloat16), torch.empty(1), D=5, B=8)


def poison_in_a_sum_of_float16():
    row_sum[(1,)](torch.ones(5, dtype=torch.float16), torch.empty(1), D=5, B=8)


def poison_in_a_maximum():
    row_max[(1,)](torch.ones(5), torch.empty(1), D=5, B=8)


def poison_in_the_padding():
    pad_lanes[(1,)](torch.ones(5), torch.empty(8), D=5, B=8)


def poison_in_the_padding_of_float64():
    pad_lanes[(1,)](torch.ones(5).double(), torch.empty(8).double(), D=5, B=8)


def poison_as_an_index():
    by_index[(1,)](torch.zeros(5, dtype=torch.int32), torch.ones(9), torch.empty(8), D=5, B=8)


def a_row_offset_in_32_bits():
    """Three rows, 2**30 elements apart, in memory that is reserved and never touched."""
    reserved = torch.from_numpy(np.zeros(2**31 + 8, np.int8))
    x = reserved.as_strided((3, 8), (2**30, 1))
    row_offset[(3,)](x, torch.empty(3, dtype=torch.int8), x.stride(0))


def a_sum_of_offsets_in_32_bits():
    far_columns[(1,)](torch.ones(8), torch.empty(8), 2**31 - 4, B=8)


def a_difference_of_offsets_in_32_bits():
    far_before[(1,)](torch.ones(8), torch.empty(8), 2**31 - 18, B=8)


def arithmetic_in_bfloat16():
    x = torch.ones(8, dtype=torch.bfloat16)
    scaled[(1,)](x, torch.empty_like(x), B=8)


def a_sum_in_bfloat16():
    squared_sum[(1,)](torch.ones(8, dtype=torch.bfloat16), torch.empty(1), B=8)


def an_atomic_in_bfloat16():
    x = torch.ones(8, dtype=torch.bfloat16)
    bf16_sum[(1,)](x, torch.zeros_like(x), B=8)


def a_lock_that_is_never_released():
    never_unlocked[(1,)](torch.ones(1, dtype=torch.int32))


def a_flag_that_nobody_sets():
    waits_for_a_flag[(1,)](torch.zeros(1, dtype=torch.int32), torch.empty(1))


def rows_on_the_second_axis():
    copy_one[(1, 70_000)](torch.ones(70_000), torch.empty(70_000))


def a_caught_fault():
    """The exception is no secret between a kernel and its caller."""
    try:
        row_sum[(1,)](torch.ones(5), torch.empty(1), D=5, B=8)
    except Exception:
        return torch.ones(1)


def _poison(kernel, tensor="x"):
    return {"kind": "poison", "where": "stored", "kernel": kernel, "tensor": tensor}


EXPECTED = {
    "poison_in_a_sum": _poison("row_sum"),
    "poison_in_a_sum_of_bfloat16": _poison("row_sum"),
    "poison_in_a_sum_of_float16": _poison("row_sum"),
    "poison_in_a_maximum": _poison("row_max"),
    "poison_in_the_padding": _poison("pad_lanes"),
    "poison_in_the_padding_of_float64": _poison("pad_lanes"),
    "poison_as_an_index": {
        "kind": "out-of-bounds", "where": "past-the-end", "tensor": "x", "count": 3, "lanes": 8,
    },
    "a_row_offset_in_32_bits": {
        "kind": "int32-overflow", "where": "mul", "kernel": "row_offset", "program": (2, 0, 0),
    },
    "a_sum_of_offsets_in_32_bits": {"kind": "int32-overflow", "where": "add"},
    "a_difference_of_offsets_in_32_bits": {"kind": "int32-overflow", "where": "sub"},
    "arithmetic_in_bfloat16": {
        "kind": "bf16-arithmetic", "where": "arithmetic", "kernel": "scaled",
    },
    "a_sum_in_bfloat16": {"kind": "bf16-arithmetic", "where": "reduction"},
    "an_atomic_in_bfloat16": {"kind": "bf16-arithmetic", "where": "atomic"},
    "a_lock_that_is_never_released": {"kind": "budget", "where": "memory-operations"},
    "a_flag_that_nobody_sets": {"kind": "budget", "where": "memory-operations"},
    "rows_on_the_second_axis": {"kind": "grid-limit", "where": "y"},
    "a_caught_fault": _poison("row_sum"),
}  # fmt: skip
