"""What wrong versions of several exercises share."""

from __future__ import annotations

import torch

PAGE = "precision.html#"
HALF = (torch.float16, torch.bfloat16)


def up(x: torch.Tensor) -> torch.Tensor:
    """The right beginning: half types are widened to float32."""
    return x.float() if x.dtype in HALF else x


def two_pass(h: torch.Tensor, dim: int = -1, keepdim: bool = False) -> torch.Tensor:
    """The biased variance, mean first."""
    centered = h - h.mean(dim, keepdim=True)
    return centered.square().mean(dim, keepdim=keepdim)


def axes_but_last(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(max(x.dim() - 1, 1)))
