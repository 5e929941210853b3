"""Every kernel at a given width, as launches on tensors without data: for checks and tables."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from solutions.triton_kernels.fused.launch import Launch
from solutions.triton_kernels.fused.norm import plan_backward, plan_forward

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def launches(width: int, dtype: str, rows: int = 4000) -> Iterator[tuple[str, int, Launch]]:
    """(name, width, launch) of every launch of all four norms, forward and backward.

    Args:
        width: D.
        dtype: bf16, fp16 or fp32, of x, weight and bias.
        rows: M. The kernels do not depend on it.
    """
    x = torch.empty(rows, width, dtype=DTYPES[dtype], device="meta")
    vector = torch.empty(width, dtype=DTYPES[dtype], device="meta")
    statistic = torch.empty(rows, device="meta")
    for rms in (False, True):
        for add in (False, True):
            name = ("add + " if add else "") + ("RMS" if rms else "Layer")
            more = x if add else None
            bias = None if rms else vector
            _, forward = plan_forward(x, more, vector, bias, 1e-5, rms=rms)
            for launch in forward:
                yield f"{name} forward", width, launch
            _, backward = plan_backward(
                x, more, x, vector, None if rms else statistic, statistic, rms=rms,
                dweight_dtype=x.dtype, dbias_dtype=None if rms else x.dtype,
            )  # fmt: skip
            for number, launch in enumerate(backward):
                stage = "" if number == 0 else f" ({number + 1})"
                yield f"{name} backward{stage}", width, launch
