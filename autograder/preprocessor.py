"""`nbgrader autograde` through the sandbox, with the same result as `python -m autograder grade`.

nbgrader converts a submission twice. The first pass (`sanitize_preprocessors`) reads it from
submitted/ and writes it to autograded/; its stock preprocessors fail, for the whole class, on some
metadata a learner can write. The second pass (`autograde_preprocessors`) reads that copy, runs it
in a kernel with the rights of the grader (`Execute`), derives scores from the cells' outputs and
sets `auto_comment` to "No response." or to nothing, whatever stood there (`SaveAutoGrades`).
`InertCopy` takes the place of the first, `GradeInSandbox` of the second. In nbgrader_config.py:

    c.Autograde.sanitize_preprocessors = ["autograder.preprocessor.InertCopy"]
    c.Autograde.autograde_preprocessors = ["autograder.preprocessor.GradeInSandbox"]
    c.Autograde.pre_convert_hook = "autograder.preprocessor.register_assignment"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Integer

from .gradebook.timestamps import FILE as TIMESTAMP
from .gradebook.writer import Writer
from .grading import engine


def register_assignment(assignment: str, **_: Any) -> None:
    """Tell the gradebook about the assignment, also if `generate_assignment` was never run here.

    nbgrader calls this in the course folder, before it looks the assignment up.
    """
    with Writer(Path.cwd(), assignment) as writer:
        writer.register()


class InertCopy(NbGraderPreprocessor):
    """Replaces the notebook by an empty one: nothing of a submission is copied as it is."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        return nbformat.v4.new_notebook(), resources


class GradeInSandbox(NbGraderPreprocessor):
    """Grades the submitted file in the sandbox, records it, and returns the autograded notebook.

    The notebook it is given is not looked at: the file in submitted/ is graded. A submission that
    could not be graded is recorded without a score and marked for manual grading.
    """

    seed = Integer(
        engine.DEFAULT_SEED, help="Seed of the random inputs, one for the whole class"
    ).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        student = resources["nbgrader"]["student"]
        assignment = resources["nbgrader"]["assignment"]
        name = f"{resources['nbgrader']['notebook']}.ipynb"
        course = CourseDirectory(parent=self)
        submitted = Path(course.format_path(course.submitted_directory, student, assignment)) / name
        with Writer(Path(course.root), assignment, resources["nbgrader"]["db_url"]) as writer:
            result = engine.grade_notebook(assignment, submitted, seed=self.seed)
            result = {**result, "student": student}
            notebook = writer.record(result, submitted)
        if result["status"] != "graded":
            self.log.error("%s was not graded: %s", student, result["reason"])
        graded = Path(course.format_path(course.autograded_directory, student, assignment))
        _keep_only(graded, {name, TIMESTAMP})
        return notebook, resources


def _keep_only(folder: Path, names: set[str]) -> None:
    """Remove what nbgrader copied along: a learner's pages and scripts stay in submitted/ alone."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_symlink() or not path.is_dir():
            if path.parent != folder or path.name not in names:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
