"""Whether numbers of a tensor can be read by something else than torch."""

from __future__ import annotations

from typing import Any

import torch

_storage = torch.Tensor.untyped_storage  # torch's own, whatever `deny` puts in its place


def is_shared(tensor: Any) -> bool:
    """Whether its memory came from NumPy, or went there: torch may then not move it."""
    return isinstance(tensor, torch.Tensor) and not _storage(tensor).resizable()


def are_one(values: tuple) -> bool:
    """Whether all tensors lie in one memory, as where Triton's interpreter copies one back."""
    return len({_storage(t).data_ptr() for t in values if isinstance(t, torch.Tensor)}) == 1
