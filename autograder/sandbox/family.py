"""Processor time of a worker and of all it started, read from outside of it.

What it used counts against its limits. What it stood in line for tells, when it took long on the
clock, whether it slept or others were in its way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from . import watch

_TICKS = os.sysconf("SC_CLK_TCK")


class Family:
    """One worker's processes. `usage`: the file of its control group that adds up their time.

    Without one, /proc is added up at each look: what lived and ended between two looks is seen
    only if its parent waited for it.
    """

    def __init__(self, pid: int, usage: str | None = None) -> None:
        self.pid, self.usage = pid, usage
        self._seconds = 0.0  # of what follows, and of those that are gone
        self._last: dict[tuple[int, str], tuple[float, float]] = {}  # own, and waited for

    def used(self) -> float | None:
        """Seconds of processor time so far; None where the system does not tell."""
        if self.usage is not None:
            with contextlib.suppress(OSError):
                return _seconds(Path(self.usage).read_text())
            return None
        if not os.path.exists("/proc/self/stat"):
            return None
        self._add_up()
        return self._seconds

    def waited(self) -> float | None:
        """Seconds that its threads were ready to run and others ran in their place.

        None where the kernel does not count them. Threads that ended are left out.
        """
        try:
            return sum(
                int(Path(f"/proc/{self.pid}/task/{task}/schedstat").read_text().split()[1])
                for task in os.listdir(f"/proc/{self.pid}/task")
            ) / 1e9  # fmt: skip
        except (OSError, IndexError):
            return None

    def _add_up(self) -> None:
        now = dict(_times(self.pid))
        gone = sum(sum(times) for key, times in self._last.items() if key not in now)
        own = sum(t[0] - self._last.get(key, (0, 0))[0] for key, t in now.items())
        handed_on = sum(t[1] - self._last.get(key, (0, 0))[1] for key, t in now.items())
        self._seconds += own + max(0.0, handed_on - gone)  # those gone have been counted
        self._last = now


def _seconds(text: str) -> float:
    """Version 1 has one number, nanoseconds; version 2 has lines, in microseconds."""
    if text.startswith("usage_usec"):
        return int(text.split()[1]) / 1e6
    return int(text) / 1e9


def _times(pid: int) -> Iterator[tuple[tuple[int, str], tuple[float, float]]]:
    """(process id, start) -> own seconds, and those of children it has waited for."""
    for one in watch.family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks = [int(field) for field in fields[11:15]]
            own, children = ticks[0] + ticks[1], ticks[2] + ticks[3]
            yield (one, fields[19]), (own / _TICKS, children / _TICKS)
