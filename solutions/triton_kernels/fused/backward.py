"""The backward kernels: dx in one pass over memory, dweight and dbias in two stages.

dx of a row needs that row only. dweight and dbias are sums over all rows, and programs that add
into one place would have to take turns. So there are few programs, each takes many rows, keeps its
own sums in registers, and writes them once, into its own row of a small float32 buffer; a second
kernel adds those rows. No locks, no atomics, the same bits on every run.
"""

from __future__ import annotations

import triton
import triton.language as tl

from solutions.triton_kernels.fused.forward import elements
from solutions.triton_kernels.fused.launch import Launch, Tensor, Tile, layout, sum_tile


@triton.jit
def _normalized(x_at, dy_at, mask, centre, scale, RMS: tl.constexpr, AGAIN: tl.constexpr):
    """x-hat and dy of a tile, float32. AGAIN keeps the compiler from holding an earlier copy."""
    xhat = tl.load(x_at, mask=mask, other=0.0, volatile=AGAIN).to(tl.float32)
    g = tl.load(dy_at, mask=mask, other=0.0, volatile=AGAIN).to(tl.float32)
    # Lanes past the end need no care here: their dy is 0, and so is all that is summed.
    if not RMS:
        xhat = xhat - centre
    return xhat * scale, g


@triton.jit(do_not_specialize=["M"])
def norm_backward_kernel(
    dy, ds, x, weight, mean, rstd, dx, dweight_parts, dbias_parts,
    M, D, dy_row, dy_column, ds_row, ds_column, x_row, x_column,
    WIDTH: tl.constexpr, DY_ROW: tl.constexpr, DS_ROW: tl.constexpr, X_ROW: tl.constexpr,
    RMS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    width = D if WIDTH is None else WIDTH
    column = tl.arange(0, BLOCK)[None, :]
    inside = column < width
    if weight is not None and not LONG:
        w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    if dweight_parts is not None:
        dweight = tl.zeros([ROWS, BLOCK], tl.float32)
    if dbias_parts is not None:
        dbias = tl.zeros([ROWS, BLOCK], tl.float32)

    # Program p takes the tiles p, p + programs, ... With two stages the loads of the next tile
    # are under way, into shared memory, while this one is summed.
    tiles = tl.cdiv(M, ROWS)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        mask = (row < M) & inside
        x_at = elements(x, row, column, x_row, x_column, X_ROW)
        dy_at = elements(dy, row, column, dy_row, dy_column, DY_ROW)
        scale = tl.load(rstd + row, mask=row < M, other=0.0)
        centre = scale
        if not RMS:
            centre = tl.load(mean + row, mask=row < M, other=0.0)
        xhat, g = _normalized(x_at, dy_at, mask, centre, scale, RMS, False)
        if dweight_parts is not None:
            dweight += g * xhat
        if dbias_parts is not None:
            dbias += g
        if weight is not None:
            if LONG:
                w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
            g = g * w

        # x-hat does not change when x moves along x-hat, nor when all of x moves together: these
        # two parts of w * dy reach no x. What is left, times rstd, is dx.
        along = tl.sum(g * xhat, axis=1, keep_dims=True) / width
        if not RMS:
            level = tl.sum(g, axis=1, keep_dims=True) / width
        if LONG:  # from the second-level cache: the sums of dweight and dbias fill the registers
            xhat, g = _normalized(x_at, dy_at, mask, centre, scale, RMS, True)
            if weight is not None:
                g = g * tl.load(weight + column, mask=inside, other=0.0, volatile=True)
        out = g - xhat * along
        if not RMS:
            out = out - level
        out = out * scale
        if ds is not None:  # x + residual went on past the norm; its gradient passes unchanged
            ds_at = elements(ds, row, column, ds_row, ds_column, DS_ROW)
            out += tl.load(ds_at, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx + row * width + column, out, mask=mask)

    # A program without a tile stores its zeros all the same: stage two reads every part.
    column = tl.arange(0, BLOCK)
    part = tl.program_id(0).to(tl.int64) * width + column
    if dweight_parts is not None:
        tl.store(dweight_parts + part, tl.sum(dweight, axis=0), mask=column < width)
    if dbias_parts is not None:
        tl.store(dbias_parts + part, tl.sum(dbias, axis=0), mask=column < width)


@triton.jit(do_not_specialize=["PARTS"])
def sum_parts_kernel(
    dweight_parts, dbias_parts, dweight, dbias, PARTS, D,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Stage two: adds the parts, in a fixed order, and rounds once, to the weight's dtype."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = column < D
    if dweight is not None:
        dweight_sum = tl.zeros([ROWS, BLOCK], tl.float32)
    if dbias is not None:
        dbias_sum = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, PARTS, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        at = row.to(tl.int64) * D + column
        mask = (row < PARTS) & inside
        if dweight is not None:
            dweight_sum += tl.load(dweight_parts + at, mask=mask, other=0.0)
        if dbias is not None:
            dbias_sum += tl.load(dbias_parts + at, mask=mask, other=0.0)
    if dweight is not None:
        tl.store(dweight + column, tl.sum(dweight_sum, axis=0, keep_dims=True), mask=inside)
    if dbias is not None:
        tl.store(dbias + column, tl.sum(dbias_sum, axis=0, keep_dims=True), mask=inside)


def plan(
    dy: Tensor, ds: Tensor | None, x: Tensor, weight: Tensor | None, mean: Tensor | None,
    rstd: Tensor, dx: Tensor, dweight_parts: Tensor | None, dbias_parts: Tensor | None,
    rms: bool, tile: Tile, programs: int,
) -> Launch:  # fmt: skip
    """Stage one: fills dx (M, D), and one row a program of the parts (programs, D) float32.

    Args:
        dy, ds, x: (M, D), any strides; ds may be None.
        weight, mean, rstd: (D,) or None, (M,), (M,); mean is None if `rms`.
        tile, programs: how each program works, and how many there are.
    """
    rows, width = x.shape
    other = x if ds is None else ds
    return Launch(
        kernel=norm_backward_kernel,
        grid=(programs,),
        arguments={
            "dy": dy, "ds": ds, "x": x, "weight": weight, "mean": mean, "rstd": rstd,
            "dx": dx, "dweight_parts": dweight_parts, "dbias_parts": dbias_parts,
            "M": rows, "D": width, **layout(width, dy=dy, ds=other, x=x),
            "RMS": rms, "ROWS": tile.rows, "BLOCK": tile.block, "LONG": tile.block > 8192,
            "STAGES": tile.stages,
        },
        tile=tile,
    )  # fmt: skip


def plan_sum(
    dweight_parts: Tensor | None, dbias_parts: Tensor | None,
    dweight: Tensor | None, dbias: Tensor | None,
) -> Launch:  # fmt: skip
    """Stage two: the sums (D,) of the parts (programs, D)."""
    parts = dbias_parts if dweight_parts is None else dweight_parts
    assert parts is not None
    tile = sum_tile(parts.shape[1], parts.device)
    return Launch(
        kernel=sum_parts_kernel,
        grid=(triton.cdiv(parts.shape[1], tile.block),),
        arguments={
            "dweight_parts": dweight_parts, "dbias_parts": dbias_parts,
            "dweight": dweight, "dbias": dbias,
            "PARTS": parts.shape[0], "D": parts.shape[1],
            "ROWS": tile.rows, "BLOCK": tile.block,
        },
        tile=tile,
    )  # fmt: skip
