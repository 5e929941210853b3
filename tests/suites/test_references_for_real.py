"""Each reference, graded in the sandbox: what an exercise refuses, its own tests do not need."""

from __future__ import annotations

import pytest
from for_real import graded
from in_process import gradable

from autograder import course, release


@pytest.mark.parametrize("assignment", course.names())
def test_the_reference_has_full_marks_and_nothing_to_review(assignment, tmp_path):
    if assignment not in gradable():
        pytest.skip("Triton has packages for Linux only")
    exercises, result = graded(assignment, tmp_path, release.solution_cells(assignment))
    said = {
        test["message"] for e in exercises.values() for test in e["tests"]
        if test["verdict"] != "pass"
    }  # fmt: skip
    assert (result["score"], said, result["review"]) == (result["max_score"], set(), [])
