"""The assignment `triton_kernels`: source of the exercise, the reference solution, fast kernels."""
