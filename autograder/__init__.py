"""The autograder: hidden pytest suites run against code that never shares their process."""

__version__ = "1.0.0"
