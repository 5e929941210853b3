"""Misconceptions of the assignment `rmsnorm`, one module per exercise."""

# The order matters: the module's mistakes are built from those of the function.
from autograder.misconceptions.rmsnorm import rms_norm  # isort: skip
from autograder.misconceptions.rmsnorm import rms_norm_backward  # isort: skip
from autograder.misconceptions.rmsnorm import RMSNorm  # isort: skip
from autograder.misconceptions.rmsnorm import partial_rms_norm  # isort: skip
from autograder.misconceptions.rmsnorm import scale_norm  # isort: skip
from autograder.misconceptions.rmsnorm import ada_norm  # isort: skip
from autograder.misconceptions.rmsnorm import AdaLayerNorm  # isort: skip
from autograder.misconceptions.rmsnorm import DynamicTanh  # isort: skip

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
