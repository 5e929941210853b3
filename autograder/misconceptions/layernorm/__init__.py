"""Misconceptions of the assignment `layernorm`, one module or two per exercise."""

# The order matters: the module's mistakes are built from those of the function.
from . import layer_norm  # isort: skip
from . import layer_norm_precision  # isort: skip
from . import LayerNorm  # isort: skip
from . import layer_norm_backward  # isort: skip
from . import layer_norm_backward_statistics  # isort: skip

__all__ = [
    "LayerNorm",
    "layer_norm",
    "layer_norm_backward",
    "layer_norm_backward_statistics",
    "layer_norm_precision",
]
