"""No grade is lost: whatever is killed, full, locked, broken or changed, the next run ends in the
tables of an undisturbed one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fault_class import (
    VICTIMS,
    Campaign,
    Grader,
    Mounts,
    adopting,
    copy_grader,
    differences,
    ended,
    fill,
    make_course,
    nobody_left,
    private_mounts,
    tables,
    units,
    wait_for_units,
    whole_units,
)
from gradebook_course import facts_of

from autograder.sandbox import linux

pytestmark = pytest.mark.skipif(not linux.SUPPORTED, reason="looks for processes as Linux has them")

# Every run of the grader has this many results to store; one notebook cannot be read.
CLASS = 8


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grader]:
    with adopting():
        yield Grader(copy_grader(tmp_path_factory.mktemp("grader")))


@pytest.fixture(scope="module")
def undisturbed(grader: Grader, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course graded once, by a run that nothing disturbed."""
    course = make_course(tmp_path_factory.mktemp("undisturbed"))
    said = grader.run(course)
    assert said.code == 1 and "8/8 graded, 1 could not be" in said.error
    assert len(whole_units(course)) == CLASS
    return course


@pytest.fixture(scope="module")
def wanted(undisturbed: Path) -> dict:
    return tables(undisturbed)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return make_course(tmp_path / "course")


@pytest.fixture
def graded(undisturbed: Path, tmp_path: Path) -> Path:
    """A copy of the undisturbed course, to be changed before it is graded again."""
    return shutil.copytree(undisturbed, tmp_path / "course")


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    try:
        with private_mounts() as mounts:
            mounts.mount("-t", "tmpfs", "none", "/mnt")
            yield mounts
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no private mounts here: {error}")


# -- killed -------------------------------------------------------------------------------------


def kill(grader: Grader, folder: Path, wanted: dict, kills: int, seed: int) -> Campaign:
    """Kill `kills` processes, each kind as often as the others, in as many classes as it takes."""
    random = Random(seed)
    plan = [VICTIMS[i % len(VICTIMS)] for i in range(kills)]
    random.shuffle(plan)
    campaign, number = Campaign(grader, plan, random), 0
    while campaign.plan:
        number += 1
        course = make_course(folder / f"course{number}")
        campaign.one_class(course)
        got = tables(course)
        assert not differences(got, wanted), f"class {number}, seed {seed}"
        left = sorted(p.name for p in (course / "results" / "layernorm" / "units").glob(".*"))
        assert left == [], "no half-written file stays"
        shutil.rmtree(course)
    return campaign


