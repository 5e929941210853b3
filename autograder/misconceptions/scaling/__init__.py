"""Misconceptions of the assignment `scaling`, one module per exercise."""

from autograder.misconceptions.scaling import (
    activation_stds,
    min_max_scale,
    saturated_fraction,
    standardize,
    whiten,
)

__all__ = ["activation_stds", "min_max_scale", "saturated_fraction", "standardize", "whiten"]
