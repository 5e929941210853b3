"""The assignment `sequences`: source of the exercise and the reference solution."""
