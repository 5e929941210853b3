"""Kernels that reach memory that is not theirs, and what the sanitizer is to say of each.

The first eleven are those that crash the process, damage its heap or give garbage without a word
in the bare interpreter.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def shifted(x, y, first, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(y + lanes, tl.load(x + first + lanes))


@triton.jit
def shifted_out(x, y, first, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(y + first + lanes, tl.load(x + lanes))


@triton.jit
def added_out(x, y, first, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.atomic_add(y + first + lanes, tl.load(x + lanes))


@triton.jit
def rows(x, y, x_stride, y_stride, D: tl.constexpr, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * x_stride + cols, mask=cols < D, other=0.0)
    tl.store(y + row * y_stride + cols, value, mask=cols < D)


@triton.jit
def unmasked_rows(x, y, x_stride, y_stride, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    tl.store(y + row * y_stride + cols, tl.load(x + row * x_stride + cols))


@triton.jit
def tile(x, y, D: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    cols = tl.arange(0, B)[None, :]
    value = tl.load(x + row * D + cols, mask=cols < D, other=0.0)
    tl.store(y + row * D + cols, value, mask=cols < D)


@triton.jit
def partial_sums(x, sums, M, D: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    part, cols = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for row in range(part * R, min(part * R + R, M)):
        total += tl.load(x + row * D + cols, mask=cols < D, other=0.0)
    tl.store(sums + part * D + cols, total, mask=cols < D)


@triton.jit
def guessed_address(address, y):
    tl.store(y, tl.load(address.to(tl.pointer_type(tl.float32))))


def load_128_past_the_end():
    shifted[(1,)](torch.ones(1024), torch.empty(128), 1024, B=128)


def load_64_kib_past_the_end():
    shifted[(1,)](torch.ones(1024), torch.empty(128), 1024 + 16384, B=128)


def load_a_million_before_the_start():
    shifted[(1,)](torch.ones(1024), torch.empty(128), -1_000_000, B=128)


def load_one_gib_past_the_end():
    shifted[(1,)](torch.ones(1024), torch.empty(128), 1 << 28, B=128)


def store_104_past_the_end():
    shifted_out[(1,)](torch.ones(1024), torch.empty(1000), 0, B=1024)


def store_16_kib_past_the_end():
    shifted_out[(1,)](torch.ones(128), torch.empty(1000), 1000 + 4096, B=128)


def store_one_gib_past_the_end():
    shifted_out[(1,)](torch.ones(128), torch.empty(1000), 1 << 28, B=128)


def atomic_one_gib_past_the_end():
    added_out[(1,)](torch.ones(128), torch.empty(1000), 1 << 28, B=128)


def a_padded_row_stride_and_no_mask():
    unmasked_rows[(3,)](torch.ones(3, 1000), torch.empty(3, 1024), 1024, 1024, B=1024)


def a_row_stride_times_1024():
    rows[(3,)](torch.ones(3, 1000), torch.empty(3, 1000), 1000 * 1024, 1000, D=1000, B=1024)


def a_strided_view_read_as_contiguous():
    wide = torch.ones(3, 96)
    rows[(3,)](wide[:, :60], torch.empty(3, 60), 60, 60, D=60, B=64)


def a_ragged_row_without_a_mask():
    unmasked_rows[(3,)](torch.ones(3, 60), torch.empty(3, 64), 60, 64, B=64)


def more_programs_than_rows():
    rows[(4,)](torch.ones(3, 60), torch.empty(4, 60), 60, 60, D=60, B=64)


def every_second_column_read_as_contiguous():
    rows[(3,)](torch.ones(3, 120)[:, ::2], torch.empty(3, 60), 120, 60, D=60, B=64)


def a_transposed_view_read_as_contiguous():
    """Most of it is in bounds and only wrong: the last row is found out."""
    rows[(3,)](torch.ones(60, 3).t()[:, :59], torch.empty(3, 60), 60, 60, D=60, B=64)


def an_expanded_gradient_read_by_rows():
    rows[(3,)](torch.ones(1).expand(3, 60), torch.empty(3, 60), 60, 60, D=60, B=64)


def an_empty_tensor():
    rows[(1,)](torch.ones(0, 60), torch.empty(1, 60), 60, 60, D=60, B=64)


def a_partial_buffer_one_row_short():
    sums = torch.empty(7 // 2, 60)
    partial_sums[(4,)](torch.ones(7, 60), sums, 7, D=60, R=2, B=64)


def a_tile_without_a_row_mask():
    tile[(2,)](torch.ones(7, 60), torch.empty(8, 60), D=60, R=4, B=64)


def into_the_tensor_next_to_it():
    """Two halves of one buffer: the access lands in memory that the kernel also was given."""
    buffer = torch.ones(128)
    shifted[(1,)](buffer[:64], buffer[64:], 32, B=64)


def an_address_out_of_nowhere():
    guessed_address[(1,)](1 << 40, torch.empty(1))


def _past(kernel, tensor, access, count, lanes, distance, program=(0, 0, 0)):
    return {
        "kind": "out-of-bounds", "where": "past-the-end", "kernel": kernel, "tensor": tensor,
        "access": access, "count": count, "lanes": lanes, "distance": distance, "program": program,
    }  # fmt: skip


def _between(tensor, count, lanes, program):
    return {
        "kind": "out-of-bounds", "where": "between-rows", "kernel": "rows", "tensor": tensor,
        "access": "load", "count": count, "lanes": lanes, "program": program,
    }  # fmt: skip


EXPECTED = {
    "load_128_past_the_end": _past("shifted", "x", "load", 128, 128, 1),
    "load_64_kib_past_the_end": _past("shifted", "x", "load", 128, 128, 9_999),
    "load_a_million_before_the_start": {
        "kind": "out-of-bounds", "where": "before-the-start", "kernel": "shifted", "tensor": "x",
        "access": "load", "count": 128, "lanes": 128, "distance": 9_999,
    },
    "load_one_gib_past_the_end": _past("shifted", "x", "load", 128, 128, 9_999),
    "store_104_past_the_end": _past("shifted_out", "y", "store", 24, 1024, 1),
    "store_16_kib_past_the_end": _past("shifted_out", "y", "store", 128, 128, 4097),
    "store_one_gib_past_the_end": _past("shifted_out", "y", "store", 128, 128, 9_999),
    "atomic_one_gib_past_the_end": _past("added_out", "y", "atomic", 128, 128, 9_999),
    "a_padded_row_stride_and_no_mask": _past(
        "unmasked_rows", "x", "load", 72, 1024, 1, program=(2, 0, 0)
    ),
    "a_row_stride_times_1024": _past(
        "rows", "x", "load", 1000, 1000, 9_999, program=(1, 0, 0)
    ),
    "a_strided_view_read_as_contiguous": _between("x", 36, 60, (1, 0, 0)),
    "a_ragged_row_without_a_mask": _past(
        "unmasked_rows", "x", "load", 4, 64, 1, program=(2, 0, 0)
    ),
    "more_programs_than_rows": _past("rows", "x", "load", 60, 60, 1, program=(3, 0, 0)),
    "every_second_column_read_as_contiguous": _between("x", 30, 60, (0, 0, 0)),
    "a_transposed_view_read_as_contiguous": _past(
        "rows", "x", "load", 3, 60, 1, program=(2, 0, 0)
    ),
    "an_expanded_gradient_read_by_rows": _past("rows", "x", "load", 59, 60, 1),
    "an_empty_tensor": {
        "kind": "out-of-bounds", "where": "empty-tensor", "kernel": "rows", "tensor": "x",
        "count": 60, "lanes": 60,
    },
    "a_partial_buffer_one_row_short": _past(
        "partial_sums", "sums", "store", 60, 60, 1, program=(3, 0, 0)
    ),
    "a_tile_without_a_row_mask": _past("tile", "x", "load", 60, 240, 1, program=(1, 0, 0)),
    "into_the_tensor_next_to_it": _past("shifted", "x", "load", 32, 64, 1),
    "an_address_out_of_nowhere": {
        "kind": "out-of-bounds", "where": "outside-every-tensor", "kernel": "guessed_address",
        "tensor": "", "access": "load", "count": 1, "lanes": 1,
    },
}  # fmt: skip
