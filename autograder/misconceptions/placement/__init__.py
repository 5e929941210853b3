"""Misconceptions of the assignment `placement`, one module per exercise."""

from . import (
    PostLNBlock,
    PreLNBlock,
    QKNormAttention,
    deepnorm_constants,
    gradient_norms,
    warmup_lr,
)

__all__ = [
    "PostLNBlock",
    "PreLNBlock",
    "QKNormAttention",
    "deepnorm_constants",
    "gradient_norms",
    "warmup_lr",
]
