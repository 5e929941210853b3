"""The hidden suite of the assignment `family`."""

# HIDDEN-SUITE-7f3a
