"""Control groups: memory, processes and processor time summed over everything a worker starts.

Version 1 and 2, wherever this process may create groups; elsewhere the supervisor watches memory
and adds up processor time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import watch

_FILES = {  # (version, controller) -> the file that holds the limit
    (1, "memory"): "memory.limit_in_bytes",
    (1, "pids"): "pids.max",
    (2, "memory"): "memory.max",
    (2, "pids"): "pids.max",
    (1, "cpu"): "cpu.cfs_quota_us",
    (2, "cpu"): "cpu.max",
}
_CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
# A worker computes with one thread. A group weighs as much as one ordinary process, whatever the
# number of those in it, since that is what the kernel gives a group unasked.
CORES = 1.1
_PERIOD = 100_000  # microseconds; the kernel's own
_EVENTS = {1: "memory.oom_control", 2: "memory.events"}


@dataclass(frozen=True)
class Hierarchy:
    """A place where groups may be made, and what they limit there."""

    version: int
    controllers: tuple[str, ...]
    folder: Path


def hierarchies() -> list[Hierarchy]:
    """The writable places of this process's own groups, at most one for each controller."""
    found: dict[str, Hierarchy] = {}
    for place in _candidates():
        wanted = tuple(c for c in place.controllers if c not in found)
        if wanted and _usable(Hierarchy(place.version, wanted, place.folder)):
            usable = Hierarchy(place.version, wanted, place.folder)
            found |= dict.fromkeys(wanted, usable)
    return list(dict.fromkeys(found.values()))


def sweep(places: list[Hierarchy]) -> None:
    """Remove the empty groups of supervisors that were killed before they could."""
    for place in places:
        for folder in place.folder.glob("autograder-*-*"):
            if watch.made_by_the_gone(folder.name):
                with contextlib.suppress(OSError):  # not empty: in use after all
                    folder.rmdir()


def _candidates() -> list[Hierarchy]:
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = [m.split() for m in Path("/proc/self/mountinfo").read_text().splitlines()]
    except OSError:
        return []
    places: list[Hierarchy] = []
    for line in groups:
        _, names, path = line.split(":", 2)
        for fields in mounts:
            kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
            if kind == "cgroup2" and not names:
                # A group with processes of its own cannot pass controllers on: try beside it.
                for folder in (_folder(fields, path), _folder(fields, path).parent):
                    places.append(Hierarchy(2, _enabled(folder), folder))
            elif kind == "cgroup" and names and set(names.split(",")) <= set(options):
                wanted = tuple(c for c in _CONTROLLERS if c in names.split(","))
                places.append(Hierarchy(1, wanted, _folder(fields, path)))
    return [p for p in places if p.controllers]


def _folder(mount: list[str], path: str) -> Path:
    root, point = mount[3], Path(mount[4])
    inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else ""
    return point / inside.lstrip("/")


def _enabled(folder: Path) -> tuple[str, ...]:
    try:
        names = (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return ()
    return tuple(c for c in _CONTROLLERS if c in names)


def _usable(place: Hierarchy) -> bool:
    """Whether a group with a limit can really be made there."""
    try:
        group = Group([place], f"autograder-{os.getpid()}-try", 2**28, 16)
    except OSError:
        return False
    group.remove()
    return True


class Group:
    """One worker's groups. `fds` are what a process writes "0" to in order to join them."""

    def __init__(self, places: list[Hierarchy], name: str, memory: int, processes: int) -> None:
        self._folders: list[tuple[Hierarchy, Path]] = []
        self.fds: list[int] = []
        self.usage: str | None = None  # the file with the processor time that it has used
        limits = {"memory": str(memory), "pids": str(processes), "cpu": str(int(CORES * _PERIOD))}
        try:
            for place in places:
                folder = place.folder / name
                folder.mkdir()
                self._folders.append((place, folder))
                if place.version == 2:
                    self.usage = str(folder / "cpu.stat")  # whatever the controllers
                elif "cpuacct" in place.controllers:
                    self.usage = str(folder / "cpuacct.usage")
                for controller in place.controllers:
                    if controller != "cpuacct":
                        self._limit(folder / _FILES[place.version, controller], limits[controller])
                    if controller == "memory":
                        self._no_swap(place, folder, memory)
                # One thread that moves itself takes no lock; a process waits some 10 ms for one.
                entrance = "tasks" if place.version == 1 else "cgroup.procs"
                self.fds.append(os.open(folder / entrance, os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            self.remove()
            raise

    @staticmethod
    def _limit(file: Path, value: str) -> None:
        try:
            file.write_text(value)
        except OSError as error:
            # Version 1 refuses more of the processors than the group above has.
            if error.errno != errno.EINVAL or file.name != _FILES[1, "cpu"]:
                raise

    @staticmethod
    def _no_swap(place: Hierarchy, folder: Path, memory: int) -> None:
        name, limit = ("memory.memsw.limit_in_bytes", memory)
        if place.version == 2:
            name, limit = ("memory.swap.max", 0)
            (folder / "memory.oom.group").write_text("1")
        with contextlib.suppress(OSError):  # absent on a kernel that does not count swap
            (folder / name).write_text(str(limit))

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group for its memory."""
        for place, folder in self._folders:
            if "memory" in place.controllers:
                with contextlib.suppress(OSError):
                    text = (folder / _EVENTS[place.version]).read_text()
                    counts = dict(line.split() for line in text.splitlines())
                    return int(counts.get("oom_kill", 0)) > 0
        return False

    def remove(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Remove the groups; their processes are gone, though the kernel may need a moment."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        for _, folder in self._folders:
            for pause in (0.0, 0.001, 0.01, 0.1, 1.0):
                sleep(pause)
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    continue
        self._folders = []
