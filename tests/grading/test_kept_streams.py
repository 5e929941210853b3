"""A hidden test that prints or reads disturbs nothing: the protocol has descriptors of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fault_class import copy_grader

from autograder import doctor

ROOT = Path(__file__).resolve().parents[2]
CHATTY = """

import os, sys
_expect = expect


def expect(*arguments, **named):
    print("printed by a hidden test")
    print('{"id": 0, "result": {"score": 1e9}}')
    os.write(1, b'{"id": 0, "result": {}}\\nwritten, with no end of line')
    assert sys.stdin.read() == "" == os.read(0, 100).decode()
    return _expect(*arguments, **named)
"""


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grader in whose hidden suite somebody looks for a fault."""
    root = copy_grader(tmp_path_factory.mktemp("grader"))
    path = root / "autograder" / "suites" / "layernorm" / "test_layer_norm.py"
    path.write_text(path.read_text() + CHATTY)
    path = root / "autograder" / "testing" / "compare.py"
    path.write_text(path.read_text() + "\n\nprint('printed while the grader was loaded')\n")
    return root


def run(root: Path, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=root, capture_output=True, text=True, timeout=3600, input=given,
    )  # fmt: skip


def test_a_print_in_a_hidden_test_reaches_standard_error_and_changes_no_score(chatty, tmp_path):
    for student in ("student01", "student05"):
        shutil.copytree(ROOT / "samples" / "submitted" / student, tmp_path / "submitted" / student)
    scores = {}
    for root in (ROOT, chatty):
        results = tmp_path / root.name
        options = ("--submitted", str(tmp_path / "submitted"), "--results", str(results))
        done = run(root, "autograder", "grade", "layernorm", "--no-gradebook", *options)
        assert done.returncode == 0, done.stderr
        graded = json.loads((results / "results.json").read_text())
        scores[root] = [s["exercises"] for s in graded["submissions"]]
    assert scores[chatty] == scores[ROOT]
    for said in ("printed by a hidden test", "while the grader was loaded", "no end of line"):
        assert said in done.stderr and said not in done.stdout


def test_a_print_in_a_hidden_test_does_not_break_what_dask_asks_of_the_suite(chatty):
    done = run(chatty, "autograder.cluster", "layernorm", given="nothing to read")
    assert json.loads(done.stdout)["max_score"] == 20.0
    assert "printed while the grader was loaded" in done.stderr


def test_a_library_that_prints_when_it_is_loaded_does_not_change_what_doctor_says(
    tmp_path, monkeypatch
):
    """Python runs sitecustomize at its start; it makes every import of numpy speak."""
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins\nreal = builtins.__import__\n"
        "def speaking(name, *rest):\n"
        "    if name == 'numpy':\n        print('numpy is loaded')\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = speaking\n"
    )
    quiet = doctor.kernel_sanitizer()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert doctor.kernel_sanitizer() == quiet
