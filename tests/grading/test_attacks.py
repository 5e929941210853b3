"""Hostile submissions, graded as one class among honest ones, with and without namespaces.

Each attack of tests/attacks/ is a case of its own in both modes. See tests/attack_class.py.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from attack_class import (
    BREACH,
    MARKER,
    Attack,
    Graded,
    Place,
    attacks,
    hand_in,
    hidden_numbers,
    honest_students,
    messages,
    run_grader,
)

ALL = attacks()
MODES = ("strong", "weak")
# Sleeping attacks cost no processor: more of them at once than there are cores.
JOBS = (os.cpu_count() or 1) + 2


@dataclass
class Run:
    """One mode: the class with the attacks, and the honest students graded alone."""

    place: Place
    hostile: Graded
    alone: Graded
    honest: list[str]
    before: dict[str, str]


@pytest.fixture(scope="module")
def laid(request) -> list[Attack]:
    """The attacks that were selected: `-k k05` lays out and grades those of kind 5 only."""
    mine = [item for item in request.session.items if item.path == request.path]
    cases = [item.callspec.params for item in mine if hasattr(item, "callspec")]
    chosen = {params["attack"].name for params in cases if "attack" in params}
    return [attack for attack in ALL if attack.name in chosen] or ALL


@pytest.fixture(scope="module")
def place(laid):
    base = Path(tempfile.mkdtemp(prefix="attack-class-"))
    place = Place(base)
    try:
        place.prepare()
        for attack in laid:
            hand_in(attack, base / "submitted")
        # Once, and the same bytes for every run: the sources may be edited meanwhile.
        place.honest = honest_students(base / "honest")
        shutil.copytree(base / "honest", base / "submitted", dirs_exist_ok=True)
        yield place
    finally:
        place.clean()


@pytest.fixture(scope="module", params=MODES)
def run(request, place):
    mode = request.param
    alone = run_grader(place, place.base / "honest", f"alone-{mode}", mode, JOBS)
    before = place.fingerprints()
    hostile = run_grader(place, place.base / "submitted", mode, mode, JOBS)
    return Run(place, hostile, alone, place.honest, before)


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.student)
def test_attack_gains_nothing(run: Run, attack: Attack):
    expected = attack.expects(run.hostile.mode)
    found = run.hostile.submissions()[attack.student]
    faults = []
    if expected.get("ungraded"):
        if found["status"] != "ungraded" or expected["ungraded"] not in str(found["reason"]):
            faults.append(f"it should be ungraded ({expected['ungraded']}): {found['reason']}")
    elif found["status"] != "graded":
        faults.append(f"it is ungraded: {found['reason']}")
    score = found["score"] or 0.0
    if "points" in expected and score != expected["points"]:
        faults.append(f"it scored {score}, and {expected['points']} is right")
    if score > expected.get("max_points", 20.0):
        faults.append(f"it scored {score}, more than {expected['max_points']}")
    if expected.get("review") and score > 0 and not found["review"]:
        faults.append(f"it scored {score} and nobody is told to look")
    allowed = set(expected.get("verdicts", []))
    for exercise in found["exercises"]:
        for test in exercise["tests"]:
            if test["verdict"] not in allowed:
                faults.append(f"{exercise['name']}/{test['name']} is {test['verdict']}")
    for text in messages(found):
        if BREACH in text:
            faults.append(f"it says that it won: {text}")
        if any(re.search(p, text) for p in (r"\d{7,}", *expected.get("absent", []))):
            faults.append(f"a message holds what the learner's code made: {text}")
    if expected.get("held", True):
        assert not faults, f"{attack.name} ({attack.expected['about']}): " + "; ".join(faults[:6])
    else:
        assert expected["why"], "an attack that is not held needs a reason"


def test_every_submission_has_a_result(run: Run, laid: list[Attack]):
    found = run.hostile.submissions()
    missing = [a.student for a in laid if a.student not in found]
    assert not missing, run.hostile.output
    ungraded = [a for a in laid if a.expects(run.hostile.mode).get("ungraded")]
    assert run.hostile.code == (1 if ungraded else 0), run.hostile.output


def test_honest_neighbours_get_what_they_get_alone(run: Run):
    alone, beside = run.alone.submissions(), run.hostile.submissions()
    for student in run.honest:
        first, second = alone[student], beside[student]
        first.pop("seconds")
        second.pop("seconds")
        assert first == second, student
        for kind in ("feedback/{}.html", "gradescope/{}.json"):
            a = run.alone.results / kind.format(student)
            b = run.hostile.results / kind.format(student)
            assert a.exists() == b.exists() and (not a.exists() or same_but_times(a, b)), student
    full = [alone[s]["score"] for s in run.honest if s.endswith("full")]
    assert full == [20.0] * len(full)


def same_but_times(a: Path, b: Path) -> bool:
    times = r'"(execution_time|seconds)": [0-9.]+|[0-9.]+ s\b'
    return re.sub(times, "", a.read_text()) == re.sub(times, "", b.read_text())


def test_no_secret_gets_out(run: Run):
    numbers = hidden_numbers()
    assert len(numbers) > 50
    for name, text in run.hostile.texts().items():
        assert MARKER not in text, f"{name} holds text of a hidden test"
        assert run.place.token not in text, f"{name} holds a secret of the grader's machine"
        leaked = [n for n in numbers if re.search(rf"(?<![\d.]){re.escape(n)}", text)]
        assert not leaked, f"{name} holds hidden inputs: {leaked[:3]}"


def test_nothing_outside_is_changed(run: Run):
    after = run.place.fingerprints()
    changed = sorted(k for k in {*run.before, *after} if run.before.get(k) != after.get(k))
    assert not changed, changed
    assert not run.place.planted()


def test_no_process_is_left(run: Run):
    assert not run.hostile.strays
    assert not run.alone.strays


def test_the_kinds_and_controls_are_there():
    kinds = {a.kind for a in ALL if not a.expected["class"].startswith("control")}
    assert kinds >= set(range(1, 11))
    classes = [a.expected["class"] for a in ALL]
    assert classes.count("control-pass") >= 6
    assert classes.count("control-fail") >= 6
