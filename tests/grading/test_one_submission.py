"""What a grader does with a notebook before the first test: it looks through the code, and ends."""

from __future__ import annotations

import json
import signal
import tracemalloc

import pytest
from in_process import load

from autograder import forbidden
from autograder.gradebook import learner
from autograder.grading import one_submission
from autograder.reading import similar, submission

SUITE = load("layernorm")


def handed_in(tmp_path, source):
    """The released notebook with `source` for layer_norm."""
    notebook = json.loads(SUITE.notebook.read_text())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "layer_norm":
            cell["source"] = source
    path = tmp_path / "layernorm.ipynb"
    path.write_text(json.dumps(notebook))
    return path


def cell_of(tmp_path, source):
    read = submission.read(handed_in(tmp_path, source), SUITE.released)
    return read, next(c for c in read.cells if c.grade_id == "layer_norm")


def endless(*_):
    while True:
        pass


def broken(*_):
    raise LookupError("a defect of ours")


@pytest.mark.parametrize("search", [endless, broken])
def test_code_that_cannot_be_looked_through_is_for_a_person(monkeypatch, search):
    monkeypatch.setattr(one_submission, "READING_SECONDS", 0.1)
    monkeypatch.setattr(forbidden, "find", search)
    before = signal.getsignal(signal.SIGPROF)
    found = one_submission.looked_through(SUITE, [])
    assert [f.exercise for f in found] == SUITE.exercises
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


@pytest.mark.parametrize("end", ["not " * 20_000 + "x", "0x" + "f" * 5000, "x("])
def test_a_cell_that_nobody_could_look_through_is_not_run(tmp_path, end):
    read, cell = cell_of(tmp_path, f"def layer_norm(x, weight, bias, eps):\n    return {end}\n")
    assert not cell.readable and "layer_norm" in read.broken
    assert all(other.readable for other in read.cells if other.grade_id != "layer_norm")


def test_an_integer_that_python_writes_is_read_in_every_notation(tmp_path):
    for text in ("0x" + "f" * 3400, "9" * 4000, "'0x" + "f" * 5000 + "'"):
        _, cell = cell_of(tmp_path, f"def layer_norm(x, weight, bias, eps):\n    return {text}\n")
        assert cell.readable


def test_a_notebook_that_breaks_our_reader_does_not_stop_the_gradebook(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "sort_out", broken)
    path = handed_in(tmp_path, "def layer_norm(*x): return x\n")
    assert learner.read(path, SUITE.released) == learner.Learner()


@pytest.mark.parametrize(
    "text",
    [
        '"%2500000000s" % "a"', '"{:>1500000000}".format("a")', 'f"{1:>1500000000}"',
        '"a" * 3_000_000_000', "b'a' * 3_000_000_000", "[0] * 10**9", "1 << 10**10", "9**9**9",
        '"a".ljust(3_000_000_000)', '"a".zfill(3_000_000_000)', '"ab".replace("", "c" * 10**9)',
    ],
)  # fmt: skip
def test_reading_code_makes_nothing_of_it(tmp_path, text):
    read, cell = cell_of(
        tmp_path,
        f"def layer_norm(x, weight, bias, eps):\n    never = lambda: {text}\n    return x\n",
    )
    assert cell.readable
    tracemalloc.start()
    try:
        one_submission.looked_through(SUITE, read.cells)
        similar.fingerprint(read)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
