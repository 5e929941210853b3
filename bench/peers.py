"""nbgrader and otter-grader with the same assignment, each in its own virtual environment.

Both get the notebook that is handed out here, the same three checks for the same 8, 5 and 7 points
(the visible ones, then hidden asserts against torch: `plain_nbgrader.HIDDEN`) and what their
documentation recommends for grading on one's own machine. They run in `peer_box`, since the attacks
are real.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Any

import nbformat

from bench import peer_box, plain_nbgrader

ASSIGNMENT = "layernorm"
POINTS = {"layer_norm": 8.0, "LayerNorm": 5.0, "layer_norm_backward": 7.0}  # as handed out
REQUIREMENTS = {
    "nbgrader": ["nbgrader==0.9.6", "torch==2.13.0", "numpy"],
    "otter": ["otter-grader==7.0.0", "torch==2.13.0", "numpy", "ipykernel"],
}
DISTRIBUTIONS = {"nbgrader": "nbgrader", "otter": "otter-grader"}
# For one run, see `ran_out`. nbgrader has a limit of its own for each cell, and a submission has up
# to ten cells; `otter run` has none, so ten times what an honest notebook takes proves as much.
SECONDS = {"nbgrader": 480, "otter": 150}
CONFIG = """
c = get_config()
c.CourseDirectory.db_url = "sqlite:///gradebook.db"
c.ExecutePreprocessor.startup_timeout = 90
"""
OTTER_TEST = """
from otter.test_files import test_case

OK_FORMAT = False
name = "{name}"
points = {points}


# {mark}
@test_case(points={points}, hidden=True)
def test_visible_and_hidden({name}):
    import torch
    from torch import nn

{body}
"""


@dataclass
class Ran:
    """What one run of a peer left behind."""

    scores: dict[str, float | None]  # student -> score, None when there is none
    outputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # for the learner
    said: str = ""  # what the command and its result files say
    seconds: float = 0.0
    ran_out: bool = False  # ended by this benchmark, not by the grader
    code: int | None = None


def set_up(home: Path, names: Sequence[str]) -> None:
    """Make the virtual environments below `home`. Raises CalledProcessError."""
    for name in names:
        print(f"installing {', '.join(REQUIREMENTS[name])} in {home / name}", flush=True)
        venv.create(home / name, with_pip=True, symlinks=True)
        python = home / name / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS[name]], check=True)


def version(home: Path, name: str) -> str | None:
    """The version installed in the environment, None when there is no such environment."""
    script = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    python = home / name / "bin" / "python"
    try:
        out = subprocess.run([python, "-c", script, DISTRIBUTIONS[name]], capture_output=True)
    except OSError:
        return None
    return out.stdout.decode().strip() or None


class _Peer:
    name: str

    def __init__(self, home: Path, scratch: Path, mark: str) -> None:
        self.python = home / self.name / "bin" / "python"
        self.mark = mark
        script = "import sys; print(sys.base_prefix)"
        base = subprocess.run([self.python, "-c", script], capture_output=True, check=True)
        self.shown = [(home / self.name).resolve(), Path(base.stdout.decode().strip()).resolve()]
        self.template = scratch / f"{self.name}-template"
        self.template.mkdir()
        self.lay()

    def lay(self) -> None:
        raise NotImplementedError

    def in_box(self, case: Path, *inner: str | Path) -> Ran:
        """Run a command in the box, for at most SECONDS of this peer."""
        command = peer_box.command(case, self.shown, [str(part) for part in inner])
        started, ran = time.monotonic(), Ran({})
        with open(case.with_suffix(".log"), "w+b") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
            try:
                ran.code = process.wait(SECONDS[self.name])
            except subprocess.TimeoutExpired:
                ran.ran_out = True
            finally:
                process.kill()  # --kill-child: the first process of the box, so all of it
                process.wait()
            log.seek(0)
            ran.said = log.read(1 << 20).decode(errors="replace")
        ran.seconds = time.monotonic() - started
        return ran


class Nbgrader(_Peer):
    """Hidden tests in the notebook's own test cells, put back in by `nbgrader autograde`."""

    name = "nbgrader"
    batch = True

    def lay(self) -> None:
        source = nbformat.read(plain_nbgrader.release.build_source(ASSIGNMENT), as_version=4)
        for cell in source.cells:
            hidden = plain_nbgrader.HIDDEN.get(
                cell.metadata.get("nbgrader", {}).get("grade_id", "")
            )
            if hidden:
                text = f"# {self.mark}{hidden}"
                cell.source += f"\n### BEGIN HIDDEN TESTS\n{text}### END HIDDEN TESTS"
        (self.template / "nbgrader_config.py").write_text(CONFIG)
        target = self.template / "source" / ASSIGNMENT
        target.mkdir(parents=True)
        nbformat.write(source, target / f"{ASSIGNMENT}.ipynb")
        ran = self.in_box(
            self.template, self.python, "-m", "nbgrader", "generate_assignment", ASSIGNMENT
        )
        if ran.code != 0:
            raise SystemExit(f"nbgrader did not generate the assignment:\n{ran.said[-2000:]}")

    def grade(self, case: Path, students: Sequence[str]) -> Ran:
        """Grade what lies in `case`/submitted, all students by one command."""
        shutil.copytree(self.template, case, dirs_exist_ok=True)
        ran = self.in_box(case, self.python, "-m", "nbgrader", "autograde", ASSIGNMENT)
        query = """
            select student.id, sum(coalesce(grade.manual_score, grade.auto_score, 0))
            from submitted_assignment
            join student on student.id = submitted_assignment.student_id
            join submitted_notebook on submitted_notebook.assignment_id = submitted_assignment.id
            join grade on grade.notebook_id = submitted_notebook.id group by student.id"""
        found: dict[str, float] = {}
        try:
            with sqlite3.connect(case / "gradebook.db") as book:
                found = dict(book.execute(query))
        except sqlite3.Error as error:
            ran.said += f"\ngradebook: {error}"
        for student in students:
            path = case / "autograded" / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
            ran.scores[student] = found.get(student) if path.exists() else None
            if path.exists():
                ran.outputs[student] = _outputs(path)
        return ran


