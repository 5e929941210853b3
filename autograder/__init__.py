"""The autograder: hidden pytest suites run against code that never shares their process."""

__version__ = "1.0.0"

import sys

# nbformat has jsonschema look for this checker of one text format that notebooks do not use, and
# importing it builds a grammar for more than a second. Without it jsonschema skips the format.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
