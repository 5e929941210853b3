"""Fused norms: LayerNorm and RMSNorm, each alone and with the residual add before it.

| file | holds |
|---|---|
| `layer_norm.py`, `rms_norm.py`, `add_norm.py` | the functions to call, each with its gradient |
| `forward.py`, `backward.py` | the kernels |
| `wide.py` | kernels for rows too long for registers |
| `launch.py` | tiles, warps, programs: what decides speed |
| `norm.py`, `checks.py` | from tensors of any shape to launches; what is accepted |
| `plain.py` | plain torch, where no kernel can run |

On a GPU they are compiled. On a CPU set TRITON_INTERPRET=1 before triton is imported.
"""

from solutions.triton_kernels.fused.add_norm import (
    add_layer_norm,
    add_layer_norm_forward,
    add_rms_norm,
    add_rms_norm_forward,
)
from solutions.triton_kernels.fused.layer_norm import (
    layer_norm,
    layer_norm_backward,
    layer_norm_forward,
)
from solutions.triton_kernels.fused.rms_norm import (
    rms_norm,
    rms_norm_backward,
    rms_norm_forward,
)

__all__ = [
    "add_layer_norm",
    "add_layer_norm_forward",
    "add_rms_norm",
    "add_rms_norm_forward",
    "layer_norm",
    "layer_norm_backward",
    "layer_norm_forward",
    "rms_norm",
    "rms_norm_backward",
    "rms_norm_forward",
]
