"""What a worker prints: counted, and thrown away."""

from __future__ import annotations

import io
import sys
from typing import Any

LIMIT_KIB = 256  # beyond it a learner is told to take the prints out; they cost no points

_counted = 0  # bytes since `restart`


class _Nowhere(io.RawIOBase):
    """Takes all that is written to it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number  # /dev/null in a worker

    def write(self, data: Any) -> int:
        global _counted
        _counted += len(data)
        return len(data)


def install() -> None:
    """Have `sys.stdout` and `sys.stderr` count in place of writing."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        # "replace": a character that no encoding has is no reason to fail.
        stream = io.TextIOWrapper(
            io.BufferedWriter(_Nowhere(number)), encoding="utf-8", errors="replace"
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def restart() -> None:
    """Count from 0 again."""
    global _counted
    _counted = 0


def beyond_limit() -> bool:
    """Whether more than LIMIT_KIB were printed. The last few KiB may not be counted yet."""
    return _counted > LIMIT_KIB * 1024
