"""The assignment `attention`: source of the exercise and the reference solution."""
