"""The hidden suite of the assignment `attention`."""

# HIDDEN-SUITE-7f3a
