"""Host code in many styles, around right kernels."""

# Each comes after a kernel `k(x_ptr, out_ptr, stride, D, BLOCK)`.
ROW_SUMS = {
    "a class that launches": """
class RowSum:
    '''Keeps its rows.'''

    def __init__(self, x):
        self.x = x
        self.rows = x.reshape(-1, x.shape[-1]).contiguous()
        self.M, self.D = self.rows.shape

    @property
    def block(self):
        return triton.next_power_of_2(self.D)

    @staticmethod
    def warps(block):
        return min(max(block // 256, 1), 16)

    def __call__(self):
        out = self.x.new_empty(self.x.shape[:-1], dtype=torch.float32)
        self.launch(out)
        return out

    def launch(self, out):
        stride, warps = self.rows.stride(0), self.warps(self.block)
        k[(self.M,)](self.rows, out, stride, self.D, BLOCK=self.block, num_warps=warps)

def row_sum(x):
    return RowSum(x)()
""",
    "helpers and tuples": """
def prepare(x):
    *lead, D = x.shape
    rows = x.view(-1, D) if x.is_contiguous() else x.reshape(-1, D).contiguous()
    return rows, rows.shape[0], D, tuple(lead)

def row_sum(x: Tensor) -> Tensor:
    rows, M, D, lead = prepare(x)
    out = torch.empty(lead, dtype=torch.float32, device=x.device)
    grid = (max(M, 1) if M else 0,)
    if M > 0:
        k[grid](rows, out, rows.stride(0), D, BLOCK=triton.next_power_of_2(D))
    return out
""",
    "grid lambda and dict of arguments": """
CONFIG = {"num_warps": 4, "num_stages": 2}
def row_sum(x):
    rows = as_rows(x)
    out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    grid = lambda meta: (rows.shape[0] * triton.cdiv(1, meta["BLOCK"] + meta["D"]),)
    kwargs = dict(BLOCK=triton.next_power_of_2(rows.shape[1]), **CONFIG)
    args = [rows, out, rows.stride(0), rows.shape[1]]
    k[grid](*args, **kwargs)
    return out
""",
    "autograd function": """
class RowSum(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x, eps=1e-5):
        rows = x.reshape(-1, x.size(-1))
        if rows.stride(-1) != 1:
            rows = rows.contiguous()
        out = x.new_empty(rows.size(0), dtype=torch.float32)
        BLOCK = triton.next_power_of_2(x.size(-1))
        k[(rows.size(0),)](rows, out, rows.stride(0), x.size(-1), BLOCK=BLOCK)
        ctx.save_for_backward(x, out)
        ctx.eps = eps
        ctx.BLOCK, ctx.num_warps = BLOCK, min(max(BLOCK // 256, 1), 8)
        return out.view(x.shape[:-1])

    @staticmethod
    def backward(ctx, grad):
        x, out = ctx.saved_tensors
        dx = torch.empty_like(x)
        programs = x.numel() // x.shape[-1] * ctx.num_warps // ctx.num_warps
        k[(programs,)](grad.contiguous(), dx, 1, 1, BLOCK=ctx.BLOCK)
        return dx, None

row_sum_op = RowSum.apply
def row_sum(x):
    return row_sum_op(x)
""",
    "asserts and errors": """
MAX_FUSED_SIZE = 65536
def row_sum(x: torch.Tensor) -> torch.Tensor:
    assert x.dim() >= 1 and x.shape[-1] >= 1, f"expected a last dimension, got {x.shape}"
    assert x.dtype in (torch.float32, torch.float16, torch.bfloat16), x.dtype
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"not a tensor: {type(x)}")
    D = x.shape[-1]
    limit = MAX_FUSED_SIZE // x.element_size()
    BLOCK_SIZE = min(limit, triton.next_power_of_2(D)) if D < limit else 1 << (D - 1).bit_length()
    if D > BLOCK_SIZE:
        raise RuntimeError("too wide: {} > {}".format(D, BLOCK_SIZE))
    num_warps = 4
    if BLOCK_SIZE >= 2048:
        num_warps = 8
    while num_warps * 32 > BLOCK_SIZE and num_warps > 1:
        num_warps //= 2
    rows = x.flatten(0, -2) if x.dim() > 2 else (x[None] if x.dim() == 1 else x)
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    M = math.prod(x.shape[:-1])
    with torch.no_grad():
        out = torch.zeros(M, dtype=torch.float32, device=x.device)
        k[(M,)](rows, out, rows.stride(0), D, BLOCK=BLOCK_SIZE, num_warps=num_warps)
    return out.reshape(x.shape[:-1])
import math
""",
    "heuristics, autotune, device": """
@triton.autotune(
    configs=[triton.Config({}, num_warps=w) for w in (1, 2, 4)], key=["D"],
)
@triton.heuristics({
    "BLOCK": lambda args: triton.next_power_of_2(args["D"]),
    "EVEN": lambda args: args["D"] % 16 == 0,
})
@triton.jit
def k(x_ptr, out_ptr, stride, D, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0))

from contextlib import nullcontext
def row_sum(x):
    rows = as_rows(x)
    out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    with torch.cuda.device(x.device) if x.is_cuda else nullcontext():
        k[rows.shape[0],](rows, out, rows.stride(0), rows.shape[1])
    return out
""",
    "loop over launches": """
LIMIT = 1 << 16
def row_sum(x):
    rows = as_rows(x)
    M, D = rows.size()
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    for start in range(0, M, LIMIT):
        stop = min(start + LIMIT, M)
        part = rows[start:stop]
        block = triton.next_power_of_2(D)
        k[(stop - start,)](part, out[start:stop], part.stride(0), D, BLOCK=block)
    return out.view(x.shape[:-1])
""",
    "dataclass of settings": """
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

@dataclass(frozen=True)
class Tile:
    block: int
    warps: int = 4

    @classmethod
    def of(cls, width: int) -> "Tile":
        return cls(triton.next_power_of_2(width), cls.for_block(width))

    @staticmethod
    def for_block(width):
        return 8 if width > 4096 else 4

class Rows(NamedTuple):
    rows: Tensor
    count: int

@lru_cache(maxsize=None)
def settings(width):
    return Tile.of(width)

def rows_of(x):
    r = as_rows(x)
    return Rows(r, r.shape[0])

def row_sum(x):
    r = rows_of(x)
    tile = settings(r.rows.shape[1])
    empty = partial(torch.empty, dtype=torch.float32, device=x.device)
    out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    stride, D = r.rows.stride(0), r.rows.shape[1]
    k[(r.count,)](r.rows, out, stride, D, BLOCK=tile.block, num_warps=tile.warps)
    return out
""",
    "generic launcher": """
def launch(kernel, grid, *tensors, **options):
    strides = [t.stride(0) for t in tensors if t is not None and t.dim() == 2]
    kernel[grid](*tensors, *strides, options.pop("D"), **options)

def row_sum(x):
    rows = as_rows(x)
    out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    D = rows.shape[-1]
    launch(k, (len(rows),), rows, out, D=D, BLOCK=triton.next_power_of_2(D))
    return out
""",
    "one-dimensional special case, padding, checks": """
def row_sum(x):
    '''Sum.'''
    squeeze = False
    if x.ndim == 1:
        x, squeeze = x.unsqueeze(0), True
    lead = x.shape[:-1]
    D = int(x.shape[-1])
    x2 = x.contiguous().view(-1, D)
    n = x2.shape[0]
    out = torch.full((n,), float("nan"), dtype=torch.float32, device=x.device)
    if n == 0:
        return out.view(*lead)
    BLOCK = 1
    while BLOCK < D:
        BLOCK *= 2
    k[(n, 1, 1)](x2, out, x2.stride(0), D, BLOCK)
    out = out.view(lead)
    return out.squeeze(0) if squeeze else out
""",
    "module and checks of its own": """
from torch import nn
class RowSum(nn.Module):
    def __init__(self, warps=4):
        super().__init__()
        self.warps = warps
    def forward(self, x):
        rows = as_rows(x)
        out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
        M, D = rows.shape
        block = triton.next_power_of_2(D)
        k[(M,)](rows, out, rows.stride(0), D, BLOCK=block, num_warps=self.warps)
        return out
_module = RowSum()
def row_sum(x):
    return _module(x)

def check():
    x = torch.randn(3, 5)
    assert torch.allclose(row_sum(x), x.sum(-1)), (row_sum(x) - x.sum(-1)).abs().max()
    for i in range(3):
        print(f"{i}: {x[i].tolist()} {row_sum(x)[i].item() + 1}")
check()
""",
    "cells that try and time": """
import time
import timeit

import numpy as np
import matplotlib.pyplot as plt
from torch import nn

def row_sum(x):
    rows = as_rows(x)
    out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    M, D = rows.shape
    k[(M,)](rows, out, rows.stride(0), D, BLOCK=triton.next_power_of_2(D))
    return out

def reference(x):
    total = torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        total += column
    return total

def bench(f, *args):
    start = time.perf_counter()
    for _ in range(3):
        f(*args)
    return (time.perf_counter() - start) / 3

x = torch.randn(4, 7)
for f in (row_sum, reference, lambda t: t.sum(-1)):
    print(f.__name__, bench(f, x))
print(timeit.timeit(lambda: row_sum(x), number=3), (row_sum(x) - reference(x)).abs().max().item())
times = {D: bench(row_sum, torch.randn(2, D)) for D in (4, 8)}
plt.plot(list(times), [1e6 * t for t in times.values()])
assert np.allclose(row_sum(x).numpy(), x.numpy().sum(-1), atol=1e-5), "differs"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(7))

    def forward(self, x):
        return row_sum(x * self.weight) + 1

    def __repr__(self):
        return "Net()"

net = Net().to("cpu").eval()
print(net, net(x))
try:
    row_sum("no tensor")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
""",
    "imports of its own, guarded": """
import math
try:
    import triton
    import triton.language as tl
    HAS = True
except ImportError:
    HAS = False
from torch import Tensor as T



def _rows(x: T) -> T:
    d = x.size(-1)
    return x.reshape(math.prod(x.shape[:-1]), d).contiguous()

def row_sum(x: T) -> T:
    if not HAS:
        raise RuntimeError("no Triton")
    r = _rows(x)
    n, d = r.shape[0], r.shape[1]
    o = torch.empty((n,), dtype=torch.float32, device=r.device)
    blk = 2 ** math.ceil(math.log2(d)) if d > 1 else 1
    warps = {True: 4, False: 8}[blk < 2048]
    opts = {"BLOCK": blk, "num_warps": warps}
    if x.device.type == "cuda":
        opts["num_stages"] = 2
    k[(n,)](r, o, r.stride()[0], d, **opts)
    return o.reshape(tuple(x.shape[:-1]))
""",
    "what tutorials do": """
def row_sum(x: torch.Tensor) -> torch.Tensor:
    assert torch.is_tensor(x) and x.is_same_size(x), "a tensor"
    x_arg = torch.atleast_2d(x.reshape(-1, x.shape[-1]))
    M, N = x_arg.shape
    BLOCK_SIZE = min(65536 // x.element_size(), triton.next_power_of_2(N))
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 8
    wide = {torch.float32: 4, torch.float16: 2}.get(x.dtype, 2) * BLOCK_SIZE > 8 * programs
    out, spare = (torch.empty(s, device=x.device) for s in (x.shape[:-1], (1,)))
    dtype = {torch.float32: tl.float32, torch.float16: tl.float16}.get(x.dtype)
    grid = lambda meta: [M if dtype is None or wide else triton.cdiv(M * meta["BLOCK"], BLOCK_SIZE)]
    with torch.cuda.device_of(x):
        k[grid](x_arg, out, x_arg.stride(0), N, BLOCK=triton.next_power_of_2(N), num_ctas=1)
    return tuple(t.view(x.shape[:-1]) for t in (out,))[0]
""",
}