def test_whatever_is_killed_the_class_ends_in_the_same_tables(grader, wanted, tmp_path):
    campaign = kill(grader, tmp_path, wanted, 12, seed=2)
    assert Counter(campaign.killed) == dict.fromkeys(VICTIMS, 2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
def test_two_hundred_kills_change_nothing(grader, wanted, tmp_path, seed):
    started = time.monotonic()
    campaign = kill(grader, tmp_path, wanted, 24, seed)
    print(f"\n{len(campaign.killed)} kills, {campaign.runs} runs, seed {seed},",
          f"{time.monotonic() - started:.0f} s:", dict(Counter(campaign.killed)))  # fmt: skip


@pytest.mark.parametrize("kind", ["fork", "worker"])
def test_a_part_that_is_killed_in_a_run_costs_no_point_of_that_run(grader, wanted, course, kind):
    """Nobody has to run it again: the unit at hand is tried once more."""
    campaign = Campaign(grader, [kind], Random(1))
    campaign.one_class(course)
    assert campaign.killed == [kind] and campaign.runs == 1
    assert not differences(tables(course), wanted)


# -- interrupted --------------------------------------------------------------------------------


def test_ctrl_c_and_sigterm_end_in_one_line_and_the_next_run_goes_on(grader, wanted, course):
    stored: dict[str, int] = {}
    for send, number in ((os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)):
        process = grader.start(course)
        wait_for_units(process, course, len(stored) + 1)
        send(process.pid, number)
        said = ended(process)
        assert said.code == 1
        assert said.reason == "autograder: stopped; run the same command again to go on"
        assert stored.items() <= whole_units(course).items()
        stored = whole_units(course)
    assert 2 <= len(stored) < CLASS
    grader.run(course)
    assert not differences(tables(course), wanted)
    assert stored.items() <= whole_units(course).items()


# -- full and read-only disks -------------------------------------------------------------------


def test_a_full_disk_under_the_results_is_one_line_and_the_next_run_goes_on(
    grader, wanted, course, mounts
):
    results = course / "results"
    results.mkdir()
    mounts.mount("-t", "tmpfs", "-o", "size=4m", "none", str(results))
    seen = mounts.seen(course)
    for leave in (45_000, 30_000):
        filler = fill(seen / "results", leave)
        stored = whole_units(seen)
        said = grader.run(course, inside=mounts.enter)
        assert said.code != 0 and "No space left on device" in said.reason
        assert stored.items() < whole_units(seen).items(), "what fitted is kept"
        filler.unlink()
    assert 2 <= len(whole_units(seen)) < CLASS
    grader.run(course, inside=mounts.enter)
    assert not differences(tables(seen), wanted)


def test_a_full_disk_under_the_gradebook_is_one_line_and_the_next_run_goes_on(
    grader, wanted, course, mounts
):
    disk = course / "disk"
    disk.mkdir()
    mounts.mount("-t", "tmpfs", "-o", "size=2m", "none", str(disk))
    seen, url = mounts.seen(course), {"COURSE_DB_URL": f"sqlite:///{disk}/gradebook.db"}
    filler = fill(seen / "disk", 8192)
    said = grader.run(course, inside=mounts.enter, **url)
    assert said.code != 0 and "there is no space left on the disk of the gradebook" in said.reason
    assert len(whole_units(course)) >= 1, "results so far are kept"
    filler.unlink()
    grader.run(course, inside=mounts.enter, **url)
    shutil.copy(seen / "disk" / "gradebook.db", course)
    assert not differences(tables(course), wanted)


def test_read_only_results_are_one_line_and_stay_as_they_are(grader, wanted, graded, mounts):
    results = str(graded / "results")
    mounts.mount("--bind", results, results)
    mounts.mount("-o", "remount,bind,ro", results)
    said = grader.run(graded, inside=mounts.enter)
    assert said.code != 0 and "cannot write to" in said.reason and "Read-only" in said.reason
    assert not differences(tables(graded), wanted)


def test_a_read_only_gradebook_is_one_line_and_the_next_run_fills_it(
    grader, wanted, course, mounts
):
    (course / "gradebook.db").touch()
    book = str(course / "gradebook.db")
    mounts.mount("--bind", book, book)
    mounts.mount("-o", "remount,bind,ro", book)
    said = grader.run(course, inside=mounts.enter)
    assert said.code != 0 and "gradebook.db is read-only" in said.reason
    stored = whole_units(course)
    assert stored, "results so far are kept"
    grader.run(course)
    assert not differences(tables(course), wanted)
    assert stored.items() <= whole_units(course).items()


# -- locks, clocks, other runs ------------------------------------------------------------------


def test_a_locked_gradebook_is_waited_for_or_ends_in_one_line(grader, wanted, course):
    other = sqlite3.connect(course / "gradebook.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    impatient = (
        "from autograder.gradebook.writer import Writer\n"
        "Writer.__init__.__kwdefaults__['patience'] = 1.5"
    )  # fmt: skip
    said = grader.run(course, impatient)
    assert said.code != 0 and "was locked by another program for 1.5 seconds" in said.reason
    stored = whole_units(course)
    assert len(stored) >= 1, "the results that could not be recorded are kept"

    process = grader.start(course)
    threading.Timer(10 + 4, other.rollback).start()
    said = ended(process)
    assert said.code == 1 and "8/8 graded" in said.error
    other.close()
    assert not differences(tables(course), wanted)
    assert stored.items() <= whole_units(course).items()


def test_a_clock_that_jumps_changes_nothing(grader, wanted, course):
    jumping = (
        "import itertools, time\n"
        "real, jumps = time.time, itertools.cycle([0, 4e7, -4e7, 3600, -3600])\n"
        "time.time = lambda: real() + next(jumps)"
    )
    grader.run(course, jumping)
    assert not differences(tables(course), wanted)


def test_two_runs_at_once_grade_each_submission_once(grader, wanted, course):
    both = [grader.start(course) for _ in range(2)]
    said = [process.communicate(timeout=3600) for process in both]
    nobody_left()
    assert [process.returncode for process in both] == [1, 1], said
    waited = ["waiting for it" in error for _, error in said]
    assert sorted(waited) == [False, True]
    assert not differences(tables(course), wanted)
    assert len(whole_units(course)) == CLASS


# -- changed between two runs -------------------------------------------------------------------


def test_a_removed_results_folder_is_made_again(grader, wanted, graded):
    shutil.rmtree(graded / "results")
    grader.run(graded)
    assert not differences(tables(graded), wanted)


def test_damaged_results_are_graded_again_and_whole_ones_are_not(grader, wanted, graded):
    stored, before = units(graded), whole_units(graded)
    assert len(stored) == CLASS
    damaged = ["student01", "student05", "student17", "student18", "student29", "student32"]
    cut, not_json, other, edited, deep, swapped = (stored[student] for student in damaged)
    cut.write_bytes(cut.read_bytes()[:-200])
    not_json.write_text("\x00" * 4096)
    other.write_text(json.dumps({"student": "student17", "status": "graded", "score": 20.0}))
    record = json.loads(edited.read_text())
    record["result"]["score"] = 20.0
    edited.write_text(json.dumps(record))
    deep.write_text("[" * 100_000)
    swapped.write_bytes(stored["student27"].read_bytes())  # whole, but of another submission
    grader.run(graded)
    assert not differences(tables(graded), wanted)
    after = whole_units(graded)
    assert after.keys() == before.keys()
    assert {n for n in after if after[n] != before[n]} == {stored[s].name for s in damaged}


def test_changed_new_and_removed_submissions_are_seen(grader, undisturbed, graded):
    before, was = whole_units(graded), tables(undisturbed)
    submitted = graded / "submitted"
    changed = submitted / "student01" / "layernorm" / "layernorm.ipynb"
    changed.write_bytes((submitted / "student17/layernorm/layernorm.ipynb").read_bytes() + b"\n")
    shutil.copytree(submitted / "student05", submitted / "student99")
    shutil.move(submitted / "student18", graded / "left")
    grader.run(graded)

    now = tables(graded)
    scores = {s["student"]: s["score"] for s in now["results"]["submissions"]}
    old = {s["student"]: s["score"] for s in was["results"]["submissions"]}
    assert scores["student01"] == old["student17"] != old["student01"]
    assert scores["student99"] == old["student05"]
    assert "student18" not in scores
    for page in ("feedback/student18.html", "gradescope/student18.json"):
        assert page in was["reports"] and page not in now["reports"]
    index = (graded / "results" / "layernorm" / "index.html").read_text()
    assert "student18" not in index + now["reports"]["scores.csv"]
    facts = facts_of(graded)
    assert facts["student18"] == was["facts"]["student18"], "a grade in the gradebook stays"
    assert facts["student01"]["score"] == old["student17"]
    assert before.items() <= whole_units(graded).items()
    assert len(whole_units(graded)) == CLASS + 1, "only the changed one; equal bytes are known"


def test_an_edited_suite_grades_the_whole_class_again(grader, undisturbed, graded, tmp_path):
    edited = Grader(shutil.copytree(grader.root, tmp_path / "grader"))
    path = edited.root / "autograder/suites/layernorm/test_layer_norm.py"
    title = "A single vector gets mean 0 an"
    assert title in path.read_text()
    path.write_text(path.read_text().replace(title, title.replace("A single", "Any")))
    before, was = whole_units(graded), tables(undisturbed)["results"]
    edited.run(graded)
    now = tables(graded)["results"]
    assert now["suite_version"] != was["suite_version"]
    assert title not in json.dumps(now) and title in json.dumps(was)
    scores = [[s["score"] for s in results["submissions"]] for results in (was, now)]
    assert scores[0] == scores[1]
    assert len(whole_units(graded)) == 2 * CLASS and before.items() <= whole_units(graded).items()
