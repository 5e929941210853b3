"""What the sandbox promises: limits, how a worker ended, and which protections this machine has.

To check the security argument, read in this order; each protection stands beside a comment that
names what it stops.

1. ../worker/protocol.py, from `receive` on: all that a worker can say to the grader.
2. ../protections.py, then server.py from `_be_worker` on: the walls a worker stands behind.
3. rootfs.py, `build`: the files it can see. launch.py: how the server loses its rights.
4. seccomp.py and landlock.py: the calls and files it is refused.
5. supervisor.py, `_kill` to `look_after`: limits that no kernel keeps, and the end of a worker.

linux.py, channel.py, watch.py, family.py, cgroup.py and ending.py are their tools; probe.py tries
the walls; forkserver.py is the grader's handle. ../worker/ runs beside the learner's code: assume
that the learner has replaced it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protections import PROTECTIONS
from .limits import Exit, Limits, SandboxError

__all__ = ["Exit", "Found", "Limits", "SandboxError", "available"]


@dataclass(frozen=True)
class Found:
    """One of the `protections`, as `doctor` shows it."""

    name: str
    on: bool
    why: str


def available(*, weak: bool = False) -> tuple[Found, ...]:
    """Every protection, on or off, as found by starting a sandbox without torch and looking.

    Raises SandboxError when not even the weak sandbox starts.
    """
    from .forkserver import ForkServer

    with ForkServer(weak=weak, preload=(), worker=None) as server:
        on, why = server.protections, server.reasons
    return tuple(
        Found(n, n in on, "verified in a worker" if n in on else why.get(n, "refused"))
        for n in PROTECTIONS
    )
