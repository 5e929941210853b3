"""`python -m autograder`: see `cli`."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - said here because importing `cli` would fail
    sys.exit("autograder: Python 3.11 or later is needed, this is " + sys.version.split()[0])

from .cli import main

sys.exit(main(sys.argv[1:]))
