"""A worker as the supervisor keeps it, and what its end was and leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import cgroup, watch
from .channel import Channel
from .family import Family

_END_MILLISECONDS = 60_000


@dataclass(eq=False)
class Worker:
    """One worker, from request to report."""

    id: int
    limits: dict
    client: Channel  # the grader's end: "kill" comes in, the report goes out
    group: cgroup.Group | None
    scratch: str
    pid: int = 0
    pidfd: int = -1
    deadline: float = math.inf
    family: Family | None = None  # once it runs
    look: float = 0.0  # when to look at its processor time next
    reason: str = ""  # the limit for which it was killed here
    killed: bool = False
    link: Channel | None = None  # its own server, where forking is unsafe


def how_it_ended(worker: Worker, status: int, cpu: float) -> dict:
    """The fields of Exit, from a wait status and the seconds of computing."""
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    kind = "exited" if number is None else "signal"
    if worker.reason:
        kind = worker.reason
    elif number is not None and worker.group is not None and worker.group.out_of_memory():
        kind = "memory"
    elif number in (signal.SIGKILL, signal.SIGXCPU):
        limit = max(1, math.ceil(worker.limits["cpu_seconds"]))
        # The kernel ends it by a count of ticks, which on a busy machine differs from `cpu`.
        kind = "cpu" if cpu >= limit * (0.8 if worker.killed else 0.4) else kind
    return {"kind": kind, "code": code, "signal": number, "cpu_seconds": round(cpu, 3)}


def wait_for_end(worker: Worker) -> None:
    """Wait for a killed worker whose server no longer does; it is a child of this process now."""
    if worker.pidfd >= 0:
        waiter = select.poll()
        waiter.register(worker.pidfd, select.POLLIN)
        waiter.poll(_END_MILLISECONDS)
    if worker.pid:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(worker.pid, os.WNOHANG if worker.pidfd >= 0 else 0)


def own_folder() -> tuple[str, int]:
    """A new folder for this supervisor, and the descriptor whose lock says that it is in use.

    First removes those of supervisors that were killed before they could. Not by the number in
    the name alone: the folder for temporary files may be shared with containers that number
    processes of their own.
    """
    for left in Path(tempfile.gettempdir()).glob("autograder-*-*"):
        if watch.made_by_the_gone(left.name):
            with contextlib.suppress(OSError):  # in use, or somebody else's
                held = _locked(str(left))
                try:
                    if os.fstat(held).st_uid == os.geteuid():
                        remove(str(left))
                finally:
                    os.close(held)
    while True:
        folder = tempfile.mkdtemp(prefix=f"autograder-{os.getpid()}-")
        with contextlib.suppress(OSError):  # another one cleaned it up before it was locked
            held = _locked(folder)
            if os.path.exists(folder):
                return folder, held
            os.close(held)


def _locked(folder: str) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove(folder: str) -> None:
    """Remove a scratch folder, however the worker left its permissions."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
        return
    for command in (["chmod", "-R", "u+rwX", folder], ["rm", "-rf", folder]):
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
