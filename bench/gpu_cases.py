"""What `bench.gpu` compares: the cases, the contenders of each, and the bars."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

WIDTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
EPS = 1e-5

# Largest error over largest expected value. bfloat16 rounds to 2**-9; weight gradients are sums.
CLOSE = {"bf16": 8e-3, "fp32": 2e-5}


@dataclass(frozen=True)
class Case:
    """One line of the table: `units` is how often x's bytes are moved, read or written."""

    norm: str  # LayerNorm or RMSNorm
    direction: str  # forward or backward
    dtype: str
    width: int
    rows: int

    @property
    def units(self) -> int:
        return 2 if self.direction == "forward" else 3

    @property
    def bar(self) -> float | None:
        """The least share of a copy's speed, or None where none is asked."""
        if self.direction == "forward":
            return 0.95 if self.width >= 2048 else 0.85
        return 0.90 if 1024 <= self.width <= 8192 else None

    @property
    def name(self) -> str:
        return f"{self.norm} {self.direction} {self.dtype} D={self.width}"


def cases(widths: tuple[int, ...], tensor_bytes: int) -> Iterator[Case]:
    """Every case, what matters most first, on tensors of at least `tensor_bytes`."""
    for dtype in DTYPES:
        for direction in ("forward", "backward"):
            for norm in ("LayerNorm", "RMSNorm"):
                for width in widths:
                    rows = -(-tensor_bytes // (width * DTYPES[dtype].itemsize))
                    yield Case(norm, direction, dtype, width, rows)


def tensors(case: Case, device: str, rows: int | None = None) -> dict[str, Tensor]:
    """x, dy (rows, D), weight and bias (D,); x is not centred, so that a lost mean would show."""
    rng = torch.Generator(device).manual_seed(1)
    dtype = DTYPES[case.dtype]
    size = (case.rows if rows is None else rows, case.width)
    drawn = {
        name: torch.empty(shape, dtype=dtype, device=device).normal_(generator=rng)
        for name, shape in {"x": size, "dy": size, "weight": size[1:], "bias": size[1:]}.items()
    }
    drawn["x"] += 0.5
    return drawn


# The contenders: each a function of x, weight, bias.


def ours(norm: str) -> Callable[..., Tensor]:
    from solutions.triton_kernels import fused

    if norm == "LayerNorm":
        return lambda x, weight, bias: fused.layer_norm(x, weight, bias, EPS)
    return lambda x, weight, bias: fused.rms_norm(x, weight, EPS)


def torchs(norm: str) -> Callable[..., Tensor]:
    if norm == "LayerNorm":
        return lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias, EPS)
    return lambda x, weight, bias: F.rms_norm(x, x.shape[-1:], weight, EPS)


def compiled(norm: str, backend: str) -> Callable[..., Tensor]:
    """torch.compile, a function of its own for each width: no recompilation, no dynamic shapes."""
    functorch = importlib.import_module("torch._functorch.config")
    functorch.donated_buffer = False  # backward is timed many times on one graph
    torch.compiler.reset()
    return torch.compile(torchs(norm), backend=backend, dynamic=False)


def ligers(norm: str) -> Callable[..., Tensor] | None:
    """Liger-Kernel, where it is installed. Its RMSNorm is asked not to write dx over dy."""
    try:
        module = importlib.import_module(
            "liger_kernel.ops." + ("layer_norm" if norm == "LayerNorm" else "rms_norm")
        )
    except ImportError:
        return None
    if norm == "LayerNorm":
        return lambda x, weight, bias: module.LigerLayerNormFunction.apply(x, weight, bias, EPS)
    return lambda x, weight, bias: module.LigerRMSNormFunction.apply(
        x, weight, EPS, 0.0, "llama", False
    )


def contenders(norm: str, backend: str) -> dict[str, Callable[..., Tensor]]:
    """By name, in the order of the table; "ours" first."""
    found: dict[str, Any] = {
        "ours": ours(norm), "torch": torchs(norm), "compile": compiled(norm, backend),
        "liger": ligers(norm),
    }  # fmt: skip
    return {name: function for name, function in found.items() if function is not None}


def work(
    case: Case, function: Callable[..., Tensor], given: dict[str, Tensor]
) -> Callable[[], Any]:
    """What is timed: one forward pass, or one backward pass through autograd."""
    x, weight, bias = given["x"], given["weight"], given["bias"]
    if case.direction == "forward":
        return lambda: function(x, weight, bias)
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    y = function(*leaves)
    used = leaves if case.norm == "LayerNorm" else leaves[:2]
    return lambda: torch.autograd.grad(y, used, given["dy"], retain_graph=True)


def copy(case: Case, device: str) -> Callable[[], Any]:
    """A copy that moves as many bytes: half of them read, half of them written."""
    count = case.rows * case.width * case.units // 2
    source = torch.zeros(count, dtype=DTYPES[case.dtype], device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def distance(case: Case, function: Callable[..., Tensor], device: str, rows: int) -> float:
    """The largest error of y and all gradients, each over its largest value, against float64."""
    given = tensors(case, device, rows)
    inputs = [given[name] for name in ("x", "weight", "bias")]
    used = 3 if case.norm == "LayerNorm" else 2

    def run(f: Callable[..., Tensor], leaves: list[Tensor], dy: Tensor) -> list[Tensor]:
        leaves = [t.detach().requires_grad_() for t in leaves]
        y = f(*leaves)
        return [y.detach(), *torch.autograd.grad(y, leaves[:used], dy)]

    got = run(function, inputs, given["dy"])
    want = run(torchs(case.norm), [t.double() for t in inputs], given["dy"].double())
    errors = [
        ((g.double() - w).abs().max() / w.abs().max()).item()
        for g, w in zip(got, want, strict=True)
    ]
    return max(e if e == e else float("inf") for e in errors)
