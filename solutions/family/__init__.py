"""The assignment `family`: source of the exercise and the reference solution."""
