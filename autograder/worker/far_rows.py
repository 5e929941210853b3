"""Tensors whose rows lie so far apart that the way from the first to the last needs 64 bits.

The addresses are reserved once, before the forks, and the memory between the rows is never touched:
it costs nothing.
"""

from __future__ import annotations

import mmap
from typing import Any

import torch

_STEP = 1 << 30  # numbers from row to row: two such steps do not fit into 32 bits
_SLACK = 1 << 24  # bytes that tensors may begin in, one after the other
_reserved: list[Any] = []  # the memory, and where in it the next tensor begins


def reserve() -> None:
    """Reserve 4 GiB of addresses. A worker itself may not ask for so much.

    Raises OSError or ValueError where they are not to be had.
    """
    if not _reserved:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        _reserved.extend([mmap.mmap(-1, 4 * _STEP + 2 * _SLACK, flags=private), 0])


def far_apart(x: torch.Tensor) -> torch.Tensor:
    """A copy of x (M, D), M <= 3, of a 2-byte type, with 2**30 numbers from row to row.

    A plain copy where there are no such addresses: no test fails for the machine's sake.
    """
    try:
        reserve()
    except (OSError, ValueError):
        return x.clone()
    memory, start = _reserved
    _reserved[1] = (start + 4096 * (1 + x.shape[1] // 2048)) % _SLACK
    every = torch.frombuffer(memory, dtype=x.dtype, offset=start)
    return every.as_strided(x.shape, (_STEP, 1)).copy_(x)
