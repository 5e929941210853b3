"""Experiments that a page shows and a test repeats. One module per chapter."""
