"""Looking whether the walls stand: one worker tries them, and is looked at from outside."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from selectors import BaseSelector
from typing import Protocol

from ..protections import PROTECTIONS
from . import launch, linux, watch
from .channel import Channel, pair
from .ending import Worker
from .launch import WallsError

_SECONDS = 300
_TICK = 0.03
_LIMITS = {
    "cpu_seconds": 10, "wall_seconds": 300, "memory_mib": 256, "processes": 16, "open_files": 64,
    "file_mib": 1, "scratch_mib": 1,
}  # fmt: skip


class Tried(Protocol):
    """What is looked at: a sandbox whose server runs, and who looks after its workers."""

    way: str
    plan: dict
    places: list
    limited: set[str]
    once: bool
    workers: dict[int, Worker]
    reasons: dict[str, str]  # protection -> why it is off, as far as that is known

    @property
    def selector(self) -> BaseSelector: ...
    def spawn(self, limits: dict, sock: int, client: Channel, *, probe: bool) -> Worker: ...
    def look_after(self, now: float) -> None: ...


def look(supervisor: Tried) -> tuple[list[str], dict[str, str]]:
    """Start a worker that tries its walls, and look at it from here.

    Returns the protections that hold, and why the others do not. Raises WallsError.
    """
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
        holding = _holding(supervisor, worker, found)
        ours.close()
        while worker.id in supervisor.workers:
            for key, _ in supervisor.selector.select(_TICK):
                if supervisor.selector.get_map().get(key.fd) is key:
                    key.data()
            supervisor.look_after(time.monotonic())
        return holding
    except (OSError, ValueError) as error:
        raise WallsError(f"the probe failed: {error}") from None
    finally:
        ours.close()
        client.close()


def _holding(
    supervisor: Tried, worker: Worker, found: dict[str, bool]
) -> tuple[list[str], dict[str, str]]:
    """What holds, and why not. Raises WallsError when a namespace that was asked for is missing."""
    on = {name for name, holds in found.items() if holds}
    why = dict(supervisor.reasons)
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
    return [name for name in PROTECTIONS if name in on], why
