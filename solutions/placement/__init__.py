"""The assignment `placement`: source of the exercise and the reference solution."""