class Otter(_Peer):
    """Hidden tests as files in the autograder zip; `otter run`, one submission at a time."""

    name = "otter"
    batch = False

    def lay(self) -> None:
        tests = self.template / "tests"
        tests.mkdir()
        source = nbformat.read(plain_nbgrader.release.build_source(ASSIGNMENT), as_version=4)
        cells = {c.metadata.get("nbgrader", {}).get("grade_id"): c.source for c in source.cells}
        for name, points in POINTS.items():
            # As in nbgrader's one cell: first the checks that learners can see.
            both = f"{cells[f'test_{name}']}\n{plain_nbgrader.HIDDEN[f'test_{name}'].strip()}"
            body = indent(both, "    ")
            text = OTTER_TEST.format(name=name, points=points, body=body, mark=self.mark)
            (tests / f"{name}.py").write_text(text)
        (self.template / "otter_config.json").write_text(json.dumps({"show_hidden": False}))
        ran = self.in_box(
            self.template, self.python, "-m", "otter", "generate", "-t", "tests",
            "--no-requirements", "--no-environment", "-o", "autograder.zip",
        )  # fmt: skip
        if ran.code != 0 or not (self.template / "autograder.zip").exists():
            raise SystemExit(f"otter did not generate the autograder:\n{ran.said[-2000:]}")

    def grade(self, case: Path, students: Sequence[str]) -> Ran:
        """Grade the first of `students`."""
        case.mkdir(exist_ok=True)
        shutil.copy(self.template / "autograder.zip", case)
        path = f"submitted/{students[0]}/{ASSIGNMENT}/{ASSIGNMENT}.ipynb"
        ran = self.in_box(case, self.python, "-m", "otter", "run", "--no-logo", path)
        ran.scores[students[0]] = None
        try:
            data = json.loads((case / "results.json").read_text())
            ran.scores[students[0]] = float(sum(test.get("score", 0) for test in data["tests"]))
            ran.said += "\n" + "\n".join(str(test.get("output", "")) for test in data["tests"])
            ran.outputs[students[0]] = [
                {"output_type": "stream", "text": str(test.get("output", ""))}
                for test in data["tests"]
                if test.get("visibility") != "hidden"  # the others are for the instructor
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            ran.said += f"\nresults.json: {type(error).__name__}: {error}"
        return ran

    def grade_unboxed(self, notebook: nbformat.NotebookNode) -> float:
        """The score of a notebook that is trusted, as fast as `otter run` is without the box."""
        folder = self.template / "unboxed"
        folder.mkdir(exist_ok=True)
        path = folder / f"{ASSIGNMENT}.ipynb"
        nbformat.write(notebook, path)
        run = subprocess.run(
            [self.python, "-m", "otter", "run", "--no-logo", "-a", self.template / "autograder.zip",
             path],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        if run.returncode != 0:
            raise RuntimeError(f"otter run failed:\n{run.stderr[-2000:]}")
        tests = json.loads((folder / "results.json").read_text())["tests"]
        return float(sum(test.get("score", 0) for test in tests))


def _outputs(path: Path) -> list[dict[str, Any]]:
    try:
        cells = json.loads(path.read_text())["cells"]
    except (OSError, ValueError, KeyError):
        return []
    return [output for cell in cells for output in cell.get("outputs", [])]


def tests_folder() -> None:
    """Let `attack_class` of the tests be imported."""
    folder = str(Path(__file__).resolve().parent.parent / "tests")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
