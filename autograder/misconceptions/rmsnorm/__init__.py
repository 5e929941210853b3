"""Misconceptions of the assignment `rmsnorm`, one module per exercise."""

# The order matters: the module's mistakes are built from those of the function.
from . import rms_norm  # isort: skip
from . import rms_norm_backward  # isort: skip
from . import RMSNorm  # isort: skip
from . import partial_rms_norm  # isort: skip
from . import scale_norm  # isort: skip
from . import ada_norm  # isort: skip
from . import AdaLayerNorm  # isort: skip
from . import DynamicTanh  # isort: skip

__all__ = [
    "AdaLayerNorm",
    "DynamicTanh",
    "RMSNorm",
    "ada_norm",
    "partial_rms_norm",
    "rms_norm",
    "rms_norm_backward",
    "scale_norm",
]
