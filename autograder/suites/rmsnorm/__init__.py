"""The hidden suite of the assignment `rmsnorm`."""

# HIDDEN-SUITE-7f3a
