"""The hidden suite of the assignment `scaling`."""

# HIDDEN-SUITE-7f3a
