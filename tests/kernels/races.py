"""Kernels whose result depends on the order in which programs run."""

import torch
import triton
import triton.language as tl


@triton.jit
def accumulate(x, total, D: tl.constexpr, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    mask = cols < D
    sums = tl.load(total + cols, mask=mask, other=0.0)
    sums += tl.load(x + row * D + cols, mask=mask, other=0.0)
    tl.store(total + cols, sums, mask=mask)


@triton.jit
def copy(x, y, x_stride, y_stride, D: tl.constexpr, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * x_stride + cols, mask=cols < D, other=0.0)
    tl.store(y + row * y_stride + cols, value, mask=cols < D)


@triton.jit
def first_of_each(x, y, D: tl.constexpr):
    tl.store(y, tl.load(x + tl.program_id(0) * D))


@triton.jit
def all_lanes_into_one(x, y, B: tl.constexpr):
    tl.store(y + tl.zeros((B,), tl.int32), tl.load(x + tl.arange(0, B)))


@triton.jit
def shift(x, step, D: tl.constexpr, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    mask = cols < D
    value = tl.load(x + (row + 1) * D + cols, mask=mask, other=0.0)
    tl.store(x + (row + 1 + step) * D + cols, value, mask=mask)


@triton.jit
def half_atomic(x, total, D: tl.constexpr):
    row = tl.program_id(0)
    if row == 0:
        tl.store(total, tl.load(x))
    else:
        tl.atomic_add(total, tl.load(x + row * D))


@triton.jit
def peek(x, total, seen, D: tl.constexpr):
    row = tl.program_id(0)
    tl.atomic_add(total, tl.load(x + row * D))
    tl.store(seen + row, tl.load(total))


@triton.jit
def locked_in_part(x, total, lock, D: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(x + row * D)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    before = tl.load(total)
    tl.atomic_xchg(lock, 0)
    tl.store(total, before + value)


def weight_gradient_without_atomics():
    accumulate[(3,)](torch.ones(3, 5), torch.zeros(5), D=5, B=8)


def rows_that_overlap():
    copy[(3,)](torch.ones(3, 5), torch.empty(3, 5), 5, 4, D=5, B=8)


def two_programs_store_one_element():
    first_of_each[(2,)](torch.ones(2, 5), torch.empty(1), D=5)


def lanes_store_one_element():
    all_lanes_into_one[(1,)](torch.arange(8.0), torch.empty(1), B=8)


def a_row_that_another_program_has_read():
    shift[(3,)](torch.ones(5, 5), -1, D=5, B=8)


def a_row_that_another_program_has_written():
    shift[(3,)](torch.ones(5, 5), 1, D=5, B=8)


def one_tensor_under_two_names():
    x = torch.ones(4, 5)
    copy[(3,)](x, x[1:], 5, 5, D=5, B=8)


def the_same_tensor_under_two_names():
    x = torch.ones(4, 5)
    copy[(3,)](x, x, 5, 4, D=5, B=8)


def an_atomic_beside_a_store():
    half_atomic[(2,)](torch.ones(2, 5), torch.zeros(1), D=5)


def a_load_of_a_sum_in_the_making():
    peek[(2,)](torch.ones(2, 5), torch.zeros(1), torch.empty(2), D=5)


def a_lock_that_does_not_cover_the_store():
    locked_in_part[(2,)](torch.ones(2, 5), torch.zeros(1), torch.zeros(1, dtype=torch.int32), D=5)


def _race(where, kernel, tensor, access, program, other, element):
    return {
        "kind": "race", "where": where, "kernel": kernel, "tensor": tensor, "access": access,
        "program": (program, 0, 0), "other": (other, 0, 0), "element": element,
    }  # fmt: skip


EXPECTED = {
    "weight_gradient_without_atomics": _race(
        "load-after-store", "accumulate", "total", "load", 1, 0, 0
    ),
    "rows_that_overlap": _race("store-after-store", "copy", "y", "store", 1, 0, 4),
    "two_programs_store_one_element": _race(
        "store-after-store", "first_of_each", "y", "store", 1, 0, 0
    ),
    "lanes_store_one_element": {
        "kind": "race", "where": "lanes", "kernel": "all_lanes_into_one", "tensor": "y",
    },
    "a_row_that_another_program_has_read": _race(
        "store-after-load", "shift", "x", "store", 1, 0, 5
    ),
    "a_row_that_another_program_has_written": _race(
        "load-after-store", "shift", "x", "load", 1, 0, 10
    ),
    "one_tensor_under_two_names": _race("load-after-store", "copy", "x", "load", 1, 0, 5),
    "the_same_tensor_under_two_names": _race("store-after-store", "copy", "y", "store", 1, 0, 4),
    "an_atomic_beside_a_store": _race(
        "atomic-mixed", "half_atomic", "total", "atomic", 1, 0, 0
    ),
    "a_load_of_a_sum_in_the_making": _race("atomic-mixed", "peek", "total", "atomic", 1, 0, 0),
    "a_lock_that_does_not_cover_the_store": _race(
        "load-after-store", "locked_in_part", "total", "load", 1, 0, 0
    ),
}  # fmt: skip
