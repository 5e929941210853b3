"""What the fused norms should compute, in float64, and how close a result must come.

The four norms are "layer", "rms", "add layer" and "add rms". Distances are the largest error
divided by the largest expected value. One number for all inputs would accept wrong kernels: on
inputs around 0 an absolute 1e-2 passes padding lanes that enter the variance, a variance divided
by D - 1 and eps outside the root; so each test gives the bound that its input deserves.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from solutions.triton_kernels import fused

NORMS = ("layer", "rms", "add layer", "add rms")
CLOSE = {torch.float32: 3e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}


def draw(
    rows: int, width: int, dtype: torch.dtype = torch.float32, *, mean: float = 0.0, seed: int = 1
) -> dict[str, Tensor]:
    """Arguments of a norm, and gradients for its outputs: x, residual, weight, bias, dy, ds."""
    rng = torch.Generator().manual_seed(seed)
    shapes = {
        "x": (rows, width), "residual": (rows, width), "weight": (width,), "bias": (width,),
        "dy": (rows, width), "ds": (rows, width),
    }  # fmt: skip
    drawn = {name: torch.randn(shape, generator=rng) for name, shape in shapes.items()}
    drawn["x"] += mean
    return {name: value.to(dtype) for name, value in drawn.items()}


def _norm(kind: str, given: Mapping[str, Tensor | None], eps: float) -> tuple[Tensor, Tensor]:
    s = given["x"] + given["residual"] if kind.startswith("add") else given["x"]
    centred = s if kind.endswith("rms") else s - s.mean(-1, keepdim=True)
    y = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + eps)
    if given["weight"] is not None:
        y = y * given["weight"]
    if given["bias"] is not None and not kind.endswith("rms"):
        y = y + given["bias"]
    return y, s


def _fused(kind: str, given: Mapping[str, Tensor | None], eps: float) -> tuple[Tensor, Tensor]:
    x, residual, weight, bias = (given[name] for name in ("x", "residual", "weight", "bias"))
    if kind == "layer":
        return fused.layer_norm(x, weight, bias, eps), x
    if kind == "rms":
        return fused.rms_norm(x, weight, eps), x
    if kind == "add layer":
        return fused.add_layer_norm(x, residual, weight, bias, eps)
    return fused.add_rms_norm(x, residual, weight, eps)


def results(kind: str, given: Mapping[str, Tensor | None], eps: float = 1e-5) -> dict[str, Tensor]:
    """y, s and the gradients that the fused norm gives, by name; strides of the inputs are kept."""
    return _run(_fused, kind, given, eps)


def expected(kind: str, given: Mapping[str, Tensor | None], eps: float = 1e-5) -> dict[str, Tensor]:
    """The same in float64, from the inputs as they were rounded."""
    exact = {name: None if v is None else v.double() for name, v in given.items()}
    return _run(_norm, kind, exact, eps)


def _run(function, kind: str, given: Mapping[str, Tensor | None], eps: float) -> dict[str, Tensor]:
    names = ["x", "weight"]
    names += [] if kind.endswith("rms") else ["bias"]
    names += ["residual"] if kind.startswith("add") else []
    leaves = {n: given[n].detach().requires_grad_() for n in names if given[n] is not None}
    y, s = function(kind, {**given, **leaves}, eps)
    outputs, gradients = [y], [given["dy"]]
    if kind.startswith("add"):
        outputs, gradients = [y, s], [given["dy"], given["ds"]]
    into = torch.autograd.grad(outputs, list(leaves.values()), gradients)
    found = {"y": y.detach()} | {f"d{n}": g for n, g in zip(leaves, into, strict=True)}
    return found | ({"s": s.detach()} if kind.startswith("add") else {})


def distance(got: Tensor, want: Tensor) -> float:
    """Largest error over largest expected value (or over 1e-30, where 0 is expected)."""
    assert got.shape == want.shape
    if not want.numel():
        return 0.0
    error = (got.double() - want).abs().max().item()
    return float("inf") if error != error else error / max(want.abs().max().item(), 1e-30)


def check(
    kind: str, given: Mapping[str, Tensor | None], close: float | None = None, eps: float = 1e-5
) -> dict[str, Tensor]:
    """Compare all that the fused norm gives with float64. Returns what it gives."""
    bound = CLOSE[given["x"].dtype] if close is None else close
    got, want = results(kind, given, eps), expected(kind, given, eps)
    assert got.keys() == want.keys()
    far = {name: distance(got[name], want[name]) for name in want}
    assert not {name: d for name, d in far.items() if not d <= bound}, (kind, bound, far)
    return got
