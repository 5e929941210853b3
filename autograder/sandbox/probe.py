"""Looking whether the walls stand: one worker tries them, and is looked at from outside."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from typing import TYPE_CHECKING

from . import STOPS, launch, linux, watch
from .channel import pair
from .ending import Worker

if TYPE_CHECKING:
    from .supervisor import Supervisor

_SECONDS = 300
_TICK = 0.03
_LIMITS = {
    "cpu_seconds": 10, "wall_seconds": 300, "memory_mib": 256, "processes": 16, "open_files": 64,
    "file_mib": 1, "scratch_mib": 1,
}  # fmt: skip


class WallsError(Exception):
    """A sandbox of this kind cannot be had on this machine."""


def look(supervisor: Supervisor) -> None:
    """Start a worker that tries its walls, and look at it from here. Raises WallsError."""
    ours, theirs = socket.socketpair()
    client, far = pair()
    ours.settimeout(_SECONDS)
    worker = supervisor.spawn(_LIMITS, theirs.detach(), far, probe=True)
    try:
        late = time.monotonic() + _SECONDS
        while worker.deadline == math.inf and worker.id in supervisor.workers:
            if time.monotonic() > late:
                raise WallsError("the probe did not start")
            for key, _ in supervisor.selector.select(_TICK):
                key.data()
        if worker.id not in supervisor.workers:
            raise WallsError(client.receive()[0].get("error", "the probe ended at once"))
        found = json.loads(ours.makefile().readline())
        _record(supervisor, worker, found)
        ours.close()
        while worker.id in supervisor.workers:
            for key, _ in supervisor.selector.select(_TICK):
                if supervisor.selector.get_map().get(key.fd) is key:
                    key.data()
            supervisor.look_after(time.monotonic())
    except (OSError, ValueError) as error:
        raise WallsError(f"the probe failed: {error}") from None
    finally:
        ours.close()
        client.close()


def _record(supervisor: Supervisor, worker: Worker, found: dict[str, bool]) -> None:
    """Note what holds. Raises WallsError when a namespace that was asked for is missing."""
    on = {name for name, holds in found.items() if holds}
    why = supervisor.reasons
    if supervisor.way == launch.WEAK and supervisor.plan["exposed"]:
        on.discard("landlock")
        why["landlock"] = "the project lies among Python's files, where it cannot be hidden"
    if linux.LINUX:
        apart = watch.own_namespaces(worker.pid)
        if supervisor.way != launch.WEAK and apart != set(watch.NAMESPACES.values()):
            raise WallsError(f"only these namespaces came about: {sorted(apart)}")
        on |= {f"{name}-namespace" for name in apart}
        if watch.status(worker.pid).get("Uid", "0").split()[0] != str(os.geteuid()):
            on.add("separate-user")
        name = f"autograder-{os.getpid()}-{worker.id}"
        inside = watch.groups(worker.pid).count(name) >= len(supervisor.places)
        if "memory" not in supervisor.limited:
            on.add("memory-watch")
        elif inside:
            on.add("cgroup")
        if inside and "cpu" in supervisor.limited:
            on.add("cpu-share")
    if supervisor.once:
        on.add("fresh-process")
    if not linux.SUPPORTED:
        for name in ("seccomp", "landlock", "cgroup", "cpu-share", "memory-watch"):
            why[name] = "needs Linux on x86_64 or aarch64"
    why.setdefault("cgroup", "this user may not create control groups")
    why.setdefault("cpu-share", "this user may not create control groups for processors")
    why.setdefault("landlock", "this kernel does not have it (Linux 5.13 or later)")
    why.setdefault("memory-watch", "not needed: a control group counts memory")
    why.setdefault("fresh-process", "not needed: forking is safe here")
    supervisor.protections = [name for name in STOPS if name in on]
