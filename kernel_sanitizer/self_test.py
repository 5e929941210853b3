"""Known-bad kernels that the sanitizer must find fault with before it may be relied on.

Small, since they run whenever a sandbox server or suite runner starts. tests/kernels/ has more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_KERNELS = """
import triton
import triton.language as tl

@triton.jit
def copy(x, y, n, stride, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * stride + cols, mask=cols < n, other=0.0)
    tl.store(y + row * stride + cols, value, mask=cols < n)

@triton.jit
def unmasked(x, y, B: tl.constexpr):
    tl.store(y + tl.arange(0, B), tl.load(x + tl.arange(0, B)))

@triton.jit
def accumulate(x, y, n, B: tl.constexpr):
    cols = tl.arange(0, B)
    y += cols
    value = tl.load(x + tl.program_id(0) * n + cols, mask=cols < n, other=0.0)
    tl.store(y, tl.load(y, mask=cols < n, other=0.0) + value, mask=cols < n)

@triton.jit
def add_atomically(x, y, n, B: tl.constexpr):
    cols = tl.arange(0, B)
    value = tl.load(x + tl.program_id(0) * n + cols, mask=cols < n, other=0.0)
    tl.atomic_add(y + cols, value, mask=cols < n)

@triton.jit
def poisoned(x, y, n, B: tl.constexpr):
    cols = tl.arange(0, B)
    tl.store(y, tl.sum(tl.load(x + cols, mask=cols < n), axis=0))

@triton.jit
def twice(x, y, n, B: tl.constexpr):
    cols = tl.arange(0, B)
    tl.store(y + cols, tl.load(x + cols, mask=cols < n) * 2.0, mask=cols < n)

@triton.jit
def rounded(x, y, n, B: tl.constexpr):
    cols = tl.arange(0, B)
    value = tl.load(x + cols, mask=cols < n, other=0.0).to(tl.float32)
    tl.store(y + cols, value / 3.0, mask=cols < n)

@triton.jit
def offsets(y, stride):
    row = tl.program_id(0)
    tl.store(y + row, row * stride)

@triton.jit
def spin(lock):
    for _ in range(100):  # ends all the same where nobody counts
        tl.atomic_cas(lock, 0, 1)
"""


def failure() -> str:
    """Which known-bad kernel was not found out, or which good one was; empty when all is well."""
    import torch

    from . import launch

    kernels: dict[str, Any] = {"__name__": "kernel_self_test"}
    exec(compile(_KERNELS, "<kernel self-test>", "exec"), kernels)
    # In the middle of larger buffers: where the hooks fail, nothing else is harmed.
    ones = torch.ones(9, 5)[3:6]
    wide = torch.ones(3, 8)[:, :5]
    bf16 = torch.linspace(-3, 3, 5).to(torch.bfloat16)

    def run(name: str, grid: int, *args: Any, **constants: int) -> Callable[[], Any]:
        return lambda: kernels[name][(grid,)](*args, **constants)

    out, row, numbers = torch.empty(3, 5), torch.zeros(9)[:5], torch.zeros(3, dtype=torch.int32)
    most, launch.MOST_OPERATIONS = launch.MOST_OPERATIONS, 50
    for name, kind, where, action in (  # noqa: B007
        ("load past the end", "out-of-bounds", "past-the-end",
         run("unmasked", 1, ones[2], torch.empty(8), B=8)),
        ("store past the end", "out-of-bounds", "past-the-end",
         run("unmasked", 1, torch.empty(8), row, B=8)),
        ("load between rows", "out-of-bounds", "between-rows",
         run("copy", 3, wide, out, 5, 5, B=8)),
        ("load before the start", "out-of-bounds", "before-the-start",
         run("copy", 3, ones, out, 5, -5, B=8)),
        ("race", "race", "load-after-store", run("accumulate", 3, ones, row, 5, B=8)),
        ("poison", "poison", "stored", run("poisoned", 1, ones, row, 5, B=8)),
        ("32-bit offset", "int32-overflow", "mul", run("offsets", 3, numbers, 2**30)),
        ("bfloat16", "bf16-arithmetic", "arithmetic",
         run("twice", 1, bf16, torch.empty_like(bf16), 5, B=8)),
        ("spin lock", "budget", "memory-operations",
         run("spin", 1, numbers + 1)),
    ):  # fmt: skip
        found = _found(action)
        if (found.get("kind"), found.get("where")) != (kind, where):
            break
    else:
        name = ""
    launch.MOST_OPERATIONS = most
    return name or _good(run, ones, bf16)


def _good(run: Callable[..., Callable[[], Any]], ones: Any, bf16: Any) -> str:
    """Kernels without a fault: their results, and the bytes counted."""
    import torch

    from .launch import launches

    wide = torch.arange(24.0).reshape(3, 8)
    copied, rounded = wide.clone(), torch.empty_like(bf16)
    total = torch.zeros(5)
    for action in (
        run("copy", 3, wide[:, :5], copied[:, :5], 5, 8, B=8),
        run("add_atomically", 3, ones, total, 5, B=8),
        run("rounded", 1, bf16, rounded, 5, B=8),
    ):
        if _found(action):
            return "good kernels"
    if not (torch.equal(copied, wide) and torch.equal(total, 3 * torch.ones(5))):
        return "results"
    if not torch.equal(rounded, (bf16.float() / 3).to(torch.bfloat16)):
        return "rounding to bfloat16"
    counted = [launches[-3][kind] for kind in ("reads", "writes", "sizes")]
    expected = [{"x": 60, "y": 0}, {"x": 0, "y": 60}, {"x": 60, "y": 60}]
    return "" if counted == expected else "bytes"


def _found(action: Callable[[], Any]) -> dict[str, Any]:
    """The fault that `action` meets; a kind of its own when it fails otherwise."""
    from .fault import KernelFault

    try:
        action()
    except KernelFault as raised:
        return raised.fault.as_dict()
    except Exception as error:
        return {"kind": type(error).__name__}
    return {}
