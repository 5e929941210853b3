"""The engine, end to end: real runner, real sandbox, a small class."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.errors import EngineError
from autograder.grading import engine

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples" / "submitted"


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The sample class, graded once without a gradebook."""
    results = tmp_path_factory.mktemp("results")
    return results, run_grade(results, "--jobs", "2")


def run_grade(results, *options, submitted=SAMPLES, **kwargs):
    command = [
        sys.executable, "-m", "autograder", "grade", "layernorm", "--no-gradebook",
        "--submitted", str(submitted), "--results", str(results), *options,
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600, **kwargs)


def without_times(results: Path) -> str:
    data = json.loads((results / "results.json").read_text())
    data.pop("timing", None)
    for submission in data["submissions"]:
        submission.pop("seconds", None)
    return json.dumps(data, indent=1)


def by_student(results: Path) -> dict:
    data = json.loads((results / "results.json").read_text())
    return {s["student"]: s for s in data["submissions"]}


def test_the_sample_class_is_graded_as_expected(graded):
    from samples.make import EXPECTED

    results, run = graded
    found = by_student(results)
    assert set(found) == set(EXPECTED)
    assert run.returncode == 1, "the class holds notebooks that cannot be read"
    assert "Traceback" not in run.stdout + run.stderr
    faults = {s: fault for s, e in EXPECTED.items() if (fault := difference(found[s], e))}
    assert not faults


def share(part: dict) -> str:
    if part["score"] == part["max_score"]:
        return "full"
    return "zero" if part["score"] == 0 else "partial"


def difference(got: dict, expected) -> list[str]:
    """How a result differs from what samples/make.py says must be found."""
    if expected.outcome == "ungraded":
        said = got["status"] == "ungraded" and (expected.reason or "") in got["reason"]
        return [] if said else [f"{got['status']}: {got['reason']}"]
    if got["status"] != "graded":
        return [f"ungraded: {got['reason']}"]
    tests = [(e["name"], t) for e in got["exercises"] for t in e["tests"]]
    named = {(n, part) for n, t in tests for part in (t["misconception"] or "").split("+")}
    wanted = {(n, part) for n, names in expected.misconceptions for part in names.split("+")}
    faults = [f"not named: {missing}" for missing in wanted - named]
    if share(got) != expected.outcome:
        faults.append(f"scored {got['score']}, not {expected.outcome}")
    shares = tuple(share(e) for e in got["exercises"])
    if expected.exercises and shares != expected.exercises:
        faults.append(f"exercises scored {shares}, not {expected.exercises}")
    verdicts = {(n, t["verdict"]) for n, t in tests}
    faults += [f"no verdict {v}" for v in expected.verdicts if v not in verdicts]
    review = {(r["exercise"], r["kind"]) for r in got["review"]}
    faults += [f"not in review: {r}" for r in expected.review if r not in review]
    if expected.notice and expected.notice not in " ".join(got["notices"]):
        faults.append(f"no notice with {expected.notice!r}: {got['notices']}")
    return faults


def test_every_test_has_one_verdict_and_every_lost_point_a_reason(graded):
    verdicts = {
        "pass", "wrong", "error", "not-implemented", "timeout",
        "memory", "output-limit", "crashed", "skipped",
    }  # fmt: skip
    for submission in by_student(graded[0]).values():
        for exercise in submission["exercises"]:
            assert exercise["score"] == sum(t["points"] for t in exercise["tests"])
            for test in exercise["tests"]:
                assert test["verdict"] in verdicts
                assert test["points"] in (0.0, test["max_points"])
                assert test["verdict"] == "pass" or test["message"]


def test_two_runs_are_equal_apart_from_times_on_one_and_on_two_jobs(graded, tmp_path):
    run_grade(tmp_path, "--jobs", "1")
    assert without_times(tmp_path) == without_times(graded[0])


