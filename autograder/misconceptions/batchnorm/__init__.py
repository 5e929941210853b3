"""Misconceptions of the assignment `batchnorm`, one module or two per exercise."""

# The order matters: the module's mistakes are built from those of the function.
from . import batch_norm  # isort: skip
from . import batch_norm_running  # isort: skip
from . import batch_norm_precision  # isort: skip
from . import BatchNorm  # isort: skip
from . import batch_norm_backward  # isort: skip
from . import batch_norm_backward_statistics  # isort: skip
from . import fold_batch_norm  # isort: skip

__all__ = [
    "BatchNorm",
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_backward_statistics",
    "batch_norm_precision",
    "batch_norm_running",
    "fold_batch_norm",
]
