"""What the machine says of a run: processor, load, CPU seconds and memory of a process tree."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_others: set[int] = set()  # the cores that the processes measured are kept from
_watching = 0.0  # CPU seconds that looking at memory took


def pin_to_one_core() -> str:
    """Keep this process and all it starts on one core. Returns what was done, in words."""
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned: this system cannot"
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    _others.update(cores - {max(cores)})
    return "pinned to one core"


def describe() -> dict[str, Any]:
    """The machine, for a record."""
    return {
        "processor": _processor(), "cores": os.cpu_count(), "system": platform.system(),
        "python": platform.python_version(),
    }  # fmt: skip


def load() -> list[float]:
    """The load averages; a figure taken beside other work is worth little."""
    return [round(x, 1) for x in os.getloadavg()]


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cpu_seconds() -> float:
    """CPU seconds of this process, of all below it, and of all that have ended there.

    What `watched` takes is not counted: it is the measurement's, and nobody's work.
    """
    own = os.times()
    ticks = 0
    for pid in tree(os.getpid())[1:]:
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # own user and system, ended children's
    spent = own.user + own.system + own.children_user + own.children_system
    return spent + ticks / os.sysconf("SC_CLK_TCK") - _watching


def tree(top: int) -> list[int]:
    """`top` and every process below it; `top` alone where there is no /proc."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            below.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, todo = [], [top]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += below.get(pid, [])
    return found


def memory_mib(top: int, *, own: bool) -> float:
    """Proportional memory of the tree: a page shared by three counts a third for each of them.

    own: whether `top` itself counts.
    """
    kib = 0
    for pid in tree(top)[0 if own else 1 :]:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kib += int(line.split()[1])
    return kib / 1024


@dataclass
class Peak:
    """The most memory that was seen, in MiB; 0 where the system does not tell."""

    mib: float = 0.0


@contextlib.contextmanager
def watched(peak: Peak, *, own: bool, every: float = 0.5) -> Iterator[None]:
    """Note in `peak` the largest memory of this process tree while the block runs."""
    stop = threading.Event()

    def watch() -> None:
        global _watching
        if _others:
            os.sched_setaffinity(0, _others)  # of this thread alone: it slows nobody
        before = _watching
        while not stop.wait(every):
            peak.mib = max(peak.mib, memory_mib(os.getpid(), own=own))
            _watching = before + time.thread_time()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