def test_a_killed_run_is_finished_by_the_next_and_ends_in_the_same_tables(graded, tmp_path):
    command = [
        sys.executable, "-m", "autograder", "grade", "layernorm", "--no-gradebook",
        "--submitted", str(SAMPLES), "--results", str(tmp_path), "--jobs", "2",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    units = tmp_path / "units"
    end = time.monotonic() + 600
    while time.monotonic() < end and len(list(units.glob("*.json"))) < 4:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {p.name: p.stat().st_mtime_ns for p in units.glob("*.json")}
    assert before
    run_grade(tmp_path, "--jobs", "2")
    assert without_times(tmp_path) == without_times(graded[0])
    kept = {p.name: p.stat().st_mtime_ns for p in units.glob("*.json") if p.name in before}
    assert kept == before, "what was there is not graded twice"


def test_two_runs_at_once_wait_for_each_other(graded, tmp_path):
    small = tmp_path / "class"
    for student in sorted(SAMPLES.iterdir())[:3]:
        shutil.copytree(student, small / student.name)
    first = run_grade(tmp_path / "alone", submitted=small)
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "autograder", "grade", "layernorm", "--no-gradebook",
             "--submitted", str(small), "--results", str(tmp_path / "both")],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    said = [run.communicate(timeout=1200)[0] for run in runs]
    assert [run.returncode for run in runs] == [first.returncode] * 2, said
    assert without_times(tmp_path / "both") == without_times(tmp_path / "alone")


def test_a_copy_scores_what_the_original_scores(graded, tmp_path):
    source = next(p for p in SAMPLES.glob("student01/layernorm/*.ipynb"))
    for i in range(8):
        folder = tmp_path / "class" / f"copy{i}" / "layernorm"
        folder.mkdir(parents=True)
        text = source.read_text() + "\n" * i  # other bytes, same notebook
        (folder / "layernorm.ipynb").write_text(text)
    run_grade(tmp_path / "results", "--jobs", "2", submitted=tmp_path / "class")
    exercises = [s["exercises"] for s in by_student(tmp_path / "results").values()]
    assert len(exercises) == 8 and all(e == exercises[0] for e in exercises)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["grade", "nothing"], 2, "no assignment named 'nothing'; there are: "),
        (["grade", "layernorm", "--submitted", "missing"], 2, "there is no folder missing"),
        (["grade", "layernorm", "--submitted", "bench"], 2, "no submission of 'layernorm'"),
        (["grade", "layernorm", "--jobs", "0"], 2, "must be at least 1"),
        (["grade"], 2, "required: assignment"),
        (["dance"], 2, "invalid choice"),
        (["check", "missing.ipynb"], 2, "there is no notebook missing.ipynb"),
        (["check", "pyproject.toml"], 2, "give --assignment"),
        (["export", "nothing", "--to", "x"], 2, "grade nothing"),
    ],
)
def test_bad_use_is_one_line_and_exit_code_2(arguments, code, said):
    run = subprocess.run(
        [sys.executable, "-m", "autograder", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert run.returncode == code and said in run.stderr
    assert "Traceback" not in run.stderr
    assert len([x for x in run.stderr.splitlines() if "usage" not in x and x[:1] != " "]) == 1


def test_doctor_says_what_is_on_and_what_each_protection_stops():
    from autograder.protections import PROTECTIONS

    run = subprocess.run(
        [sys.executable, "-m", "autograder", "doctor"],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    lines = {line.split()[1]: line for line in run.stdout.splitlines()[: len(PROTECTIONS)]}
    assert set(lines) == set(PROTECTIONS)
    assert all(f"stops {PROTECTIONS[name].stops}" in line for name, line in lines.items())
    off = [name for name, line in lines.items() if line.startswith("OFF")]
    assert run.returncode == (1 if off else 0)


def test_results_that_cannot_be_written_are_one_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    run = run_grade(blocked / "results")
    assert run.returncode == 2 and "cannot write to" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_full_disk_is_one_line_and_leaves_no_half_file(tmp_path, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match="No space left on device"):
        engine._Store(tmp_path).write("unit", {})
    assert list(tmp_path.iterdir()) == []


def test_a_log_gets_plain_lines(graded):
    assert "\r" not in graded[1].stderr and "\x1b" not in graded[1].stderr
    assert "graded, " in graded[1].stderr


def test_an_internal_error_is_never_a_zero(monkeypatch):
    """A checker that raises makes the submission ungraded, not failed."""
    from autograder.grading.result import Unit, assemble
    from autograder.testing.suite import Budget, HiddenTest, Suite

    test = HiddenTest("t", "T", "layer_norm", 2.0, lambda: None, {}, ())
    suite = Suite("demo", [test], "", Budget(), {}, "zero", None, ["layer_norm"])
    unit = Unit(1, "x", 1, trouble="Traceback\nTypeError: in the test")
    unit.outcomes = [
        {"verdict": "internal-error", "message": "", "misconception": None, "link": None}
    ]
    result = assemble(suite, unit)
    assert result["status"] == "ungraded" and result["score"] is None
    assert result["reason"] == "internal error in 1 test(s): TypeError: in the test"
    assert engine._internal(result)
