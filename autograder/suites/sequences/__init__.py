"""The hidden suite of the assignment `sequences`."""

# HIDDEN-SUITE-7f3a
