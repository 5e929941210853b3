"""Half types that are widened without their graph, a mistake that every cast to float32 invites."""

from __future__ import annotations

import torch
from torch import Tensor

NAME = "detached-in-half"
MESSAGE = (
    "You widened half types by a copy without its graph (torch.tensor, detach, .data or numpy), so "
    "in half precision no gradient gets through; x.float() widens x and keeps the graph."
)


def cut(x: Tensor, *others: Tensor) -> list[Tensor]:
    """All in float32 if x is of a half type, as `torch.tensor(t, dtype=torch.float32)` is."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    return [t.detach().float() if half else t for t in (x, *others)]
