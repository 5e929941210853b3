"""The hidden suite of the assignment `placement`."""

# HIDDEN-SUITE-7f3a
