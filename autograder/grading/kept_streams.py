"""Standard input and output kept for a protocol between two processes of the grader.

Whatever else runs in such a process may print or read: a hidden test that is being debugged, a
library that warns. What it prints goes to standard error, and it reads nothing; the protocol has
descriptors that no other code knows.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class Output:
    """Writes records as JSON lines to what was standard output. Make it before anything prints."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._descriptor = os.dup(1)
        os.dup2(2, 1)  # also for what is printed without Python
        sys.stdout = sys.stderr

    def write(self, record: dict[str, Any]) -> None:
        """Raises BrokenPipeError when nobody reads any more."""
        data = json.dumps(record).encode() + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]


def kept_input() -> int:
    """The descriptor that takes over standard input, which is empty from now on."""
    descriptor = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return descriptor
