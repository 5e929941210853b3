"""A fixed number of programs in every kernel, each of which walks over its rows."""

import torch
import triton
import triton.language as tl

PROGRAMS = 16


@triton.jit
def _sum_kernel(x_ptr, out_ptr, stride, M, D, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    while row < M:
        x = tl.load(x_ptr + row * stride + cols, mask=cols < D, other=0.0)
        tl.store(out_ptr + row, tl.sum(x.to(tl.float32), axis=0))
        row += tl.num_programs(0)


@triton.jit
def _norm_kernel(
    x_ptr, r_ptr, w_ptr, b_ptr, y_ptr, s_ptr, mean_ptr, rstd_ptr, x_stride, r_stride, M, D, eps,
    RMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    # weight and bias are loaded once for all rows of the program
    w = tl.full([BLOCK], 1.0, tl.float32)
    b = tl.zeros([BLOCK], tl.float32)
    if w_ptr is not None:
        w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if b_ptr is not None:
        b = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    row = tl.program_id(0).to(tl.int64)
    while row < M:
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
        if r_ptr is not None:
            x += tl.load(r_ptr + row * r_stride + cols, mask=mask, other=0.0).to(tl.float32)
            tl.store(s_ptr + row * D + cols, x, mask=mask)
        if RMS:
            var = tl.sum(x * x, axis=0) / D
        else:
            mean = tl.sum(x, axis=0) / D
            tl.store(mean_ptr + row, mean)
            x = tl.where(mask, x - mean, 0.0)
            var = tl.sum(x * x, axis=0) / D
        rstd = 1 / tl.sqrt_rn(var + eps)
        tl.store(rstd_ptr + row, rstd)
        tl.store(y_ptr + row * D + cols, x * rstd * w + b, mask=mask)
        row += tl.num_programs(0)


def _rows(x):
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


def row_sum(x):
    rows = _rows(x)
    M, D = rows.shape
    out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(D)
    _sum_kernel[(PROGRAMS,)](rows, out, rows.stride(0), M, D, BLOCK=block)
    return out


def _norm(x, residual, weight, bias, eps, rms=False):
    rows = _rows(x)
    res = None if residual is None else _rows(residual)
    M, D = rows.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    s = None if residual is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    mean, rstd = torch.empty((2, *x.shape[:-1]), device=x.device)
    _norm_kernel[(PROGRAMS,)](
        rows, res, weight, bias, y, s, mean, rstd,
        rows.stride(0), 0 if res is None else res.stride(0), M, D, eps,
        RMS=rms, BLOCK=triton.next_power_of_2(D),
    )  # fmt: skip
    return y, s, mean, rstd


def layer_norm_forward(x, weight, bias, eps):
    y, _, mean, rstd = _norm(x, None, weight, bias, eps)
    return y, mean, rstd


def rms_norm_forward(x, weight, eps):
    y, _, _, rstd = _norm(x, None, weight, None, eps, rms=True)
    return y, rstd


def add_layer_norm(x, residual, weight, bias, eps):
    return _norm(x, residual, weight, bias, eps)


@triton.jit
def _backward_kernel(
    g_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, g_stride, x_stride, M, D,
    PER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program p takes PER rows that lie together; those without a row store zeros."""
    p = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    for k in tl.range(PER):
        row = p * PER + k
        if row < M:
            g = tl.load(g_ptr + row * g_stride + cols, mask=mask, other=0.0).to(tl.float32)
            x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
            rstd = tl.load(rstd_ptr + row)
            x_hat = (x - tl.load(mean_ptr + row)) * rstd
            db += g
            dw += g * x_hat
            if w_ptr is not None:
                g *= tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
            dx = g - x_hat * (tl.sum(g * x_hat, axis=0) / D) - tl.sum(g, axis=0) / D
            tl.store(dx_ptr + row * D + cols, dx * rstd, mask=mask)
    tl.store(dw_ptr + p * D + cols, dw, mask=mask)
    tl.store(db_ptr + p * D + cols, db, mask=mask)


def layer_norm_backward(grad_out, x, weight, mean, rstd):
    g, rows = _rows(grad_out), _rows(x)
    M, D = rows.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dw, db = torch.empty((2, PROGRAMS, D), device=x.device)
    _backward_kernel[(PROGRAMS,)](
        g, rows, weight, mean, rstd, dx, dw, db, g.stride(0), rows.stride(0), M, D,
        PER=max(1, triton.cdiv(M, PROGRAMS)), BLOCK=triton.next_power_of_2(D),
    )  # fmt: skip
    of_weight = None if weight is None else dw.sum(0).to(weight.dtype)
    return dx, of_weight, db.sum(0).to(torch.float32 if weight is None else weight.dtype)


STYLE = {
    f.__name__: f
    for f in (row_sum, layer_norm_forward, layer_norm_backward, rms_norm_forward, add_layer_norm)
}
