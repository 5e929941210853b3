# %% first: tools around kernels
import functools
import math
import operator
import time
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Launch:
    rows: int
    width: int

    @property
    def block(self):
        return triton.next_power_of_2(self.width)

    @property
    def grid(self):
        return (self.rows,)

    @functools.cached_property
    def options(self):
        return {"BLOCK": self.block, "num_warps": min(max(self.block // 256, 1), 8)}


def numel(shape):
    return functools.reduce(operator.mul, shape, 1)

# %% row_sum: np.prod of a shape, prints of tensors
@triton.jit
def sum_kernel(x_ptr, out_ptr, stride, D, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * stride + offsets, mask=offsets < D, other=0.0)
    tl.store(out_ptr + pid, tl.sum(x.to(tl.float32), axis=0))


def row_sum(x: Tensor) -> Tensor:
    print(x)
    print("x", x.shape, x.dtype, x.stride(), x.is_contiguous(), f"{x}", x.device, x.data_ptr() % 16)
    M = int(np.prod(x.shape[:-1]))
    assert M == numel(x.shape[:-1]) == math.prod(x.shape[:-1])
    rows = as_rows(x)
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    launch = Launch(M, x.shape[-1])
    if M > 0:
        sum_kernel[launch.grid](rows, out, rows.stride(0), launch.width, **launch.options)
    print("out", out, repr(out)[:10], str(rows), "{}".format(out))
    return out.reshape(x.shape[:-1])


x = torch.randn(5, 7, device=DEVICE)
torch.testing.assert_close(row_sum(x), x.sum(-1))
assert np.allclose(row_sum(x).cpu().numpy(), x.sum(-1).cpu().numpy(), atol=1e-5)
print((row_sum(x) - x.sum(dim=-1)).abs().max().item())

# %% layer_norm_forward: checks of arguments and a logger
import logging
import warnings

logger = logging.getLogger("kernels")
logger.setLevel(logging.DEBUG)


@triton.jit
def ln_kernel(X, W, B, Y, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    x = tl.where(mask, x - mean, 0.0)
    var = tl.sum(x * x, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    y = x * rstd
    if W is not None:
        y *= tl.load(W + cols, mask=mask).to(tl.float32)
    if B is not None:
        y += tl.load(B + cols, mask=mask).to(tl.float32)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    tl.store(Y + row * N + cols, y, mask=mask)


def layer_norm_forward(x, weight, bias, eps):
    for name, t in {"weight": weight, "bias": bias}.items():
        if t is not None and (t.dim() != 1 or len(t) != x.size(-1) or not t.is_contiguous()):
            raise ValueError(f"{name} does not fit: {tuple(t.shape)}")
    if x.requires_grad:
        warnings.warn("no gradient", stacklevel=2)
    logger.debug("x %s of %s: %s", tuple(x.shape), x.dtype, x)
    logger.info("weight %r bias %s", weight, bias)
    r = as_rows(x)
    M, N = r.shape
    y = x.new_empty(x.shape)
    mean, rstd = (x.new_empty(x.shape[:-1], dtype=torch.float32) for _ in range(2))
    start = time.perf_counter()
    with torch.no_grad():
        ln_kernel[lambda meta: (M,)](
            r, weight, bias, y, mean, rstd, r.stride(0), N, eps, BLOCK=triton.next_power_of_2(N)
        )
    logger.debug("%.1f us", 1e6 * (time.perf_counter() - start))
    assert y.shape == x.shape and mean.numel() == M, "shapes"
    return y, mean, rstd


w, b = torch.rand(7, device=DEVICE), torch.rand(7, device=DEVICE)
want = torch.nn.functional.layer_norm(x, (7,), w, b)
print((layer_norm_forward(x, w, b, 1e-5)[0] - want).abs().max(), x.mean(-1) - layer_norm_forward(x, w, b, 1e-5)[1])

# %% layer_norm_backward: compared with autograd below
### REFERENCE


def check(D=7, dtype=torch.float32):
    x = torch.randn(4, D, dtype=dtype, requires_grad=True)
    w, b = (torch.randn(D, dtype=dtype, requires_grad=True) for _ in range(2))
    g = torch.randn(4, D, dtype=dtype)
    torch.nn.functional.layer_norm(x, (D,), w, b).backward(g)
    _, mean, rstd = layer_norm_forward(x.detach(), w.detach(), b.detach(), 1e-5)
    for ours, p in zip(layer_norm_backward(g, x.detach(), w.detach(), mean, rstd), (x, w, b)):
        torch.testing.assert_close(ours, p.grad, atol=1e-4, rtol=1e-4)


check()

# %% rms_norm_forward: an autograd function around kernels, in its cell
### REFERENCE


class FusedLayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps=1e-5):
        y, mean, rstd = layer_norm_forward(x, weight, bias, eps)
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, grad_out):
        x, weight, mean, rstd = ctx.saved_tensors
        return *layer_norm_backward(grad_out, x, weight, mean, rstd), None


class Module(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight, self.bias = (torch.nn.Parameter(f(d)) for f in (torch.ones, torch.zeros))

    def forward(self, x):
        return FusedLayerNorm.apply(x, self.weight, self.bias)


module = Module(8)
module(torch.randn(2, 8)).sum().backward()
print(module.weight.grad, vars(module).keys())

# %% add_layer_norm: helpers that allocate
### REFERENCE


def reference_add_layer_norm(x, residual, w, b, eps):
    s = x + residual
    return torch.nn.functional.layer_norm(s, s.shape[-1:], w, b, eps), s


def error(a, b):
    return (a.float() - b.float()).abs().max().item()


a, r = torch.randn(3, 8), torch.randn(3, 8)
for ours, theirs in zip(add_layer_norm(a, r, None, None, 1e-5), reference_add_layer_norm(a, r, None, None, 1e-5)):
    print(f"{error(ours, theirs):.2e}")

# %% added: bandwidth measured
def bench(function, *args, repeat=2):
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        function(*args)
    return (time.perf_counter() - start) / repeat


rows = []
for D in (8, 16):
    t = torch.randn(4, D)
    rows.append((D, bench(row_sum, t), bench(torch.sum, t, -1), t.nbytes / bench(row_sum, t) / 1e9))
print(*(f"{D:5d} {own:.2e} {lib:.2e} {gbs:.4f} GB/s" for D, own, lib, gbs in rows), sep="\n")
if DEVICE == "cuda":
    @triton.testing.perf_report(triton.testing.Benchmark(
        x_names=["N"], x_vals=[2**i for i in range(8, 12)], line_arg="provider",
        line_vals=["triton", "torch"], line_names=["Triton", "Torch"], ylabel="GB/s",
        plot_name="row-sum", args={"M": 4096},
    ))
    def benchmark(M, N, provider):
        t = torch.randn(M, N, device=DEVICE)
        return triton.testing.do_bench(lambda: row_sum(t) if provider == "triton" else t.sum(-1))

    benchmark.run(print_data=True, show_plots=True)
