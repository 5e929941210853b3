"""Misconceptions of the assignment `scaling`, one module per exercise."""

from . import activation_stds, min_max_scale, saturated_fraction, standardize, whiten

__all__ = ["activation_stds", "min_max_scale", "saturated_fraction", "standardize", "whiten"]
