"""Kernels for rows that do not fit into registers: the same norms, a piece of a row at a time.

The row is read twice. Multiprocessors that work on a row each keep those rows in the second-level
cache (66 MB for 132 rows of 131,072 float32), so the second reading need not reach memory.
"""

from __future__ import annotations

import triton
import triton.language as tl

from solutions.triton_kernels.fused.forward import elements
from solutions.triton_kernels.fused.launch import Launch, Tensor, Tile, layout

# Elements of a row at a time, and the warps that hold them.
PIECE = Tile(rows=1, block=8192, warps=16)

# Stage one of dweight and dbias: a program sums this many columns, so many rows at a time.
COLUMNS = Tile(rows=8, block=512, warps=4)


@triton.jit(do_not_specialize=["eps"])
def wide_forward_kernel(
    x, residual, weight, bias, y, s, mean, rstd,
    D, x_row, x_column, residual_row, residual_column, eps,
    WIDTH: tl.constexpr, X_ROW: tl.constexpr, RESIDUAL_ROW: tl.constexpr,
    RMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    width = D if WIDTH is None else WIDTH
    row = tl.program_id(0).to(tl.int64)

    # Mean and sum of squared distances, piece by piece. Two sets of numbers with the means a and
    # b, n and m of them, have together the mean a + (b - a) m / (n + m), and (b - a)**2 n m / (n + m)
    # on top of their own squared distances (Chan, Golub and LeVeque). Nothing cancels.
    centre = 0.0
    squares = 0.0
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < width
        value = tl.load(elements(x, row, column, x_row, x_column, X_ROW), mask=mask, other=0.0)
        value = value.to(tl.float32)
        if residual is not None:
            at = elements(residual, row, column, residual_row, residual_column, RESIDUAL_ROW)
            value += tl.load(at, mask=mask, other=0.0).to(tl.float32)
            tl.store(s + row * width + column, value, mask=mask)
        if RMS:
            squares += tl.sum(value * value, axis=0)
        else:
            before = start * 1.0
            count = tl.minimum(width - start, BLOCK) * 1.0
            middle = tl.sum(value, axis=0) / count
            value = tl.where(mask, value - middle, 0.0)
            apart = middle - centre
            share = count / (before + count)
            squares += tl.sum(value * value, axis=0) + apart * apart * before * share
            centre += apart * share
    scale = tl.rsqrt(squares / width + tl.cast(eps, tl.float32))
    tl.store(rstd + row, scale)
    if not RMS:
        tl.store(mean + row, centre)

    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < width
        value = tl.load(elements(x, row, column, x_row, x_column, X_ROW), mask=mask, other=0.0)
        value = value.to(tl.float32)
        if residual is not None:  # added again: s was rounded
            at = elements(residual, row, column, residual_row, residual_column, RESIDUAL_ROW)
            value += tl.load(at, mask=mask, other=0.0).to(tl.float32)
        if not RMS:
            value = value - centre
        out = value * scale
        if weight is not None:
            out = out * tl.load(weight + column, mask=mask, other=0.0).to(tl.float32)
        if bias is not None:
            out = out + tl.load(bias + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + row * width + column, out, mask=mask)


@triton.jit
def _centred(x_at, dy_at, weight, column, mask, centre, RMS: tl.constexpr):
    """x minus its mean, and dy times weight, of a piece of a row, float32."""
    xhat = tl.load(x_at, mask=mask, other=0.0).to(tl.float32)
    if not RMS:
        xhat = xhat - centre
    g = tl.load(dy_at, mask=mask, other=0.0).to(tl.float32)
    if weight is not None:
        g = g * tl.load(weight + column, mask=mask, other=0.0).to(tl.float32)
    return xhat, g


@triton.jit
def wide_backward_kernel(
    dy, ds, x, weight, mean, rstd, dx,
    D, dy_row, dy_column, ds_row, ds_column, x_row, x_column,
    WIDTH: tl.constexpr, DY_ROW: tl.constexpr, DS_ROW: tl.constexpr, X_ROW: tl.constexpr,
    RMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    width = D if WIDTH is None else WIDTH
    row = tl.program_id(0).to(tl.int64)
    scale = tl.load(rstd + row)
    centre = scale
    if not RMS:
        centre = tl.load(mean + row)

    along = 0.0
    level = 0.0
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < width
        x_at = elements(x, row, column, x_row, x_column, X_ROW)
        dy_at = elements(dy, row, column, dy_row, dy_column, DY_ROW)
        xhat, g = _centred(x_at, dy_at, weight, column, mask, centre, RMS)
        along += tl.sum(g * xhat, axis=0)
        level += tl.sum(g, axis=0)
    along = along * scale / width
    level = level / width

    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < width
        x_at = elements(x, row, column, x_row, x_column, X_ROW)
        dy_at = elements(dy, row, column, dy_row, dy_column, DY_ROW)
        xhat, g = _centred(x_at, dy_at, weight, column, mask, centre, RMS)
        out = g - xhat * scale * along
        if not RMS:
            out = out - level
        out = out * scale
        if ds is not None:
            ds_at = elements(ds, row, column, ds_row, ds_column, DS_ROW)
            out += tl.load(ds_at, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx + row * width + column, out, mask=mask)


@triton.jit(do_not_specialize=["M"])
def wide_parts_kernel(
    dy, x, mean, rstd, dweight_parts, dbias_parts,
    M, D, dy_row, dy_column, x_row, x_column,
    WIDTH: tl.constexpr, DY_ROW: tl.constexpr, X_ROW: tl.constexpr,
    RMS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Stage one of dweight and dbias for a few columns; program (part, piece of the columns)."""
    width = D if WIDTH is None else WIDTH
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = column < width
    if dweight_parts is not None:
        dweight = tl.zeros([ROWS, BLOCK], tl.float32)
    if dbias_parts is not None:
        dbias = tl.zeros([ROWS, BLOCK], tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(M, ROWS), tl.num_programs(0)):
        row = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        mask = (row < M) & inside
        g = tl.load(elements(dy, row, column, dy_row, dy_column, DY_ROW), mask=mask, other=0.0)
        g = g.to(tl.float32)
        if dbias_parts is not None:
            dbias += g
        if dweight_parts is not None:
            xhat = tl.load(elements(x, row, column, x_row, x_column, X_ROW), mask=mask, other=0.0)
            xhat = xhat.to(tl.float32)
            if not RMS:
                xhat = xhat - tl.load(mean + row, mask=row < M, other=0.0)
            dweight += g * xhat * tl.load(rstd + row, mask=row < M, other=0.0)
    part = tl.program_id(0).to(tl.int64) * width + column
    if dweight_parts is not None:
        tl.store(dweight_parts + part, tl.sum(dweight, axis=0, keep_dims=True), mask=inside)
    if dbias_parts is not None:
        tl.store(dbias_parts + part, tl.sum(dbias, axis=0, keep_dims=True), mask=inside)


def plan_forward(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    y: Tensor, s: Tensor | None, mean: Tensor | None, rstd: Tensor, eps: float, rms: bool,
) -> Launch:  # fmt: skip
    """As `forward.plan`, for rows of any length."""
    rows, width = x.shape
    other = x if residual is None else residual
    return Launch(
        kernel=wide_forward_kernel,
        grid=(rows,),
        arguments={
            "x": x, "residual": residual, "weight": weight, "bias": bias,
            "y": y, "s": s, "mean": mean, "rstd": rstd, "D": width, "eps": eps,
            **layout(width, x=x, residual=other),
            "RMS": rms, "BLOCK": PIECE.block,
        },
        tile=PIECE,
    )  # fmt: skip


def plan_backward(
    dy: Tensor, ds: Tensor | None, x: Tensor, weight: Tensor | None, mean: Tensor | None,
    rstd: Tensor, dx: Tensor, rms: bool,
) -> Launch:  # fmt: skip
    """Fills dx (M, D), for rows of any length."""
    rows, width = x.shape
    other = x if ds is None else ds
    return Launch(
        kernel=wide_backward_kernel,
        grid=(rows,),
        arguments={
            "dy": dy, "ds": ds, "x": x, "weight": weight, "mean": mean, "rstd": rstd, "dx": dx,
            "D": width, **layout(width, dy=dy, ds=other, x=x), "RMS": rms, "BLOCK": PIECE.block,
        },
        tile=PIECE,
    )  # fmt: skip


def plan_parts(
    dy: Tensor, x: Tensor, mean: Tensor | None, rstd: Tensor,
    dweight_parts: Tensor | None, dbias_parts: Tensor | None, rms: bool, programs: int,
) -> Launch:  # fmt: skip
    """Fills the parts (programs, D) of dweight and dbias, for rows of any length."""
    rows, width = x.shape
    return Launch(
        kernel=wide_parts_kernel,
        grid=(programs, triton.cdiv(width, COLUMNS.block)),
        arguments={
            "dy": dy, "x": x, "mean": mean, "rstd": rstd,
            "dweight_parts": dweight_parts, "dbias_parts": dbias_parts,
            "M": rows, "D": width, **layout(width, dy=dy, x=x),
            "RMS": rms, "ROWS": COLUMNS.rows, "BLOCK": COLUMNS.block,
        },
        tile=COLUMNS,
    )  # fmt: skip
