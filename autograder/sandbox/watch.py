"""What the supervisor reads in /proc and on disk about a worker; all from outside of it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

NAMESPACES = {"user": "user", "pid": "pid", "mnt": "mount", "net": "network", "ipc": "ipc"}
_MOST_ENTRIES = 20000


def pid_of(pidfd: int) -> int:
    """The process a pidfd refers to, as numbered here; -1 when it is gone."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def status(pid: int) -> dict[str, str]:
    """The fields of /proc/<pid>/status; empty when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {k: v.strip() for k, _, v in (line.partition(":") for line in lines)}


# A control group (a count, or "try") or a folder (what tempfile makes up) of a supervisor. No more
# than these: what is left of them is deleted, and a person's folder may have a similar name.
_MADE = re.compile(r"autograder-(\d+)-(?:\d+|try|[a-z0-9_]{8})")


def made_by_the_gone(name: str) -> bool:
    """Whether a group or folder of this name is of a supervisor that is not seen here."""
    made = _MADE.fullmatch(name)
    return made is not None and not os.path.exists(f"/proc/{made[1]}")


def own_namespaces(pid: int) -> set[str]:
    """The kinds of namespace in which process `pid` is apart from this one. Raises OSError."""
    return {
        name
        for kind, name in NAMESPACES.items()
        if os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    }


def is_mapped(number: int, kind: str) -> bool:
    """Whether a user ("uid") or group ("gid") of this number exists in this user namespace."""
    lines = Path(f"/proc/self/{kind}_map").read_text().splitlines()
    ranges = [[int(word) for word in line.split()] for line in lines]
    return any(first <= number < first + count for first, _, count in ranges)


def groups(pid: int) -> str:
    """The text of /proc/<pid>/cgroup, empty when there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cgroup").read_text()
    return ""


def address_space(pid: int) -> int:
    """Bytes of address space of a process, 0 when it is gone."""
    return int(status(pid).get("VmSize", "0 kB").split()[0]) * 1024


def private_bytes(pid: int) -> int:
    """Bytes a process holds for itself: heap and shared memory, not mapped files."""
    fields = status(pid)
    names = ("RssAnon", "RssShmem", "VmSwap")
    return sum(int(fields.get(name, "0 kB").split()[0]) for name in names) * 1024


def family(pid: int) -> Iterator[int]:
    """`pid` and all its descendants. In a pid namespace orphans stay descendants of its first."""
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        yield one
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                text = Path(f"/proc/{one}/task/{task}/children").read_text()
                waiting += [int(p) for p in text.split()]


def memory(pid: int, inherited: int) -> int:
    """Bytes that a worker and its children hold beyond what each `inherited` by its fork."""
    return sum(max(0, private_bytes(p) - inherited) for p in family(pid))


def folder_bytes(folder: str) -> int:
    """Bytes on disk below `folder`; a folder of too many entries counts as endless."""
    total, entries = 0, 0
    for path, _, files in os.walk(folder):
        for name in [".", *files]:
            entries += 1
            if entries > _MOST_ENTRIES:
                return 1 << 62
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
    return total
