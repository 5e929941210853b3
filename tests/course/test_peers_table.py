"""The recorded attacks on other graders, and the table that the book makes of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import peers_table  # noqa: E402 - where Sphinx finds it

DATA = json.loads((ROOT / peers_table.RESULTS).read_text(encoding="utf-8"))
HELD = {
    "held": True, "score": 0.0, "gained": 0.0, "tests_read": False, "memory_read": False,
    "files_read": False, "inputs_shown": False, "wrote_outside": False, "reached_others": False,
    "batch_stopped": False, "out_of_time": False, "lost_points": False, "seconds": 9.6,
}  # fmt: skip


def test_forty_attacks_and_the_controls_are_recorded_for_all():
    rows = DATA["attacks"]
    attacks = [r for r in rows.values() if not r["class"].startswith("control")]
    assert len(attacks) >= 40
    assert all(grader in row for row in rows.values() for grader in peers_table.GRADERS)
    full = [rows["pass-reference"][grader]["score"] for grader in peers_table.GRADERS]
    assert full == [20.0] * 3


@pytest.mark.parametrize("grader", peers_table.GRADERS)
def test_what_is_called_held_gained_and_read_nothing(grader):
    for name, row in DATA["attacks"].items():
        entry = row[grader]
        if entry["held"]:
            assert (entry["score"] or 0.0) <= entry["allowed"], name
            assert not entry["tests_read"] and not entry["batch_stopped"], name
        else:
            assert peers_table.outcome(entry) not in ("", "held"), name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "held"),
        (
            {"held": False, "gained": 8.0, "tests_read": True},
            "**8 points too many**, **hidden tests read from files**",
        ),
        ({"held": False, "batch_stopped": True}, "**the next submission not graded right**"),
        (
            {"held": False, "batch_stopped": True, "out_of_time": True, "score": None},
            "**did not end** in 10 s",
        ),
        ({"score": None}, "held, no score"),
        ({"held": False, "lost_points": True, "score": None}, "no score for right work"),
        ({"held": False, "lost_points": True, "score": 12.0}, "12 of 20 for right work"),
    ],
)
def test_an_outcome_is_told_in_words(change, words):
    assert peers_table.outcome(HELD | change) == words


def test_the_table_has_a_row_for_each_attack():
    lines = peers_table.table(DATA).splitlines()
    for name, row in DATA["attacks"].items():
        line = next(line for line in lines if line.startswith(f"| `{name}` "))
        assert line.endswith(f"{peers_table.outcome(row['otter'])} |")
