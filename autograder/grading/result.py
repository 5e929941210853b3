"""A submission while it is graded, and the result that report and gradebook read."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ..testing.suite import HiddenTest, Suite
from ..testing.verdict import Verdict
from . import told


@dataclass
class Unit:
    """A submission to grade, and what is known about it so far."""

    id: int
    path: str
    seed: int
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    review: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    lost: dict[str, list[str]] = field(default_factory=dict)  # exercise -> verdicts of lost workers
    sha256: str = ""
    code: str = ""  # see `similar`
    reason: str | None = None  # why it cannot be graded
    trouble: str | None = None  # the last internal error
    own_cells: bool = True  # whether the learner's own extra cells run, and what defines nothing
    started: float = 0.0  # when its grading began; waiting in the queue costs it nothing
    used: float = 0.0  # processor seconds of its workers that are gone
    retried: bool = False
    alone: bool = False  # whether it is graded without neighbours, which were in its way
    launched: list[dict[str, Any]] = field(default_factory=list)  # what a worker said of kernels
    advised: bool = False  # whether these have been asked about, after the tests


def assemble(suite: Suite, unit: Unit) -> dict[str, Any]:
    """The result of one submission (the dict that report and gradebook read)."""
    result: dict[str, Any] = {
        "status": "graded", "reason": None, "score": None, "max_score": suite.max_score,
        "sha256": unit.sha256, "code": unit.code, "notices": unit.notices, "review": unit.review,
        "exercises": [], "seconds": round(time.monotonic() - unit.started, 3),
    }  # fmt: skip
    internal = [o for o in unit.outcomes if o["verdict"] == Verdict.INTERNAL_ERROR]
    if unit.reason is None and internal:
        last = (unit.trouble or "unknown").strip().splitlines()[-1]
        unit.reason = f"internal error in {len(internal)} test(s): {last}"
    if unit.reason is not None:
        return result | {"status": "ungraded", "reason": unit.reason}
    for name in suite.exercises:
        both = zip(suite.tests, unit.outcomes, strict=True)
        pairs = [(test, outcome) for test, outcome in both if test.exercise == name]
        outcomes = told.sparingly(outcome for _, outcome in pairs)
        rows = [_row(t, o) for (t, _), o in zip(pairs, outcomes, strict=True)]
        result["exercises"].append(
            {
                "name": name,
                "score": sum(row["points"] for row in rows),
                "max_score": sum(row["max_points"] for row in rows),
                "tests": rows,
            }
        )
    result["score"] = sum(e["score"] for e in result["exercises"])
    return result


def _row(test: HiddenTest, outcome: dict[str, Any]) -> dict[str, Any]:
    earned = test.points if outcome["verdict"] == Verdict.PASS else 0.0
    return {
        "name": test.name, "title": test.title, "verdict": str(outcome["verdict"]),
        "points": earned, "max_points": test.points, "message": outcome["message"],
        "misconception": outcome["misconception"], "link": outcome["link"],
    }  # fmt: skip
