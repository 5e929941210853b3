"""Kernels whose programs take a tile of four rows: 2-D blocks and masks, reductions over axis 1."""

import torch
import triton
import triton.language as tl

ROWS = 4


@triton.jit
def _tile(x_ptr, stride, M, D, R: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    c = tl.arange(0, B)
    mask = (r < M)[:, None] & (c < D)[None, :]
    x = tl.load(x_ptr + r[:, None] * stride + c[None, :], mask=mask, other=0.0)
    return r, c, mask, x.to(tl.float32)


@triton.jit
def _sum_kernel(x_ptr, out_ptr, stride, M, D, R: tl.constexpr, B: tl.constexpr):
    r, _, _, x = _tile(x_ptr, stride, M, D, R, B)
    tl.store(out_ptr + r, tl.sum(x, axis=1), mask=r < M)


@triton.jit
def _affine(y, c, D, w_ptr, b_ptr):
    if w_ptr is not None:
        y *= tl.load(w_ptr + c, mask=c < D, other=1.0).to(tl.float32)[None, :]
    if b_ptr is not None:
        y += tl.load(b_ptr + c, mask=c < D, other=0.0).to(tl.float32)[None, :]
    return y


@triton.jit
def _norm_kernel(
    x_ptr, res_ptr, w_ptr, b_ptr, y_ptr, s_ptr, mean_ptr, rstd_ptr, stride, res_stride, M, D, eps,
    CENTER: tl.constexpr, R: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    r, c, mask, x = _tile(x_ptr, stride, M, D, R, B)
    at = r[:, None] * D + c[None, :]
    if res_ptr is not None:
        _, _, _, res = _tile(res_ptr, res_stride, M, D, R, B)
        x += res
        tl.store(s_ptr + at, x.to(s_ptr.dtype.element_ty), mask=mask)
    if CENTER:
        mean = tl.sum(x, axis=1) / D
        tl.store(mean_ptr + r, mean, mask=r < M)
        x = tl.where(mask, x - mean[:, None], 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / D + eps)
    tl.store(rstd_ptr + r, rstd, mask=r < M)
    y = _affine(x * rstd[:, None], c, D, w_ptr, b_ptr)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


def _rows(x):
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def row_sum(x):
    rows = _rows(x)
    m, d = rows.shape
    out = x.new_empty(x.shape[:-1], dtype=torch.float32)
    _sum_kernel[(triton.cdiv(m, ROWS),)](
        rows, out, rows.stride(0), m, d, R=ROWS, B=triton.next_power_of_2(d)
    )
    return out


def _norm(x, residual, weight, bias, eps, center):
    rows, res = _rows(x), None if residual is None else _rows(residual)
    m, d = rows.shape
    y, s = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    mean, rstd = (x.new_empty(x.shape[:-1], dtype=torch.float32) for _ in range(2))
    _norm_kernel[(triton.cdiv(m, ROWS),)](
        rows, res, weight, bias, y, s, mean, rstd,
        rows.stride(0), 0 if res is None else res.stride(0), m, d, eps,
        CENTER=center, R=ROWS, B=triton.next_power_of_2(d), num_warps=2,
    )  # fmt: skip
    return y, s, mean, rstd


def layer_norm_forward(x, weight, bias, eps):
    y, _, mean, rstd = _norm(x, None, weight, bias, eps, True)
    return y, mean, rstd


def rms_norm_forward(x, weight, eps):
    y, _, _, rstd = _norm(x, None, weight, None, eps, False)
    return y, rstd


def add_layer_norm(x, residual, weight, bias, eps):
    return _norm(x, residual, weight, bias, eps, True)


@triton.jit
def _backward_kernel(
    g_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, g_stride, x_stride, M, D,
    R: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    r, c, mask, x = _tile(x_ptr, x_stride, M, D, R, B)
    _, _, _, g = _tile(g_ptr, g_stride, M, D, R, B)
    mean = tl.load(mean_ptr + r, mask=r < M, other=0.0)[:, None]
    rstd = tl.load(rstd_ptr + r, mask=r < M, other=0.0)[:, None]
    x_hat = (x - mean) * rstd
    part = tl.program_id(0) * D + c
    tl.store(dw_ptr + part, tl.sum(g * x_hat, axis=0), mask=c < D)
    tl.store(db_ptr + part, tl.sum(g, axis=0), mask=c < D)
    g = _affine(g, c, D, w_ptr, None)
    a = tl.sum(g, axis=1)[:, None] / D
    b = tl.sum(g * x_hat, axis=1)[:, None] / D
    dx = (g - a - x_hat * b) * rstd
    tl.store(dx_ptr + r[:, None] * D + c[None, :], dx.to(dx_ptr.dtype.element_ty), mask=mask)


def layer_norm_backward(grad_out, x, weight, mean, rstd):
    g, rows = _rows(grad_out), _rows(x)
    m, d = rows.shape
    tiles = triton.cdiv(m, ROWS)
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dw, db = torch.zeros(2, tiles, d, device=x.device)
    _backward_kernel[(tiles,)](
        g, rows, weight, mean, rstd, grad_x, dw, db, g.stride(0), rows.stride(0), m, d,
        R=ROWS, B=triton.next_power_of_2(d),
    )  # fmt: skip
    dw, db = dw.sum(0), db.sum(0)
    if weight is None:
        return grad_x, None, db
    return grad_x, dw.to(weight.dtype), db.to(weight.dtype)


STYLE = {
    f.__name__: f
    for f in (row_sum, layer_norm_forward, layer_norm_backward, rms_norm_forward, add_layer_norm)
}
