"""What only a GPU can show of the fused kernels, checked before anything is timed.

Each check gives the largest error of all outputs and gradients, over their largest values, in
float64, and the bound for it. The interpreter runs programs one after another; a GPU runs them
together, compiled, and has room for 2**31 elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from solutions.triton_kernels import fused

EPS = 1e-5
Check = tuple[str, Callable[[], float], float]


def checks(device: str, *, small: bool) -> Iterator[Check]:
    """(name, function that gives the error, bound).

    Args:
        device: cuda, or cpu for the interpreter.
        small: leave out what needs gigabytes.
    """
    for width in (40, 1000) if small else (1, 40, 1000, 1001, 4096, 16384, 65536):
        for rms in (False, True):
            name = f"add + {'RMSNorm' if rms else 'LayerNorm'} D={width}"
            yield name, lambda w=width, r=rms: add_norm(device, w, r), 1e-2 if width == 1 else 2e-5
    layouts = {
        "column slice": lambda t: torch.cat([t, t], 1)[:, : t.shape[1]],
        "every second column": lambda t: torch.stack([t, t], 2)[:, :, 0],
        "transposed": lambda t: t.t().contiguous().t(),
        "expanded": lambda t: t[:1].expand(t.shape),
    }
    for layout, change in layouts.items():
        yield f"x, dy: {layout}", lambda c=change: laid_out(device, c), 2e-5
    yield "the same bits 50 times", lambda: repeated(device, 2 if small else 50), 0.0
    yield "no rows", lambda: no_rows(device), 0.0
    if not small:
        yield "more than 2**31 elements", lambda: huge(device), 1e-2
    if device == "cuda" and torch.cuda.device_count() > 1:
        yield "a device that is not the current one", lambda: laid_out("cuda:1", lambda t: t), 2e-5


def _draw(device: str, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator(device).manual_seed(1), device=device)


def _error(got: list[Tensor], want: list[Tensor]) -> float:
    errors = [
        ((g.double() - w).abs().max() / w.abs().max().clamp_min(1e-3)).item()
        for g, w in zip(got, want, strict=True)
    ]
    return max(e if e == e else float("inf") for e in errors)


def add_norm(device: str, width: int, rms: bool) -> float:
    """Values and gradients of the residual add and norm, with gradients into both outputs."""
    x, residual = _draw(device, 300, width), _draw(device, 300, width).flip(0)
    weight, bias = x[0].clone(), x[1].clone()
    leaves = [x, residual, weight] if rms else [x, residual, weight, bias]
    leaves = [t.requires_grad_() for t in leaves]
    outputs = (fused.add_rms_norm if rms else fused.add_layer_norm)(*leaves, EPS)
    exact = [t.detach().double().requires_grad_() for t in leaves]
    s = exact[0] + exact[1]
    norm = F.rms_norm if rms else F.layer_norm
    expected = (norm(s, (width,), *exact[2:], EPS), s)
    into = [residual.detach(), x.detach()]
    got = torch.autograd.grad(outputs, leaves, into)
    want = torch.autograd.grad(expected, exact, [t.double() for t in into])
    return _error([*outputs, *got], [*expected, *want])


def laid_out(device: str, change: Callable[[Tensor], Tensor]) -> float:
    """x and dy in other strides."""
    x, dy = change(_draw(device, 48, 200)), change(_draw(device, 48, 200).flip(1))
    weight, bias = _draw(device, 200), _draw(device, 200).flip(0)
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    exact = [t.detach().double().requires_grad_() for t in leaves]
    y, want = fused.layer_norm(*leaves, EPS), F.layer_norm(exact[0], (200,), *exact[1:], EPS)
    return _error(
        [y, *torch.autograd.grad(y, leaves, dy)],
        [want, *torch.autograd.grad(want, exact, dy.double())],
    )


def repeated(device: str, times: int) -> float:
    """How many of the runs differ from the first in any bit of dx, dweight or dbias."""
    rows = 8 if times < 10 else 8192
    x = _draw(device, rows, 2048).bfloat16()
    weight = x[0].clone()
    _, mean, rstd = fused.layer_norm_forward(x, weight, None)
    first, *others = (fused.layer_norm_backward(x, x, weight, mean, rstd) for _ in range(times))
    return float(
        sum(not all(torch.equal(a, b) for a, b in zip(first, o, strict=True)) for o in others)
    )


def no_rows(device: str) -> float:
    """How many elements of the weight's gradient are not zero."""
    x = torch.empty(0, 64, device=device, requires_grad=True)
    weight = torch.ones(64, device=device, requires_grad=True)
    fused.layer_norm(x, weight).sum().backward()
    return float(weight.grad.count_nonzero())


def huge(device: str) -> float:
    """The last rows of a bfloat16 tensor of more than 2**31 elements; 17 GB."""
    width = 4096
    x = torch.zeros(2**31 // width + 3, width, dtype=torch.bfloat16, device=device)
    x[-3:] = _draw(device, 3, width).bfloat16()
    y, mean, rstd = fused.layer_norm_forward(x, None, None)
    dx, _, _ = fused.layer_norm_backward(x.flip(1), x, None, mean, rstd)
    last = x[-3:].double().requires_grad_()
    want = F.layer_norm(last, (width,), None, None, EPS)
    (gradient,) = torch.autograd.grad(want, last, last.detach().flip(1))
    return _error([y[-3:], dx[-3:]], [want, gradient])
