"""Grade a notebook for real: with notebook, sandbox and worker, as `grade` and `check` do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from autograder.grading import engine
from autograder.release import ROOT


def graded(
    assignment: str, folder: Path, cells: Mapping[str, str], first: str = ""
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The exercises by name, and the whole result, of the released notebook with these `cells`.

    cells: grade_id -> source; the other cells stay as learners get them. first: a cell more, in
    front of the first one that is solved.
    """
    path = ROOT / "exercises" / assignment / f"{assignment}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = cells.get(grade_id, cell.source)
    if first:
        solved = [cell.metadata.get("nbgrader", {}).get("solution") for cell in notebook.cells]
        notebook.cells.insert(solved.index(True), nbformat.v4.new_code_cell(first))
    path = folder / path.name
    nbformat.write(notebook, path)
    result = engine.grade_notebook(assignment, path)
    assert result["status"] == "graded"
    return {e["name"]: e for e in result["exercises"]}, result
