"""The experiments of the chapter on fused kernels that need no Triton: counts, and small models.

The page prints their numbers; `tests/claims/test_triton_kernels.py` asserts the effects. What a
GPU would do where programs race is modelled here, and called a model on the page.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# -- bytes -----------------------------------------------------------------------------------------


class ByteCount(TorchDispatchMode):
    """Writes down, for every operator that runs, the bytes of the tensors it reads and writes.

    So it counts what each operator must move at least, if nothing stays in a cache between two of
    them. `steps` holds (name, bytes read, bytes written); views move nothing and are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, int, int]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        inputs = [value for value in args if isinstance(value, Tensor)]
        outputs = [value for value in (out if isinstance(out, tuple) else (out,))]
        places = {value.untyped_storage().data_ptr() for value in inputs}
        if any(value.untyped_storage().data_ptr() in places for value in outputs):
            return out
        read, written = (sum(value.nbytes for value in side) for side in (inputs, outputs))
        self.steps.append((str(func).removeprefix("aten.").split(".")[0], read, written))
        return out

    def total(self) -> int:
        """All bytes, read and written."""
        return sum(read + written for _, read, written in self.steps)


def layer_norm_by_hand(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """LayerNorm (M, D) as one writes it with tensors: an operator for each sign of the formula."""
    centred = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred * rstd * weight + bias


def flops_of_layer_norm(rows: int, width: int) -> int:
    """Additions and multiplications of one LayerNorm: seven for each number, a few for each row.

    Sum, subtract, square, sum, times rstd, times weight, plus bias.
    """
    return 7 * rows * width + 4 * rows


# -- lanes past the row ----------------------------------------------------------------------------


def variance_with_lanes(x: Tensor, block: int, masked: bool) -> Tensor:
    """The variance of each row of (M, D), computed as a kernel does in a block of so many lanes.

    Lanes past the row hold 0 after the load. Subtracting the mean turns them into -mean.

    Args:
        masked: set those lanes back to 0 before squaring.
    """
    width = x.shape[-1]
    lanes = torch.nn.functional.pad(x, (0, block - width))  # (M, block)
    centred = lanes - lanes.sum(-1, keepdim=True) / width
    if masked:
        centred[..., width:] = 0
    return centred.square().sum(-1) / width


# -- programs that meet ----------------------------------------------------------------------------


def sum_with_races(parts: Tensor, at_once: int) -> Tensor:
    """A model of many programs that add their row to one place without any protection.

    Groups of `at_once` programs load the old value, then all of them store: the last one wins.
    A real card mixes them less regularly.

    Args:
        parts: (programs, D).
    """
    total = torch.zeros_like(parts[0])
    for group in parts.split(at_once):
        loaded = total.clone()
        for part in group:
            total = loaded + part
    return total


def sums_in_orders(parts: Tensor, orders: int) -> Tensor:
    """The float32 sum of (programs, D) in so many random orders, one after another: (orders, D)."""
    sums = []
    for _ in range(orders):
        total = torch.zeros_like(parts[0])
        for part in parts[torch.randperm(len(parts))]:
            total = total + part
        sums.append(total)
    return torch.stack(sums)


# -- the residual sum ------------------------------------------------------------------------------


def normalized_sums(x: Tensor, residual: Tensor) -> dict[str, Tensor]:
    """RMSNorm of x + residual, both bfloat16, in float32 but from one of two sums.

    Returns:
        "float32 sum": the statistics and the numerator see the sum before it is rounded.
        "rounded sum": they see what is stored as the new residual stream.
        "exact": everything in float64.
    """
    exact = x.double() + residual.double()
    wide = x.float() + residual.float()
    rounded = wide.bfloat16().float()
    return {
        name: s * torch.rsqrt(s.square().mean(-1, keepdim=True))
        for name, s in (("float32 sum", wide), ("rounded sum", rounded), ("exact", exact))
    }
