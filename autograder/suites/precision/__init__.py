"""The hidden suite of the assignment `precision`."""

# HIDDEN-SUITE-7f3a
