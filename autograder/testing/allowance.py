"""What learner code is given: packages to import, time, memory. One source for all who tell of it.

The grader takes its limits from here, and so do the book's page, the notebooks and the messages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..course import ROOT, SUITES

PAGE = "packages-and-limits"  # of the book

_PIN = re.compile(r"^[\w.\[\]-]+==([^\s;]+).*\[learners: (\w+)\]$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What one submission may use.

    Seconds are of processor time, of the worker and all that it starts together: a busy machine
    takes none of them away. On the clock everything may take `wall_factor` times as long, which
    ends what sleeps or waits.
    """

    call_seconds: float = 10.0  # one call
    start_seconds: float = 15.0  # running the cells
    submission_seconds: float = 60.0  # all workers of a submission
    wall_factor: float = 3.0
    memory_mib: int = 512

    @property
    def cell_seconds(self) -> float:
        """What one cell may compute for, of the time for all of them."""
        return self.start_seconds / 3

    def on_the_clock(self, seconds: float) -> float:
        """How long something may take that may compute for so many seconds."""
        return seconds * self.wall_factor


def budget(assignment: str) -> Budget:
    """The limits that the suite of `assignment` sets. Raises OSError where there is none."""
    settings = tomllib.loads((SUITES / assignment / "suite.toml").read_text(encoding="utf-8"))
    return Budget(**settings.get("limits", {}))


@cache
def packages(root: Path = ROOT) -> dict[str, str]:
    """The packages that learner code may import, with their versions: those marked in the pins."""
    try:
        text = (root / "requirements.txt").read_text(encoding="utf-8")
    except OSError:
        return {}
    found = {name: version for version, name in _PIN.findall(text)}
    return dict(sorted(found.items(), key=lambda pair: pair[0].casefold()))


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def what_is_there() -> str:
    """The packages in words."""
    return listed([*packages(), "Python's own modules"])


def line(assignment: str) -> str:
    """Packages and limits of an assignment, for its notebook. Raises OSError: it has no suite."""
    limits = budget(assignment)
    return (
        f"**What the grader has.** Packages: {what_is_there()}. Time to compute: "
        f"{limits.call_seconds:g} s for a call of your function, {limits.cell_seconds:g} s for a "
        f"cell, {limits.start_seconds:g} s for all cells, {limits.submission_seconds:g} s in all. "
        f"Memory: {limits.memory_mib} MiB. No network and no files of yours; what you print is "
        f"thrown away. The page `{PAGE}.html` says what happens beyond that."
    )
