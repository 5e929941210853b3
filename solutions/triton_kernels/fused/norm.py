"""From tensors of any shape to launches: what all four norms share.

A plan is the outputs, allocated and not yet filled, and the launches that fill them. The public
functions run it; the ahead-of-time check makes one for tensors without data, and compiles it.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor

from solutions.triton_kernels.fused import plain
from solutions.triton_kernels.fused.checks import check_backward, check_forward
from solutions.triton_kernels.fused.launch import (
    Launch,
    backward_tile,
    forward_tile,
    programs_for,
)

try:
    import triton
except ImportError:  # PyPI has wheels for Linux only
    triton = None
if triton is not None:
    from solutions.triton_kernels.fused import backward as backward_kernels
    from solutions.triton_kernels.fused import forward as forward_kernels
    from solutions.triton_kernels.fused import wide

Outputs = tuple[Tensor, Tensor | None, Tensor | None, Tensor]
Gradients = tuple[Tensor, Tensor | None, Tensor | None]


def forward(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    eps: float, *, rms: bool,
) -> Outputs:  # fmt: skip
    """y, s, mean, rstd of x (..., D), or of x + residual. s and mean are None where not asked for.

    Raises:
        TypeError, ValueError: see `checks.check_forward`.
    """
    check_forward(x, residual, weight, bias)
    rows, other = _rows(x), None if residual is None else _rows(residual)
    if _kernels_run_on(x.device):
        outputs, launches = plan_forward(rows, other, weight, bias, eps, rms=rms)
        for launch in launches:
            launch.run()
    else:
        outputs = plain.forward(rows, other, weight, bias, eps, rms=rms)
    y, s, mean, rstd = outputs
    lead = x.shape[:-1]
    return (
        y.view(x.shape),
        None if s is None else s.view(x.shape),
        None if mean is None else mean.view(lead),
        rstd.view(lead),
    )


def backward(
    dy: Tensor, ds: Tensor | None, x: Tensor, weight: Tensor | None, mean: Tensor | None,
    rstd: Tensor, *, rms: bool, dweight_dtype: torch.dtype | None, dbias_dtype: torch.dtype | None,
) -> Gradients:  # fmt: skip
    """dx, dweight, dbias for x (..., D); the last two only where a dtype is given for them.

    Raises:
        TypeError, ValueError: see `checks.check_backward`.
    """
    check_backward(dy, ds, x, weight, mean, rstd)
    arguments = (_rows(dy), None if ds is None else _rows(ds), _rows(x), weight)
    moments = (None if mean is None else mean.reshape(-1), rstd.reshape(-1))
    wanted = {"rms": rms, "dweight_dtype": dweight_dtype, "dbias_dtype": dbias_dtype}
    if _kernels_run_on(x.device):
        outputs, launches = plan_backward(*arguments, *moments, **wanted)
        for launch in launches:
            launch.run()
    else:
        outputs = plain.backward(*arguments, *moments, **wanted)
    dx, dweight, dbias = outputs
    return dx.view(x.shape), dweight, dbias


def plan_forward(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    eps: float, *, rms: bool,
) -> tuple[Outputs, list[Launch]]:  # fmt: skip
    """Outputs and launches of `forward` for x of shape (M, D)."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    s = None if residual is None else torch.empty_like(y)
    rstd = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    mean = None if rms else torch.empty_like(rstd)
    outputs = (y, s, mean, rstd)
    if x.shape[0] == 0:
        return outputs, []
    make = wide.plan_forward if forward_tile(x.shape[1]) is None else forward_kernels.plan
    vectors = (_vector(weight), _vector(bias))
    return outputs, [make(x, residual, *vectors, *outputs, eps, rms)]


def plan_backward(
    dy: Tensor, ds: Tensor | None, x: Tensor, weight: Tensor | None, mean: Tensor | None,
    rstd: Tensor, *, rms: bool, dweight_dtype: torch.dtype | None, dbias_dtype: torch.dtype | None,
) -> tuple[Gradients, list[Launch]]:  # fmt: skip
    """Gradients and launches of `backward` for x of shape (M, D)."""
    rows, width = x.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wanted = (dweight_dtype, dbias_dtype)
    if rows == 0:  # a sum over no rows
        zeros = [
            None if d is None else torch.zeros(width, dtype=d, device=x.device) for d in wanted
        ]
        return (dx, *zeros), []
    tile = backward_tile(width, rms)
    cut = wide.COLUMNS if tile is None else tile
    programs = programs_for(x.device, cut, -(-rows // cut.rows))
    # dx is a new tensor, never dy: whoever else holds dy may still need it.
    sums = [None if d is None else torch.empty(width, dtype=d, device=x.device) for d in wanted]
    parts = [
        None if d is None else torch.empty(programs, width, dtype=torch.float32, device=x.device)
        for d in wanted
    ]
    weight, mean, rstd = _vector(weight), _vector(mean), rstd.contiguous()
    if tile is not None:
        launches = [
            backward_kernels.plan(
                dy, ds, x, weight, mean, rstd, dx, *parts, rms=rms, tile=tile, programs=programs
            )
        ]
    else:
        launches = [wide.plan_backward(dy, ds, x, weight, mean, rstd, dx, rms)]
        if wanted != (None, None):
            launches.append(wide.plan_parts(dy, x, mean, rstd, *parts, rms=rms, programs=programs))
    if wanted != (None, None):
        launches.append(backward_kernels.plan_sum(*parts, *sums))
    return (dx, *sums), launches


def _rows(x: Tensor) -> Tensor:
    """x (..., D) as (M, D): a view if one row stride can say it, as nearly always, else a copy."""
    return x.reshape(-1, x.shape[-1])


def _vector(v: Tensor | None) -> Tensor | None:
    return None if v is None else v.contiguous()


def _kernels_run_on(device: torch.device) -> bool:
    """Whether kernels can run there; if not, says why, once."""
    if triton is None:
        _say("Triton is not installed (it has wheels for Linux only)")
    elif device.type == "cuda" or not isinstance(
        forward_kernels.norm_forward_kernel, triton.JITFunction
    ):
        return True
    else:
        _say(f"tensors are on {device.type}, and TRITON_INTERPRET=1 was not set before the import")
    return False


@cache
def _say(reason: str) -> None:
    warnings.warn(f"fused norms run in plain torch: {reason}", RuntimeWarning, stacklevel=5)
