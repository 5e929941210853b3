"""The forward kernel: LayerNorm or RMSNorm of x, or of x + residual, in one pass over memory.

A norm does a dozen operations on each number, so memory alone limits it: at best it is as fast as
a copy. Everything is arranged to read x once, write y once, and keep the row in registers between.
"""

from __future__ import annotations

import triton
import triton.language as tl

from solutions.triton_kernels.fused.launch import Launch, Tensor, forward_tile, layout


@triton.jit
def elements(tensor, row, column, row_stride, column_stride, ROW_STRIDE: tl.constexpr):
    """Addresses of a tile of `tensor`; ROW_STRIDE is None if only run time knows the strides.

    row is int64: row * stride passes 2**31 in a bfloat16 tensor of 4 GiB. So does column * stride
    where a matrix is read along its other axis.
    """
    if ROW_STRIDE is None:
        address = tensor + row * row_stride + column.to(tl.int64) * column_stride
    else:
        address = tensor + row * ROW_STRIDE + column
    return address


# M changes with every batch: a kernel that is compiled anew for M = 1 or a multiple of 16 stalls.
@triton.jit(do_not_specialize=["M", "eps"])
def norm_forward_kernel(
    x, residual, weight, bias, y, s, mean, rstd,
    M, D, x_row, x_column, residual_row, residual_column, eps,
    WIDTH: tl.constexpr, X_ROW: tl.constexpr, RESIDUAL_ROW: tl.constexpr,
    RMS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    width = D if WIDTH is None else WIDTH
    # Rows lie on grid axis 0, which may have 2**31 - 1 programs. The other axes stop at 65535.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = column < width
    mask = (row < M) & inside

    # Everything becomes float32 on arrival: sums of float16 overflow, sums of bfloat16 lose bits.
    value = tl.load(elements(x, row, column, x_row, x_column, X_ROW), mask=mask, other=0.0)
    value = value.to(tl.float32)
    if residual is not None:
        at = elements(residual, row, column, residual_row, residual_column, RESIDUAL_ROW)
        value += tl.load(at, mask=mask, other=0.0).to(tl.float32)
        # Stored rounded. The statistics below see the sum as it was before.
        tl.store(s + row * width + column, value, mask=mask)
    # Asked for before the sums, weight and bias arrive while these are taken. A long row leaves
    # no registers for them to wait in; they come late, but from the cache: all rows share them.
    if weight is not None and not LONG:
        w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    if bias is not None and not LONG:
        b = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)

    # Two passes, over registers. Lanes past the end hold 0, right for the first sum; in the second
    # they would add mean**2 each, so they are set to 0 again.
    if not RMS:
        centre = tl.sum(value, axis=1, keep_dims=True) / width
        tl.store(mean + row, centre, mask=row < M)
        value = tl.where(mask, value - centre, 0.0)
    mean_square = tl.sum(value * value, axis=1, keep_dims=True) / width
    # Compilers that wrap this kernel have passed eps in float64, and all after it became slow.
    scale = tl.rsqrt(mean_square + tl.cast(eps, tl.float32))
    tl.store(rstd + row, scale, mask=row < M)

    out = value * scale
    if weight is not None:
        if LONG:
            w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
        out = out * w
    if bias is not None:
        if LONG:
            b = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
        out = out + b
    tl.store(y + row * width + column, out, mask=mask)


def plan(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    y: Tensor, s: Tensor | None, mean: Tensor | None, rstd: Tensor, eps: float, rms: bool,
) -> Launch:  # fmt: skip
    """The launch that fills y, s (M, D) and mean, rstd (M,).

    Args:
        x, residual: (M, D), any strides.
        weight, bias: (D,), contiguous, or None.
        y, s, mean, rstd: contiguous, to be written; s only with a residual, mean unless `rms`.
    """
    rows, width = x.shape
    tile = forward_tile(width)
    other = x if residual is None else residual
    return Launch(
        kernel=norm_forward_kernel,
        grid=(triton.cdiv(rows, tile.rows),),
        arguments={
            "x": x, "residual": residual, "weight": weight, "bias": bias,
            "y": y, "s": s, "mean": mean, "rstd": rstd,
            "M": rows, "D": width, "eps": eps, **layout(width, x=x, residual=other),
            "RMS": rms, "ROWS": tile.rows, "BLOCK": tile.block, "LONG": tile.rows == 1,
        },
        tile=tile,
    )  # fmt: skip
