"""A small course on disk, and results for it, for the tests of the gradebook."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from nbgrader.api import Gradebook
from nbgrader.utils import compute_checksum

from autograder.gradebook.writer import Writer

ROOT = Path(__file__).resolve().parent.parent
MARKER = "HIDDEN-MARKER-4711"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
CONFIG = """
import sys
c = get_config()
sys.path.insert(0, {repository!r})
c.CourseDirectory.root = {root!r}
c.CourseDirectory.source_directory = "build/source"
c.CourseDirectory.release_directory = "exercises"
c.LateSubmissionPlugin.penalty_method = "zero"
c.Autograde.sanitize_preprocessors = ["autograder.preprocessor.InertCopy"]
c.Autograde.autograde_preprocessors = ["autograder.preprocessor.GradeInSandbox"]
c.Autograde.pre_convert_hook = "autograder.preprocessor.register_assignment"
import json, pathlib
from autograder.grading import engine
def graded_elsewhere(assignment, path, *, seed):
    record = json.loads((pathlib.Path({root!r}) / "results.json").read_text())
    return record[pathlib.Path(path).parts[-3]]
if "nbgrader" in sys.argv[0]:  # in nbgrader's own process: the writer reads this file, too
    engine.grade_notebook = graded_elsewhere
"""


def _cell(
    source: str, name: str, points: float | None, *, solution: bool, kind: str = "code"
) -> Any:
    meta = {
        "grade": points is not None, "grade_id": name, "locked": not solution, "schema_version": 3,
        "solution": solution, "task": False, "cell_type": kind,
    }  # fmt: skip
    if points is not None:
        meta["points"] = points
    make = new_code_cell if kind == "code" else new_markdown_cell
    cell = make(source, id=name, metadata={"nbgrader": meta})
    meta["checksum"] = compute_checksum(cell)
    return cell


def released() -> Any:
    stub = "def {0}(x):\n    raise NotImplementedError()"
    hidden = f"\n### BEGIN HIDDEN TESTS\nassert {MARKER!r}\n### END HIDDEN TESTS\n"
    return new_notebook(
        cells=[
            new_markdown_cell("# Layer norm", id="top"),
            _cell(stub.format("layer_norm"), "layer_norm", None, solution=True),
            _cell("assert layer_norm" + hidden, "test_layer_norm", 6, solution=False),
            _cell(stub.format("LayerNorm"), "LayerNorm", None, solution=True),
            _cell("assert LayerNorm", "test_LayerNorm", 4, solution=False),
            _cell("Your answer here.", "why", 2, solution=True, kind="markdown"),
        ],
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
    )


def submitted(tag: str) -> Any:
    """A submission with every field wrong that a learner can write, and live outputs."""
    notebook = released()
    notebook.metadata["evil"] = EVIL
    source = f"def layer_norm(x):\n    return x  # {tag} {EVIL}"
    notebook.cells[1].source = source
    notebook.cells[1].outputs = [new_output("display_data", {"text/html": EVIL})]
    notebook.cells[1].metadata["nbgrader"]["points"] = 1000
    notebook.cells[2].source = "print('all tests pass')"
    notebook.cells[2].metadata["nbgrader"]["points"] = 1000
    notebook.cells[3].source = "class LayerNorm:\n    pass"
    notebook.cells[3].metadata["nbgrader"] = {"grade_id": "x y", "schema_version": 99}
    notebook.cells[5].source = f"Because. {EVIL} [link](javascript:alert(3))\n\n{EVIL}"
    notebook.cells.append(new_code_cell(f"helper = 1  # {EVIL}", id="mine"))
    notebook.cells.append(new_markdown_cell(EVIL, id="text"))
    notebook.cells.append(new_raw_cell(EVIL, id="raw", metadata={"raw_mimetype": "text/html"}))
    return notebook


def _test(name: str, earned: float, full: float, verdict: str, message: str | None = None) -> dict:
    return {
        "name": name, "title": f"Title of {name}.", "verdict": verdict, "points": earned,
        "max_points": full, "message": message, "misconception": None, "link": None,
    }  # fmt: skip


def result_of(student: str, first: float = 6.0, second: float = 4.0) -> dict[str, Any]:
    wrong = f"You divided by D - 1; `x[0]` is not * the * biased variance. {EVIL}"
    tests = [
        [
            _test("test_a", min(first, 2.0), 2.0, "pass" if first >= 2 else "wrong", None),
            _test("test_b", max(first - 2, 0), 4.0, "pass" if first >= 6 else "wrong", wrong),
        ],
        [_test("test_c", second, 4.0, "pass" if second == 4 else "not-implemented")],
    ]
    return {
        "student": student, "status": "graded", "reason": None, "score": first + second,
        "max_score": 10.0, "sha256": "0" * 64, "file": "layernorm.ipynb", "notices": [],
        "review": [], "seconds": 0.1,
        "exercises": [
            {"name": "layer_norm", "score": first, "max_score": 6.0, "tests": tests[0]},
            {"name": "LayerNorm", "score": second, "max_score": 4.0, "tests": tests[1]},
        ],
    }  # fmt: skip


class FakeRunner:
    """In place of engine.Runner: gives every submission the same result at once."""

    def __init__(self, *_: object) -> None:
        versions = {"suite_version": "s", "grader_version": "g"}
        self.hello = versions | {"protections": [], "max_score": 10.0}
        self._numbers: list[int] = []

    def put(self, number: int, path: Path, seed: int) -> None:
        self._numbers.append(number)

    def get(self) -> tuple[int, dict]:
        result = result_of("") | {"code": ""}
        del result["student"], result["file"]
        return self._numbers.pop(0), result

    def close(self) -> None:
        """Nothing was started."""


def ungraded(student: str) -> dict[str, Any]:
    return result_of(student) | {
        "status": "ungraded", "reason": "the grader failed twice", "score": None, "exercises": [],
    }  # fmt: skip


def make_course(root: Path, students: dict[str, str | None]) -> Path:
    source = released()
    for cell in source.cells[1], source.cells[3]:
        cell.source = cell.source.split("\n")[0] + "\n    ### BEGIN SOLUTION\n    ### END SOLUTION"
    for folder, notebook in (("exercises", released()), ("build/source", source)):
        (root / folder / "layernorm").mkdir(parents=True)
        nbformat.write(notebook, root / folder / "layernorm/layernorm.ipynb")
    (root / "nbgrader_config.py").write_text(
        CONFIG.format(root=str(root), repository=str(ROOT)), encoding="utf-8"
    )
    for student, stamp in students.items():
        folder = root / "submitted" / student / "layernorm"
        folder.mkdir(parents=True)
        nbformat.write(submitted(student), folder / "layernorm.ipynb")
        if stamp:
            (folder / "timestamp.txt").write_text(stamp)
    return root


def submission_path(root: Path, student: str) -> Path:
    return root / "submitted" / student / "layernorm" / "layernorm.ipynb"


def database_url(root: Path) -> str:
    return f"sqlite:///{root / 'gradebook.db'}"


def nbgrader(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments], cwd=root, text=True, timeout=1200,
        capture_output=True,
        env=os.environ | {"HOME": str(root), "JUPYTER_CONFIG_DIR": str(root / "none"),
                          "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def rows_of(root: Path) -> list[str]:
    with sqlite3.connect(root / "gradebook.db") as connection:
        return list(connection.iterdump())


def facts_of(root: Path, url: str | None = None) -> dict[str, Any]:
    """All that matters in a gradebook, without its random ids."""
    facts: dict[str, Any] = {}
    with Gradebook(url or database_url(root)) as book:
        for submission in book.assignment_submissions("layernorm"):
            (notebook,) = submission.notebooks
            facts[submission.student.id] = {
                "timestamp": submission.timestamp,
                "score": submission.score,
                "max_score": submission.max_score,
                "flagged": notebook.flagged,
                "penalty": notebook.late_submission_penalty,
                "grades": {
                    g.name: (g.auto_score, g.manual_score, g.needs_manual_grade)
                    for g in notebook.grades
                },
                "comments": {c.name: c.comment for c in notebook.comments},
            }
    return facts


def write_result(root: Path, result: dict[str, Any], **options: Any) -> None:
    with Writer(root, "layernorm", **options) as writer:
        writer.write(result, submission_path(root, result["student"]))


def files_below(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())
