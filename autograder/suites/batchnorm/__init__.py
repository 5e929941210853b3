"""The hidden suite of the assignment `batchnorm`."""

# HIDDEN-SUITE-7f3a
