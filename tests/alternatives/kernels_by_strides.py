"""Kernels that walk any layout by two strides, copy nothing, and sum partial rows in a kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def _row(x_ptr, row, row_stride, col_stride, D, B: tl.constexpr):
    cols = tl.arange(0, B)
    offset = row * row_stride + cols.to(tl.int64) * col_stride
    return tl.load(x_ptr + offset, mask=cols < D, other=0).to(tl.float32)


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _sum_kernel(x_ptr, out_ptr, row_stride, col_stride, D, B: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    x = _row(x_ptr, row, row_stride, col_stride, D, B)
    tl.store(out_ptr + row, tl.reduce(x, 0, _add))


@triton.jit
def _norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, row_stride, col_stride, D, eps, B: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, B)
    x = _row(x_ptr, row, row_stride, col_stride, D, B)
    mean = 0.0
    if mean_ptr is not None:
        mean = tl.sum(x) / D
        tl.store(mean_ptr + row, mean)
    # The lanes beyond D take the value of the mean: they deviate by nothing.
    deviation = tl.where(cols < D, x, mean) - mean
    rstd = tl.math.rsqrt(tl.sum(deviation * deviation) / D + eps)
    tl.store(rstd_ptr + row, rstd)
    y = deviation * rstd
    if w_ptr is not None:
        y = y * tl.load(w_ptr + cols, cols < D, 0.0).to(tl.float32)
    if b_ptr is not None:
        y = y + tl.load(b_ptr + cols, cols < D, 0.0).to(tl.float32)
    tl.store(y_ptr + row * D + cols, y, cols < D)


@triton.jit
def _add_norm_kernel(
    x_ptr, r_ptr, w_ptr, b_ptr, y_ptr, s_ptr, mean_ptr, rstd_ptr, x_row, x_col, r_row, r_col, D,
    eps, B: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, B)
    inside = cols < D
    s = _row(x_ptr, row, x_row, x_col, D, B) + _row(r_ptr, row, r_row, r_col, D, B)
    mean = tl.sum(s) / D
    deviation = (s - mean) * inside
    rstd = tl.rsqrt(tl.sum(deviation * deviation) / D + eps)
    y = deviation * rstd
    if w_ptr is not None:
        y = y * tl.load(w_ptr + cols, inside, 0.0).to(tl.float32)
    if b_ptr is not None:
        y = y + tl.load(b_ptr + cols, inside, 0.0).to(tl.float32)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    tl.store(s_ptr + row * D + cols, s, inside)
    tl.store(y_ptr + row * D + cols, y, inside)


@triton.jit
def _backward_kernel(
    g_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, part_ptr, g_row, g_col, x_row, x_col, D,
    B: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, B)
    g = _row(g_ptr, row, g_row, g_col, D, B)
    rstd = tl.load(rstd_ptr + row)
    x_hat = (_row(x_ptr, row, x_row, x_col, D, B) - tl.load(mean_ptr + row)) * rstd
    # One partial row of grad_weight, then one of grad_bias, for each row of x.
    tl.store(part_ptr + 2 * row * D + cols, g * x_hat, cols < D)
    tl.store(part_ptr + (2 * row + 1) * D + cols, g, cols < D)
    if w_ptr is not None:
        g = g * tl.load(w_ptr + cols, cols < D, 0.0).to(tl.float32)
    dx = rstd * (g - (tl.sum(g) + x_hat * tl.sum(g * x_hat)) / D)
    tl.store(dx_ptr + row * D + cols, dx, cols < D)


@triton.jit
def _columns_kernel(part_ptr, out_ptr, M, N, B: tl.constexpr):
    """Stage two: each program adds up a block of columns."""
    cols = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    row = 0
    while row < M:
        total += tl.load(part_ptr + row * N + cols, cols < N, 0.0)
        row += 1
    tl.store(out_ptr + cols, total, cols < N)


def _matrix(x):
    return x.reshape(-1, x.shape[-1])


def _empty(x, shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=x.device)


def row_sum(x):
    m = _matrix(x)
    out = _empty(x, m.shape[0])
    B = triton.next_power_of_2(m.shape[1])
    _sum_kernel[lambda meta: (m.shape[0],)](m, out, *m.stride(), m.shape[1], B)
    return out.view(x.shape[:-1])


def layer_norm_forward(x, weight, bias, eps):
    m = _matrix(x)
    y, mean, rstd = _empty(x, x.shape, x.dtype), _empty(x, x.shape[:-1]), _empty(x, x.shape[:-1])
    B = triton.next_power_of_2(m.shape[1])
    _norm_kernel[(m.shape[0],)](m, weight, bias, y, mean, rstd, *m.stride(), m.shape[1], eps, B)
    return y, mean, rstd


def rms_norm_forward(x, weight, eps):
    m = _matrix(x)
    y, rstd = _empty(x, x.shape, x.dtype), _empty(x, x.shape[:-1])
    B = triton.next_power_of_2(m.shape[1])
    _norm_kernel[(m.shape[0],)](m, weight, None, y, None, rstd, *m.stride(), m.shape[1], eps, B)
    return y, rstd


def add_layer_norm(x, residual, weight, bias, eps):
    m, r = _matrix(x), _matrix(residual)
    y, s = _empty(x, x.shape, x.dtype), _empty(x, x.shape, x.dtype)
    mean, rstd = _empty(x, x.shape[:-1]), _empty(x, x.shape[:-1])
    _add_norm_kernel[(m.shape[0],)](
        m, r, weight, bias, y, s, mean, rstd, *m.stride(), *r.stride(), m.shape[1], eps,
        triton.next_power_of_2(m.shape[1]),
    )  # fmt: skip
    return y, s, mean, rstd


def layer_norm_backward(grad_out, x, weight, mean, rstd):
    g, m = _matrix(grad_out), _matrix(x)
    M, D = m.shape
    dx, parts, sums = _empty(x, x.shape, x.dtype), _empty(x, (M, 2, D)), _empty(x, (2, D))
    _backward_kernel[(M,)](
        g, m, weight, mean, rstd, dx, parts, *g.stride(), *m.stride(), D,
        triton.next_power_of_2(D),
    )  # fmt: skip
    _columns_kernel[(triton.cdiv(2 * D, 512),)](parts, sums, M, 2 * D, 512)
    if weight is None:
        return dx, None, sums[1]
    return dx, sums[0].to(weight.dtype), sums[1].to(weight.dtype)


STYLE = {
    f.__name__: f
    for f in (row_sum, layer_norm_forward, layer_norm_backward, rms_norm_forward, add_layer_norm)
}
