"""Misconceptions of the assignment `family`, one module or two per exercise."""

from autograder.misconceptions.family import normalize  # isort: skip
from autograder.misconceptions.family import instance_norm  # isort: skip
from autograder.misconceptions.family import group_norm  # isort: skip
from autograder.misconceptions.family import standardize_weight  # isort: skip
from autograder.misconceptions.family import SwitchableNorm2d  # isort: skip
from autograder.misconceptions.family import SwitchableNorm2d_statistics  # isort: skip

__all__ = [
    "SwitchableNorm2d",
    "SwitchableNorm2d_statistics",
    "group_norm",
    "instance_norm",
    "normalize",
    "standardize_weight",
]
