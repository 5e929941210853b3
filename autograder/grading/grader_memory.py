"""What memory a grader may take: its code is trusted, and what it reads is hostile.

Notebooks and replies have limits of their own. This one is for whatever gets round them: it ends
one grader's work on one submission, before the machine is short of memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import traceback

from ..sandbox import watch

MEMORY_MIB = 512  # beyond what it shares with the suite runner when it begins
TOO_MUCH = f"grading it took more memory than a grader may use ({MEMORY_MIB} MiB)"


def limit() -> None:
    """Limit this process from now on, where the system tells what it has mapped (Linux)."""
    mapped = watch.address_space(os.getpid())
    if mapped:
        most = mapped + MEMORY_MIB * 2**20
        with contextlib.suppress(ValueError):  # the person's own limit is lower
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def trouble(error: Exception) -> str:
    """An exception in the grader, for the person who runs it; the last line is the reason."""
    text = "".join(traceback.format_exception(error, limit=-3))
    # What torch's allocator says is a RuntimeError, told by its text alone.
    said = str(error) if isinstance(error, RuntimeError) else ""
    out = isinstance(error, MemoryError) or ("allocate" in said and "memory" in said)
    return f"{text}{TOO_MUCH}\n" if out else text
