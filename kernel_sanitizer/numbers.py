"""Numbers that the interpreter has otherwise than a GPU: bfloat16, and lanes without a value.

bfloat16 is kept as the upper half of a float32. A lane that a mask has left out of a load, without
`other`, is poisoned: it holds a NaN that is recognised in a result by its upper bits, which outlive
conversions; for integers, a number that is told from others and small enough for offsets.
"""

from __future__ import annotations

import numpy as np

_POISON = {"fp16": 0x7F58, "bf16": 0x7FEB, "fp32": 0x7FEB5A5A, "fp64": 0x7FFD6B4B5A5A5A5A}
_MARK = {"fp16": 0x7FF8, "bf16": 0x7FFF, "fp32": 0x7FFF0000, "fp64": 0x7FFFE00000000000}
_INTEGER = 0x5A5A


def poison(kind: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Poisoned lanes of Triton's type `kind`, which numpy keeps as `dtype`."""
    if kind in _POISON:
        return np.full(shape, _POISON[kind], f"u{dtype.itemsize}").view(dtype)
    return np.full(shape, min(_INTEGER, (1 << 8 * dtype.itemsize - 1) - 1)).astype(dtype)


def is_poison(values: np.ndarray, kind: str) -> np.ndarray:
    """Which of `values` were computed from a poisoned lane."""
    if kind not in _POISON:
        return np.zeros(values.shape, bool)
    bits = values.view(f"u{values.itemsize}")
    return (bits & _MARK[kind]) == (_POISON[kind] & _MARK[kind])


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Rounded to the nearest, ties to even, as torch does. A NaN stays a NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)
