"""Misconceptions of the assignment `attention`, one module per exercise."""

from autograder.misconceptions.attention import attention  # isort: skip
from autograder.misconceptions.attention import MultiHeadAttention  # isort: skip

__all__ = ["MultiHeadAttention", "attention"]
