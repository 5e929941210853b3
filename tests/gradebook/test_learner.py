"""What is kept of a notebook for people to read is read in a process of its own."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from boxes import ANSWER, ANSWER_2, RELEASED_NOTEBOOK, cell, filled
from gradebook_course import make_course, result_of, submission_path

from autograder.gradebook import learner
from autograder.gradebook.learner import Learner, Reader
from autograder.gradebook.writer import GradebookError, Writer
from autograder.reading import notebook, submission

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def released(tmp_path: Path) -> Path:
    path = tmp_path / "released.ipynb"
    path.write_text(json.dumps(RELEASED_NOTEBOOK))
    return path


@pytest.fixture
def reader(released: Path):
    made = Reader(released)
    yield made
    made.close()


def hand_in(tmp_path: Path, *added) -> Path:
    made = filled(area=ANSWER, Box=ANSWER_2)
    made["cells"] += added
    path = tmp_path / "boxes.ipynb"
    path.write_text(json.dumps(made))
    return path


def test_what_the_process_reads_is_what_is_there(tmp_path: Path, released: Path, reader: Reader):
    path = hand_in(tmp_path, cell("mine = '\ud800é\u2028'"))
    found = reader.read(path)
    assert found == learner.read(path, submission.released(released))
    assert found.sources == {"area": ANSWER, "Box": ANSWER_2} and "é" in found.added[0]
    assert reader.read(None) == reader.read(tmp_path / "nothing.ipynb") == Learner()
    path.write_bytes(b"{")
    assert reader.read(path) == Learner()


def test_a_notebook_that_ends_the_process_costs_itself_alone(tmp_path: Path, reader: Reader):
    path = hand_in(tmp_path)
    before = reader.read(path)
    reader._process.kill()
    reader._process.wait()
    assert reader.read(path) == Learner()
    assert reader.read(path) == before != Learner()


def test_a_notebook_has_so_much_processor_time(released: Path):
    code = (
        "import itertools, pathlib, sys\n"
        "from autograder.gradebook import learner\n"
        "learner.CPU_SECONDS = 1\n"
        "learner.read = lambda *_: all(itertools.repeat(True))\n"
        "learner._serve(pathlib.Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, released], input=b'"a.ipynb"\n', capture_output=True, cwd=ROOT
    )
    assert done.stdout == learner.READY and done.returncode == -signal.SIGXCPU


def test_of_very_long_text_the_exercises_come_first(tmp_path: Path, monkeypatch, released: Path):
    monkeypatch.setattr(learner, "MAX_TEXT", len(ANSWER) + len(ANSWER_2) + 10)
    path = hand_in(tmp_path, cell("first = 'added'"), cell("second = 2"))
    found = learner.read(path, submission.released(released))
    assert found.sources == {"area": ANSWER, "Box": ANSWER_2}
    assert found.added == ["first = 'a\n... (cut)", "\n... (cut)"]


def test_the_process_of_the_gradebook_parses_no_notebook(tmp_path: Path, monkeypatch):
    root = make_course(tmp_path / "course", {"student01": None})
    path = submission_path(root, "student01")
    with Writer(root, "layernorm") as writer:
        for module, name in ((notebook, "load"), (submission, "sort_out"), (ast, "parse")):
            monkeypatch.setattr(module, name, pytest.fail)
        shown = writer.record(result_of("student01"), path)
    monkeypatch.undo()
    sources = "\n".join(c.source for c in shown.cells)
    assert "def layer_norm(x):\n    return x" in sources


def test_a_process_that_does_not_start_is_told_in_one_line(tmp_path: Path, monkeypatch):
    root = make_course(tmp_path / "course", {"student01": None})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Writer(root, "layernorm") as writer, pytest.raises(GradebookError, match="did not start"):
        writer.record(result_of("student01"), submission_path(root, "student01"))
