"""What a worker may use, how it ended, and the error that is nobody's but ours."""

from __future__ import annotations

from dataclasses import dataclass


class SandboxError(Exception):
    """The sandbox itself failed: the grader's or the machine's fault, never a learner's."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one worker may use, with everything it starts."""

    cpu_seconds: float = 30.0  # of processor time, of all its processes together
    wall_seconds: float = 60.0  # on the clock, for what sleeps or waits
    memory_mib: int = 512  # beyond what the preloaded server already holds
    processes: int = 64  # threads count
    open_files: int = 128  # each process
    file_mib: int = 64  # the largest single file
    scratch_mib: int = 128
    assembler: bool = False  # may run ptxas; for a worker that runs no code of the learner's


@dataclass(frozen=True)
class Exit:
    """How a worker ended.

    `kind` is one of: "exited" (see `code`), "signal" (see `signal`; 9 after kill()), "memory",
    "cpu", "wall", "scratch" (too much written to files, where no size limits the scratch folder).
    """

    kind: str
    code: int | None = None
    signal: int | None = None
    cpu_seconds: float = 0.0  # of all its processes together
