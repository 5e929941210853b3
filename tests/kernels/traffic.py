"""One normalization of a row, three ways: bytes moved are what tells them apart."""

import torch
import triton
import triton.language as tl


@triton.jit
def one_block(x, weight, bias, y, D: tl.constexpr, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    mask = cols < D
    value = tl.load(x + row * D + cols, mask=mask, other=0.0).to(tl.float32)
    centered = tl.where(mask, value - tl.sum(value, axis=0) / D, 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, axis=0) / D + 1e-5)
    scale = tl.load(weight + cols, mask=mask, other=0.0).to(tl.float32)
    shift = tl.load(bias + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + row * D + cols, centered * rstd * scale + shift, mask=mask)


@triton.jit
def three_sweeps(x, weight, bias, y, D: tl.constexpr, B: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, D, B):
        cols = start + lanes
        total += tl.load(x + row * D + cols, mask=cols < D, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / D
    total = tl.zeros((B,), tl.float32)
    for start in range(0, D, B):
        cols = start + lanes
        value = tl.load(x + row * D + cols, mask=cols < D, other=0.0).to(tl.float32)
        value = tl.where(cols < D, value - mean, 0.0)
        total += value * value
    rstd = tl.rsqrt(tl.sum(total, axis=0) / D + 1e-5)
    for start in range(0, D, B):
        cols = start + lanes
        mask = cols < D
        value = tl.load(x + row * D + cols, mask=mask, other=0.0).to(tl.float32)
        scale = tl.load(weight + cols, mask=mask, other=0.0).to(tl.float32)
        shift = tl.load(bias + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + row * D + cols, (value - mean) * rstd * scale + shift, mask=mask)


@triton.jit
def tile(x, weight, bias, y, M, D: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    row = (tl.program_id(0) * R + tl.arange(0, R))[:, None]
    cols = tl.arange(0, B)[None, :]
    mask = (row < M) & (cols < D)
    value = tl.load(x + row * D + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=1)[:, None] / D
    centered = tl.where(mask, value - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, axis=1)[:, None] / D + 1e-5)
    # Broadcast pointers: every row of the tile asks for the same weights.
    scale = tl.load(weight + cols + 0 * row, mask=mask, other=0.0).to(tl.float32)
    shift = tl.load(bias + cols, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(y + row * D + cols, centered * rstd * scale + shift, mask=mask)


def run(name: str, dtype: torch.dtype, rows: int = 6, d: int = 1000) -> tuple:
    generator = torch.Generator().manual_seed(1)
    x, weight, bias = (
        torch.randn(size, generator=generator).to(dtype) for size in ((rows, d), (d,), (d,))
    )
    y = torch.empty_like(x)
    if name == "one_block":
        one_block[(rows,)](x, weight, bias, y, D=d, B=1024)
    elif name == "three_sweeps":
        three_sweeps[(rows,)](x, weight, bias, y, D=d, B=256)
    else:
        tile[(-(-rows // 4),)](x, weight, bias, y, rows, D=d, R=4, B=1024)
    exact = torch.nn.functional.layer_norm(x.double(), (d,), weight.double(), bias.double(), 1e-5)
    return y, exact
