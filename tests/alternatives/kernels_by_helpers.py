"""Kernels made of small jit functions, a block size by heuristics, moments merged from halves."""

import torch
import triton
import triton.language as tl

BLOCK = {"BLOCK": lambda arguments: triton.next_power_of_2(arguments["D"])}


@triton.jit
def _load(ptr, offset, D, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    return tl.load(ptr + offset + cols, mask=cols < D, other=0.0, cache_modifier=".cg").to(
        tl.float32
    )


@triton.jit
def _store(ptr, offset, value, D, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(ptr + offset + cols, value.to(ptr.dtype.element_ty), mask=cols < D)


@triton.jit
def _mean(x, D):
    return tl.sum(x, axis=0) / D


@triton.jit
def _moments(x, D, BLOCK: tl.constexpr):
    """Mean and variance: those of even and odd columns, merged by Chan's formula."""
    cols = tl.arange(0, BLOCK)
    even, odd = (cols < D) & (cols % 2 == 0), (cols < D) & (cols % 2 == 1)
    n_odd = D // 2
    n_even = D - n_odd
    mean_even = tl.sum(tl.where(even, x, 0.0), axis=0) / n_even
    mean_odd = tl.sum(tl.where(odd, x, 0.0), axis=0) / tl.maximum(n_odd, 1)
    apart = tl.where(n_odd > 0, mean_odd - mean_even, 0.0)
    a = tl.where(even, x - mean_even, 0.0)
    b = tl.where(odd, x - mean_odd, 0.0)
    m2 = tl.sum(a * a + b * b, axis=0) + apart * apart * n_even * (n_odd / D)
    return mean_even + apart * (n_odd / D), m2 / D


@triton.jit
def _finish(centered, rstd, w_ptr, b_ptr, D, BLOCK: tl.constexpr):
    y = centered * rstd
    if w_ptr is not None:
        y *= _load(w_ptr, 0, D, BLOCK)
    if b_ptr is not None:
        y += _load(b_ptr, 0, D, BLOCK)
    return y


@triton.heuristics(BLOCK)
@triton.jit
def _sum_kernel(x_ptr, out_ptr, stride, D, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    tl.store(out_ptr + i, tl.sum(_load(x_ptr, i * stride, D, BLOCK), axis=0))


@triton.heuristics(BLOCK)
@triton.jit
def _layer_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride, D, eps, BLOCK: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64)
    x = _load(x_ptr, i * stride, D, BLOCK)
    mean, var = _moments(x, D, BLOCK)
    rstd = tl.rsqrt(var + eps)
    tl.store(mean_ptr + i, mean)
    tl.store(rstd_ptr + i, rstd)
    _store(y_ptr, i * D, _finish(x - mean, rstd, w_ptr, b_ptr, D, BLOCK), D, BLOCK)


@triton.heuristics(BLOCK)
@triton.jit
def _rms_kernel(x_ptr, w_ptr, y_ptr, rstd_ptr, stride, D, eps, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    x = _load(x_ptr, i * stride, D, BLOCK)
    rstd = tl.rsqrt(_mean(x * x, D) + eps)
    tl.store(rstd_ptr + i, rstd)
    _store(y_ptr, i * D, _finish(x, rstd, w_ptr, None, D, BLOCK), D, BLOCK)


@triton.heuristics(BLOCK)
@triton.jit
def _add_kernel(
    x_ptr, r_ptr, w_ptr, b_ptr, y_ptr, s_ptr, mean_ptr, rstd_ptr, x_stride, r_stride, D, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    s = _load(x_ptr, i * x_stride, D, BLOCK) + _load(r_ptr, i * r_stride, D, BLOCK)
    _store(s_ptr, i * D, s, D, BLOCK)
    mean, var = _moments(s, D, BLOCK)
    rstd = tl.rsqrt(var + eps)
    tl.store(mean_ptr + i, mean)
    tl.store(rstd_ptr + i, rstd)
    _store(y_ptr, i * D, _finish(s - mean, rstd, w_ptr, b_ptr, D, BLOCK), D, BLOCK)


@triton.heuristics(BLOCK)
@triton.jit
def _backward_kernel(
    g_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, g_stride, x_stride, M, D,
    BLOCK: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    db = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(p, M, tl.num_programs(0)):
        i = tl.cast(k, tl.int64)
        rstd = tl.load(rstd_ptr + i)
        x = _load(x_ptr, i * x_stride, D, BLOCK)
        x_hat = tl.where(cols < D, (x - tl.load(mean_ptr + i)) * rstd, 0.0)
        g = _load(g_ptr, i * g_stride, D, BLOCK)
        dw = tl.fma(g, x_hat, dw)
        db = db + g
        if w_ptr is not None:
            g = g * _load(w_ptr, 0, D, BLOCK)
        g -= _mean(g, D) + x_hat * _mean(g * x_hat, D)
        _store(dx_ptr, i * D, g * rstd, D, BLOCK)
    _store(dw_ptr, p * D, dw, D, BLOCK)
    _store(db_ptr, p * D, db, D, BLOCK)


def _dense(x):
    x = x.reshape(-1, x.shape[-1])
    return x.contiguous() if x.stride(1) != 1 else x


def _new(x, *shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=x.device)


def row_sum(x):
    m = _dense(x)
    out = _new(x, *x.shape[:-1])
    _sum_kernel[(len(m),)](m, out, m.stride(0), m.shape[1])
    return out


def layer_norm_forward(x, weight, bias, eps):
    m = _dense(x)
    y, mean, rstd = _new(x, *x.shape, dtype=x.dtype), _new(x, *x.shape[:-1]), _new(x, *x.shape[:-1])
    _layer_kernel[(len(m),)](m, weight, bias, y, mean, rstd, m.stride(0), m.shape[1], eps)
    return [y, mean, rstd]


def rms_norm_forward(x, weight, eps):
    m = _dense(x)
    y, rstd = _new(x, *x.shape, dtype=x.dtype), _new(x, *x.shape[:-1])
    _rms_kernel[(len(m),)](m, weight, y, rstd, m.stride(0), m.shape[1], eps)
    return y, rstd


def add_layer_norm(x, residual, weight, bias, eps):
    m, r = _dense(x), _dense(residual)
    y, s = _new(x, *x.shape, dtype=x.dtype), _new(x, *x.shape, dtype=x.dtype)
    mean, rstd = _new(x, *x.shape[:-1]), _new(x, *x.shape[:-1])
    _add_kernel[(len(m),)](
        m, r, weight, bias, y, s, mean, rstd, m.stride(0), r.stride(0), m.shape[1], eps
    )
    return y, s, mean, rstd


def layer_norm_backward(grad_out, x, weight, mean, rstd):
    g, m = _dense(grad_out), _dense(x)
    programs = min(len(m), 64)
    dx = _new(x, *x.shape, dtype=x.dtype)
    dw, db = _new(x, programs, m.shape[1]), _new(x, programs, m.shape[1])
    _backward_kernel[(programs,)](
        g, m, weight, mean, rstd, dx, dw, db, g.stride(0), m.stride(0), *m.shape
    )
    if weight is None:
        return dx, None, torch.sum(db, dim=0)
    return dx, torch.sum(dw, dim=0).to(weight.dtype), torch.sum(db, dim=0).to(weight.dtype)


STYLE = {
    f.__name__: f
    for f in (row_sum, layer_norm_forward, layer_norm_backward, rms_norm_forward, add_layer_norm)
}
