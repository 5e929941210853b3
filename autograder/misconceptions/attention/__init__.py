"""Misconceptions of the assignment `attention`, one module per exercise."""

from . import attention  # isort: skip
from . import MultiHeadAttention  # isort: skip

__all__ = ["MultiHeadAttention", "attention"]
