"""The hidden suite of the assignment `layernorm`."""

# HIDDEN-SUITE-7f3a
