"""Kernels without a fault: the sanitizer is to let them run, and their results are right."""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows(x, y, row_stride, col_stride, D, B: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, B)
    mask = cols < D
    value = tl.load(x + row * row_stride + cols * col_stride, mask=mask, other=0.0)
    value = value.to(tl.float32) * 3.0
    tl.store(y + row * D + cols, value, mask=mask)


@triton.jit
def column_sums_by_atomics(x, total, D: tl.constexpr, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * D + cols, mask=cols < D, other=0.0)
    tl.atomic_add(total + cols, value, mask=cols < D)


@triton.jit
def column_sums_by_parts(x, parts, M, D: tl.constexpr, B: tl.constexpr):
    cols = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for row in range(tl.program_id(0), M, tl.num_programs(0)):
        total += tl.load(x + row * D + cols, mask=cols < D, other=0.0)
    tl.store(parts + tl.program_id(0) * D + cols, total, mask=cols < D)


@triton.jit
def tile_sums(x, y, M, D: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    row, cols = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, B)
    mask = (row < M)[:, None] & (cols < D)[None, :]
    value = tl.load(x + row[:, None] * D + cols[None, :], mask=mask)
    value = tl.where((cols < D)[None, :], value, 0.0)
    tl.store(y + row, tl.sum(value, axis=1), mask=row < M)


@triton.jit
def sum_in_blocks(x, y, D, B: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, D, B):
        cols = start + tl.arange(0, B)
        total += tl.load(x + row * D + cols, mask=cols < D, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


@triton.heuristics({"B": lambda args: triton.next_power_of_2(args["D"])})
@triton.jit
def chosen_block(x, y, D, B: tl.constexpr):
    cols = tl.arange(0, B)
    tl.store(y + cols, tl.load(x + cols, mask=cols < D, other=0.0), mask=cols < D)


@triton.jit
def _mean(value, count):
    return tl.sum(value, axis=0) / count


@triton.jit
def center(x, weight, y, D, B: tl.constexpr):
    cols = tl.arange(0, B)
    mask = cols < D
    value = tl.load(x + cols, mask=mask, other=0.0)
    value = tl.where(mask, value - _mean(value, D), 0.0)
    if weight is not None:
        value *= tl.load(weight + cols, mask=mask, other=0.0)
    tl.store(y + cols, value, mask=mask)


@triton.jit
def locked_sum(x, total, lock, D: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * D)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + value)
    tl.atomic_xchg(lock, 0)


@triton.jit
def last_one_adds_up(x, parts, ticket, y, P: tl.constexpr):
    part = tl.program_id(0)
    tl.store(parts + part, tl.load(x + part))
    if tl.atomic_add(ticket, 1) == P - 1:
        tl.store(y, tl.sum(tl.load(parts + tl.arange(0, P)), axis=0))


@triton.jit
def by_descriptor(x, y, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[B, B])
    target = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[B, B])
    target.store([0, 0], source.load([0, 0]) * 2.0)


@triton.jit
def random_row(y, seed, D: tl.constexpr):
    cols = tl.arange(0, D)
    tl.store(y + cols, tl.rand(seed, cols))


