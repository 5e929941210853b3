"""One course, all of it real: sandbox, gradebook, nbgrader's own commands, reports, no leaks."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gradebook_course import facts_of, nbgrader

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "autograder" / "suites" / "layernorm"
STUDENTS = ["student01", "student07", "student18", "student29", "student33"]


def make_course(folder: Path) -> Path:
    shutil.copytree(ROOT / "exercises" / "layernorm", folder / "exercises" / "layernorm")
    config = (ROOT / "nbgrader_config.py").read_text()
    importable = f"import sys\n\nsys.path.insert(0, {str(ROOT)!r})\n"
    (folder / "nbgrader_config.py").write_text(importable + config)
    for student in STUDENTS:
        shutil.copytree(ROOT / "samples" / "submitted" / student, folder / "submitted" / student)
    return folder


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course graded by `autograder grade`, then exported and fed back by nbgrader."""
    folder = make_course(tmp_path_factory.mktemp("course"))
    run = subprocess.run(
        [sys.executable, "-m", "autograder", "grade", "layernorm", "--course", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=3600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    nbgrader(folder, "generate_feedback", "layernorm")
    nbgrader(folder, "export")
    return folder


def results_of(folder: Path) -> dict:
    data = json.loads((folder / "results" / "layernorm" / "results.json").read_text())
    return {s["student"]: s for s in data["submissions"]}


def test_gradebook_export_and_results_agree(graded):
    results, facts = results_of(graded), facts_of(graded)
    with open(graded / "grades.csv", newline="") as file:
        exported = {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(file)}
    assert set(results) == set(facts) == set(exported) == set(STUDENTS)
    for student, result in results.items():
        assert facts[student]["score"] == exported[student] == result["score"]
        for exercise in result["exercises"]:
            auto, _, _ = facts[student]["grades"][f"test_{exercise['name']}"]
            assert auto == exercise["score"]


def test_nbgrader_autograde_gives_the_same_scores(graded, tmp_path):
    folder = make_course(tmp_path)
    nbgrader(folder, "autograde", "layernorm")
    ours, theirs = facts_of(graded), facts_of(folder)
    for student in STUDENTS:
        for key in ("score", "max_score", "grades", "comments", "flagged"):
            assert theirs[student][key] == ours[student][key], (student, key)


def test_a_call_of_the_library_costs_its_tests_and_is_flagged_for_a_person(graded):
    result = results_of(graded)["student29"]
    assert result["exercises"][0]["score"] == 0.0
    assert {(r["kind"], r["detail"]) for r in result["review"]} == {
        ("operator-seen", "aten::layer_norm")
    }
    said = {t["message"] for t in result["exercises"][0]["tests"]}
    assert all("write it yourself, and line" in message for message in said)
    assert facts_of(graded)["student29"]["flagged"]


def test_a_listing_as_articles_give_it_is_told_both_mistakes(graded):
    page = (graded / "results" / "layernorm" / "feedback" / "student07.html").read_text()
    assert "unbiased-variance" in page and "eps-outside-root" in page
    assert "layernorm.html#biased-variance" in page


def secrets() -> list[bytes]:
    """The marker and every longer line of code of the hidden suite."""
    lines = {b"HIDDEN-SUITE-7f3a"}
    for path in SUITE.glob("*.py"):
        for line in path.read_text().splitlines():
            text = line.strip()
            if len(text) > 40 and not text.startswith(("#", '"""', "from ", "import ")):
                lines.add(text.encode())
    return sorted(lines)


def test_no_byte_of_the_hidden_suite_is_in_anything_that_is_handed_out(graded):
    searched = [p for p in graded.rglob("*") if p.is_file()]
    for folder in ("exercises", "samples", "_build/html"):
        searched += [p for p in (ROOT / folder).rglob("*") if p.is_file()]
    assert len(searched) > 60
    found = []
    for path in searched:
        content = path.read_bytes()
        escaped = content.replace(b'\\"', b'"').replace(b"&quot;", b'"').replace(b"&#34;", b'"')
        found += [(str(path), s) for s in secrets() if s in content or s in escaped]
    assert not found


def test_the_search_for_secrets_finds_one(tmp_path):
    """The check above can fail: a line of a suite inside a page is found."""
    line = next(s for s in secrets() if b"expect(" in s)
    page = b"<p>" + line + b"</p>"
    assert any(s in page for s in secrets())


def test_the_suite_is_out_of_reach_of_learner_code(graded):
    """student33 walks files, frames, memory and environment, and returns how much it found."""
    result = results_of(graded)["student33"]
    tests = result["exercises"][0]["tests"]
    assert {t["verdict"] for t in tests} == {"wrong"}
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    probe = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=1200,
        env=environment, cwd=ROOT,
    )  # fmt: skip
    assert probe.stdout.split() == ["0", "0"], probe.stdout + probe.stderr


PROBE = """
import time, torch
from autograder.sandbox.forkserver import ForkServer
from autograder.grading.link import RemoteLink
from autograder.sandbox import Limits
from autograder.testing.student import Student
from autograder.testing.suite import Budget, Suite

source = '''
import gc, os, sys
MARK = "HIDDEN-SUITE-" + "7f3a"
def files():
    found = 0
    for folder, _, names in os.walk("/"):
        for name in names:
            if name.endswith((".py", ".pyc", ".ipynb", ".toml", ".json")) and "torch" not in folder:
                try:
                    with open(os.path.join(folder, name), "rb") as file:
                        found += MARK.encode() in file.read(1 << 22)
                except OSError:
                    pass
    return found
def memory():
    texts = [o for o in gc.get_objects() if isinstance(o, (list, tuple, dict, str))]
    ours = ("solutions", "autograder.testing", "autograder.suites", "_pytest")
    names = [m for m in sys.modules if m.startswith(ours)]
    return len(names) + sum(MARK in str(v) for v in os.environ.values())
'''
server = ForkServer()
worker = server.spawn(Limits())
suite = Suite("probe", [], "", Budget(call_seconds=60), {}, "zero", None)
link = RemoteLink(worker.sock, suite, time.monotonic() + 1000)
link.start([type("Cell", (), {"index": 1, "source": source})], 1)
student = Student(link)
print(student.files(), student.memory())
worker.kill()
server.close()
"""
