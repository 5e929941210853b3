"""What the sandbox promises: limits, how a worker ended, and which protections this machine has.

To check the security argument, read in this order; each protection stands beside a comment that
names what it stops.

1. ../protocol.py, from `receive` on: all that a worker can say to the grader.
2. STOPS below, then server.py from `_be_worker` on: the walls a worker stands behind.
3. rootfs.py, `build`: the files it can see. launch.py: how the server loses its rights.
4. seccomp.py and landlock.py: the calls and files it is refused.
5. supervisor.py, `_kill` to `look_after`: limits that no kernel keeps, and the end of a worker.

linux.py, channel.py, watch.py, family.py, cgroup.py and ending.py are their tools; probe.py tries
the walls; forkserver.py is the grader's handle. ../worker.py runs beside the learner's code: assume
that the learner has replaced it.
"""

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


@dataclass(frozen=True)
class Protection:
    """One wall, as `doctor` shows it."""

    name: str
    on: bool
    why: str
    stops: str


STOPS = {
    "user-namespace": "any capability: in a worker even its own root would be nobody outside",
    "pid-namespace": "seeing or signalling other processes, and processes that outlive a worker",
    "mount-namespace": "reading the project, tests, homes, other submissions; filling the disk",
    "network-namespace": "network, and host services on abstract sockets",
    "ipc-namespace": "shared memory and queues that reach other programs",
    "seccomp": "ptrace, mounts, sockets, new programs, kernel interfaces with a history of holes",
    "landlock": "reading files beyond Python's own, writing outside scratch; a second wall",
    "cgroup": "memory and process bombs, summed over everything a worker starts",
    "cpu-share": "taking processors from others: at most one core, and the weight of one process",
    "memory-watch": "memory bombs of several processes, checked every few hundredths of a second",
    "rlimits": "endless computation, huge files, too many descriptors, core dumps",
    "separate-user": "reading or changing whatever the grader's own user may",
    "fresh-process": "nothing by itself: workers are started, not forked, where forking is unsafe",
}


def available(*, weak: bool = False) -> tuple[Protection, ...]:
    """Every protection, on or off, as found by starting a sandbox without torch and looking.

    Raises SandboxError when not even the weak sandbox starts.
    """
    from .forkserver import ForkServer

    with ForkServer(weak=weak, preload=(), worker=None) as server:
        on, why = server.protections, server.reasons
    return tuple(
        Protection(n, n in on, "verified in a worker" if n in on else why.get(n, "refused"), s)
        for n, s in STOPS.items()
    )
