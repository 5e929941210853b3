"""How kernels are launched: which rows they see, how a row is cut up, how many programs run.

Nothing here computes a norm. The tables hold the choices that decide speed. What they promise
about the machine code (no spills, 16 bytes a load) is checked without a GPU, see
`bench.ahead_of_time`; what they promise about time waits for `bench/gpu.py` on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# 32-bit registers of a multiprocessor, on sm_80, sm_90 and sm_100 alike.
REGISTERS = 65536

# Programs where there is no GPU: more than one, so that parts are really added up.
PROGRAMS_WITHOUT_GPU = 3


@dataclass(frozen=True)
class Tile:
    """What one program holds at a time, and how many of its warps (32 threads each) hold it."""

    rows: int
    block: int  # columns: the row's length, rounded up to a power of two
    warps: int
    stages: int = 1  # 2: the next tile is loaded while this one is summed
    programs: int = 0  # of a persistent kernel: how many share a multiprocessor
    registers: int | None = None  # the most that a thread may use


@dataclass(frozen=True)
class Launch:
    """One launch as data: it can be run here, or compiled for a GPU that is not here."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    tile: Tile

    @property
    def options(self) -> dict[str, int]:
        """What the compiler is told besides the arguments."""
        limit = {} if self.tile.registers is None else {"maxnreg": self.tile.registers}
        return {"num_warps": self.tile.warps, **limit}

    def run(self) -> None:
        """Launch, on the device of the tensors, which may not be the current one."""
        device = next(v.device for v in self.arguments.values() if isinstance(v, Tensor))
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            self.kernel[self.grid](**self.arguments, **self.options)


def fixed_strides(*tensors: Tensor) -> bool:
    """Whether a kernel is worth compiling for exactly this D and these distances between rows.

    Sixteen bytes are loaded at once only if the compiler can prove that each row starts at a
    multiple of them: D and the row stride must be constants. It pays from 4 bytes on. Other
    tensors (odd D, transposed, expanded) share kernels that take both at run time.
    """
    return all(
        t.stride(1) == 1 and all(n * t.element_size() % 4 == 0 for n in (t.shape[1], t.stride(0)))
        for t in tensors
    )


def layout(width: int, **tensors: Tensor) -> dict[str, int | None]:
    """The arguments by which a kernel finds elements of `tensors`, all (M, D), and D as a constant.

    For `x`: the strides x_row and x_column, and X_ROW, the row's as a constant. Constants are None
    where `fixed_strides` says that they are not worth it.
    """
    fixed = fixed_strides(*tensors.values())
    found: dict[str, int | None] = {"WIDTH": width if fixed else None}
    for name, tensor in tensors.items():
        row, column = tensor.stride()
        found |= {f"{name}_row": row, f"{name}_column": column}
        found[f"{name.upper()}_ROW"] = row if fixed else None
    return found


def multiprocessors(device: torch.device) -> int | None:
    """How many the GPU has; None for the interpreter. A plan without data is for an H100 or H200."""
    if device.type == "cpu":
        return None
    if device.type == "meta":
        return 132
    return torch.cuda.get_device_properties(device).multi_processor_count


def programs_for(device: torch.device, tile: Tile, tiles: int) -> int:
    """Programs of a persistent kernel: as many as run at once, and no more than tiles."""
    count = multiprocessors(device)
    at_once = PROGRAMS_WITHOUT_GPU if count is None else count * max(tile.programs, 1)
    return max(1, min(at_once, tiles))


def _block(width: int) -> int:
    """The power of two that holds a row; 16 at least, for Triton's two-dimensional blocks."""
    return max(16, 1 << (width - 1).bit_length())


def forward_tile(width: int) -> Tile | None:
    """The forward tile for rows of `width`; None where a row does not fit into registers.

    A thread has 32 elements of a row, so that what it does for each row (sums across threads,
    barriers, addresses) is small beside what it does for each element; and 64 registers, so that
    1024 threads run at once, with 64 KiB of a bfloat16 x on their way: a few programs, or one with
    the longest row. Up to 1024 columns a program is one warp with several rows: a row that is not
    shared between warps is summed without a barrier.
    """
    block = _block(width)
    if block <= 1024:
        return Tile(rows=min(64, 2048 // block), block=block, warps=1)
    if block > 32768:
        return None
    return Tile(rows=1, block=block, warps=block // 1024, registers=64)


def backward_tile(width: int, rms: bool) -> Tile | None:
    """The tile of the persistent backward kernel; None where a row is too long for it.

    A thread holds, for each of its columns, x, dy, weight and the sums of dweight and dbias. As
    many programs run as fit: together they use all registers, and have 8192 elements of x and of
    dy on their way, 32 KiB in bfloat16, where 20 would do to hide how far memory is. At 16384 the
    sums alone fill half the registers: x and dy are read again, and nothing is loaded ahead.
    """
    block = _block(width)
    if block <= 512:
        return Tile(rows=min(64, 1024 // block), block=block, warps=1, stages=2, programs=8)
    if block == 16384:
        return Tile(rows=1, block=block, warps=32 if rms else 16, programs=1)
    if block > 16384:
        return None
    programs = 8192 // block if block > 1024 else 4
    warps = max(4, block // 512)
    return Tile(
        rows=2 if block == 1024 else 1,
        block=block,
        warps=warps,
        stages=2,
        programs=programs,
        registers=REGISTERS // (programs * warps * 32),
    )


def sum_tile(width: int, device: torch.device) -> Tile:
    """The tile of stage two: a GPU wants 128 programs or so, the interpreter one large one."""
    if device.type == "cpu":
        return Tile(rows=PROGRAMS_WITHOUT_GPU + 1, block=min(_block(width), 8192), warps=4)
    block = min(256, max(32, _block(width) // 128))
    return Tile(rows=2048 // block, block=block, warps=4)
