"""The notebook that learners were given. Its metadata can be trusted; that of a copy cannot."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode

TEST_PREFIX = "test_"


def read_released(path: Path) -> NotebookNode:
    """The released notebook. Raises OSError, or ValueError when it is not a notebook."""
    text = path.read_text(encoding="utf-8")
    notebook: NotebookNode = nbformat.reads(text, as_version=4)
    if not any(is_grade(cell) for cell in notebook.cells):
        raise ValueError("it has no graded cell")
    return notebook


def is_grade(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def is_solution(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def is_task(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("task"))


def is_written(cell: NotebookNode) -> bool:
    """A question answered in words: a person grades the learner's own cell."""
    return is_grade(cell) and is_solution(cell)


def grade_id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def released_points(released: NotebookNode) -> dict[str, float]:
    """Points of every graded cell of the released notebook, by grade_id, in notebook order."""
    graded = [c for c in released.cells if is_grade(c) or is_task(c)]
    return {grade_id(cell): float(cell.metadata.nbgrader.get("points", 0)) for cell in graded}
