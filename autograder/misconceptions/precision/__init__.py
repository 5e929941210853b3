"""Misconceptions of the assignment `precision`, one module per exercise."""

from autograder.misconceptions.precision import one_pass_var  # isort: skip
from autograder.misconceptions.precision import two_pass_var  # isort: skip
from autograder.misconceptions.precision import welford  # isort: skip
from autograder.misconceptions.precision import combine_moments  # isort: skip
from autograder.misconceptions.precision import layer_norm_low_precision  # isort: skip
from autograder.misconceptions.precision import prescaled_layer_norm  # isort: skip

__all__ = [
    "combine_moments",
    "layer_norm_low_precision",
    "one_pass_var",
    "prescaled_layer_norm",
    "two_pass_var",
    "welford",
]
