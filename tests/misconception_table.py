"""How the hidden suites meet the known mistakes: each is rejected, and named to the learner.

    python -m tests.misconception_table             every assignment
    python -m tests.misconception_table family      one

prints for each exercise how many misconceptions there are (by their names, and as implementations:
one idea may be written in several ways), how many the suite rejects, and how many it names right.
The exit code is 1 if one is accepted, or if fewer than 90 % of an assignment are named right.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from in_process import Graded, grade, load, score  # noqa: E402

from autograder import course, misconceptions  # noqa: E402
from autograder.misconceptions import Misconception  # noqa: E402

ENOUGH = 90  # per cent of an assignment's misconceptions that must be named right


@dataclass(frozen=True)
class Met:
    """One implementation of a misconception and what the hidden tests of its exercise said."""

    known: Misconception
    results: tuple[Graded, ...]
    full: float

    @property
    def rejected(self) -> bool:
        return score(list(self.results)) < self.full

    @property
    def names(self) -> list[str]:
        """What the learner is told, test by test."""
        return [r.named for r in self.results if r.verdict == "wrong" and r.named]

    @property
    def named_right(self) -> bool:
        """Whether the first name told is true, and every part of a combination is told somewhere.

        A single test may show one part of a combination only.
        """
        told = {part for name in self.names for part in name.split("+")}
        parts = set(self.known.parts)
        return parts <= told and set(self.names[0].split("+")) <= parts

    @property
    def taken_for(self) -> set[str]:
        """Names told that are not, or not only, parts of the mistake."""
        return {name for name in self.names if not set(name.split("+")) <= set(self.known.parts)}


@cache
def met(assignment: str, index: int) -> Met:
    """What happens to misconception number `index` of `assignment`, as a submission."""
    known = misconceptions.load(assignment)[index]
    expected = importlib.import_module(f"expectations.{assignment}")
    aside = getattr(expected, "NOT_FOR_MISCONCEPTIONS", set())
    results = grade(assignment, {known.exercise: known.implementation})
    tests = [t for t in load(assignment).tests if t.exercise == known.exercise]
    full = sum(t.points for t in tests if t.name not in aside)
    return Met(known, tuple(r for r in results if r.test not in aside), full)


def all_of(assignment: str) -> list[Met]:
    return [met(assignment, index) for index in range(len(misconceptions.load(assignment)))]


def rate(some: Iterable[Met]) -> float:
    """Per cent named right."""
    right = [m.named_right for m in some]
    return 100 * sum(right) / len(right)


HEAD = (
    f"{'assignment':16}{'exercise':28}{'names':>6}{'written':>9}{'rejected':>10}{'named':>7}"
    f"{'rate':>9}"
)


def row(assignment: str, exercise: str, some: Sequence[Met]) -> str:
    names = len({(m.known.exercise, m.known.name) for m in some})
    rejected, right = sum(m.rejected for m in some), sum(m.named_right for m in some)
    return (
        f"{assignment:16}{exercise:28}{names:6}{len(some):9}{rejected:10}{right:7}"
        f"{rate(some):7.1f} %"
    )


def main(assignments: Sequence[str]) -> int:
    enough = True
    print(HEAD)
    for assignment in assignments or course.names():
        every = all_of(assignment)
        for exercise in load(assignment).exercises:
            print(row(assignment, exercise, [m for m in every if m.known.exercise == exercise]))
        print(row(assignment, "= all", every))
        for m in every:
            if not (m.rejected and m.named_right):
                what = f"told {sorted(set(m.names))}" if m.rejected else "accepted"
                print(f"  {m.known.exercise}: {m.known.name}: {what}")
        enough &= all(m.rejected for m in every) and rate(every) >= ENOUGH
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