@triton.jit
def one_of_two(a, b, y, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(y + lanes, tl.load(tl.where(lanes < B // 2, a + lanes, b + lanes)))


@triton.jit
def far_rows(x, y, stride):
    row = tl.program_id(0).to(tl.int64)
    tl.store(y + row, tl.load(x + row * stride) + 1)


X = torch.arange(15.0).reshape(3, 5)


def masks():
    y = torch.empty(3, 5)
    scale_rows[(3,)](X, y, 5, 1, 5, B=8)
    return y, 3 * X


def bfloat16_that_is_converted():
    x, y = X.to(torch.bfloat16) / 7, torch.empty(3, 5, dtype=torch.bfloat16)
    scale_rows[(3,)](x, y, 5, 1, 5, B=8)
    return y, (x.float() * 3).to(torch.bfloat16)


def a_column_slice():
    wide, y = torch.arange(24.0).reshape(3, 8), torch.empty(3, 4)
    x = wide[:, ::2]
    scale_rows[(3,)](x, y, *x.stride(), 4, B=8)
    return y, 3 * x


def a_transposed_view():
    x, y = X.t(), torch.empty(5, 3)
    scale_rows[(5,)](x, y, *x.stride(), 3, B=4)
    return y, 3 * x


def an_expanded_view():
    x, y = torch.ones(1).expand(3, 5), torch.empty(3, 5)
    scale_rows[(3,)](x, y, *x.stride(), 5, B=8)
    return y, 3 * x


def overlapping_windows():
    x, y = torch.arange(9.0).unfold(0, 5, 2), torch.empty(3, 5)
    scale_rows[(3,)](x, y, *x.stride(), 5, B=8)
    return y, 3 * x


def in_place():
    x = X.clone()
    scale_rows[(3,)](x, x, 5, 1, 5, B=8)
    return x, 3 * X


def atomics():
    total = torch.zeros(5)
    column_sums_by_atomics[(3,)](X, total, D=5, B=8)
    return total, X.sum(0)


def partial_buffers_of_persistent_programs():
    x, parts = torch.arange(35.0).reshape(7, 5), torch.empty(9, 5)
    column_sums_by_parts[(9,)](x, parts, 7, D=5, B=8)
    return parts.sum(0), x.sum(0)


def tiles_with_rows_left_over():
    x, y = torch.arange(35.0).reshape(7, 5), torch.empty(7)
    tile_sums[(2,)](x, y, 7, D=5, R=4, B=8)
    return y, x.sum(1)


def a_loop_over_blocks():
    x, y = torch.arange(33.0).reshape(3, 11), torch.empty(3)
    sum_in_blocks[(3,)](x, y, 11, B=4)
    return y, x.sum(1)


def a_heuristic():
    y = torch.empty(5)
    chosen_block[(1,)](X, y, 5)
    return y, X[0]


def a_function_of_its_own_and_no_weight():
    y = torch.empty(5)
    center[(1,)](X, None, y, 5, B=8)
    return y, X[0] - 2


def a_weight():
    y = torch.empty(5)
    center[(1,)](X, torch.full((5,), 2.0), y, 5, B=8)
    return y, 2 * (X[0] - 2)


def no_rows():
    y = torch.empty(0, 5)
    scale_rows[(0,)](torch.empty(0, 5), y, 5, 1, 5, B=8)
    return y, torch.empty(0, 5)


def a_lock():
    total = torch.zeros(1)
    locked_sum[(3,)](X, total, torch.zeros(1, dtype=torch.int32), D=5)
    return total, X[:, :1].sum(0)


def a_ticket():
    y = torch.empty(1)
    ticket = torch.zeros(1, dtype=torch.int32)
    last_one_adds_up[(4,)](torch.arange(4.0), torch.empty(4), ticket, y, P=4)
    return y, torch.tensor([6.0])


def a_tensor_descriptor():
    x, y = torch.arange(16.0).reshape(4, 4), torch.empty(4, 4)
    by_descriptor[(1,)](x, y, 4, 4, B=4)
    return y, 2 * x


def random_numbers():
    y = torch.full((8,), -1.0)
    random_row[(1,)](y, 7, D=8)
    return ((y >= 0) & (y < 1)).all(), torch.tensor(True)


def pointers_into_two_tensors():
    y = torch.empty(8)
    one_of_two[(1,)](torch.ones(4), torch.arange(8.0), y, B=8)
    return y, torch.tensor([1.0, 1, 1, 1, 4, 5, 6, 7])


def rows_two_gib_apart():
    """In memory that is reserved and never touched."""
    reserved = torch.from_numpy(np.zeros(2**31 + 8, np.int8))
    x, y = reserved.as_strided((3, 8), (2**30, 1)), torch.empty(3, dtype=torch.int8)
    far_rows[(3,)](x, y, x.stride(0))
    return y, torch.ones(3, dtype=torch.int8)


GOOD = (
    masks, bfloat16_that_is_converted, a_column_slice, a_transposed_view, an_expanded_view,
    overlapping_windows, in_place, atomics, partial_buffers_of_persistent_programs,
    tiles_with_rows_left_over, a_loop_over_blocks, a_heuristic,
    a_function_of_its_own_and_no_weight, a_weight, no_rows, a_lock, a_ticket, a_tensor_descriptor,
    random_numbers, pointers_into_two_tensors, rows_two_gib_apart,
)  # fmt: skip
