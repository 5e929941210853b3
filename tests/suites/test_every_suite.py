"""What holds for the hidden suite of every assignment.

Right solutions in other styles are in `alternatives/`, what else is expected in `expectations/`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import random
import re
import time
from pathlib import Path
from types import SimpleNamespace

import mutants
import nbformat
import pytest
import torch
from in_process import LocalAsker, gradable, grade, load, score

from autograder import course, release
from autograder.testing import plan
from autograder.testing.verdict import LearnerError

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENTS = gradable()
ALL = pytest.mark.parametrize("assignment", ASSIGNMENTS)


def reference(assignment):
    return vars(importlib.import_module(f"solutions.{assignment}.{assignment}"))


def alternatives(assignment):
    if not (ROOT / "tests" / "alternatives" / f"{assignment}.py").is_file():
        return SimpleNamespace(STYLES={})  # a test below says so
    return importlib.import_module(f"alternatives.{assignment}")


STYLES = [(name, style) for name in ASSIGNMENTS for style in alternatives(name).STYLES]


def failures(results):
    return [(r.exercise, r.test, r.verdict, r.message) for r in results if r.verdict != "pass"]


# -- points --------------------------------------------------------------------------------------


def test_every_assignment_has_a_suite():
    assert release.assignments() == course.names()


@ALL
def test_points_add_up_to_those_of_the_released_notebook(assignment):
    path = ROOT / "exercises" / assignment / f"{assignment}.ipynb"
    metadata = [
        cell.metadata.get("nbgrader", {}) for cell in nbformat.read(path, as_version=4).cells
    ]
    cells = {m["grade_id"]: m["points"] for m in metadata if m.get("grade") and m.get("locked")}
    suite = load(assignment)
    sums = {
        f"test_{name}": sum(t.points for t in suite.tests if t.exercise == name)
        for name in suite.exercises
    }
    assert sums == cells
    assert list(cells) == [f"test_{name}" for name in suite.exercises], "in another order"


@ALL
def test_titles_are_for_learners_and_tell_no_hidden_input(assignment):
    titles = [(t.exercise, t.title) for t in load(assignment).tests]
    assert len(set(titles)) == len(titles)
    for _, title in titles:
        assert 15 < len(title) < 100 and not title.endswith("."), title
        secrets = {number for number in re.findall(r"\d+", title) if len(number) > 2}
        assert secrets == set() and not re.search(r"\de\d", title), title


@ALL
def test_every_file_of_the_suite_has_the_marker_that_leaks_are_found_by(assignment):
    for path in (ROOT / "autograder" / "suites" / assignment).glob("*.*"):
        assert "HIDDEN-SUITE-7f3a" in path.read_text(encoding="utf-8"), path.name


# -- full marks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 6))
@ALL
def test_the_solution_gets_full_marks_for_any_seed(assignment, seed):
    results = grade(assignment, reference(assignment), seed=seed)
    assert failures(results) == []
    assert score(results) == load(assignment).max_score


@pytest.mark.parametrize(("assignment", "style"), STYLES)
def test_a_right_solution_in_another_style_gets_full_marks(assignment, style):
    slow = style in getattr(alternatives(assignment), "SLOW_STYLES", ())
    for seed in range(1, 2) if slow else range(1, 4):
        results = grade(assignment, alternatives(assignment).STYLES[style], seed=seed)
        assert failures(results) == [], f"seed {seed}"
        assert score(results) == load(assignment).max_score


@ALL
def test_there_are_four_right_solutions_in_other_styles(assignment):
    assert len(alternatives(assignment).STYLES) >= 4


# -- independence and cost -------------------------------------------------------------------------


@ALL
def test_each_exercise_is_graded_without_the_others(assignment):
    for name, points in release.points(assignment).items():
        assert score(grade(assignment, {name: reference(assignment)[name]})) == points


@ALL
def test_the_suite_takes_little_time(assignment):
    grade(assignment, reference(assignment))  # torch does some things slowly the first time
    start = time.process_time()
    grade(assignment, reference(assignment))
    # A program of a kernel costs milliseconds in the interpreter.
    most = {"layernorm": 0.3, "triton_kernels": 5.0}.get(assignment, 1.5)
    assert time.process_time() - start < most


# -- mutants ---------------------------------------------------------------------------------------


@pytest.mark.minutes
@ALL
def test_changes_said_to_make_no_difference_make_none(assignment):
    found = {mutant.key: mutant for mutant in mutants.mutants(assignment)}
    reasons = mutants.explained(assignment)
    assert set(reasons) - set(found) == set()
    keys = sorted(reasons)
    if assignment == "triton_kernels":  # half a second each; all of them in the soak test below
        keys = random.Random(assignment).sample(keys, 12)
    assert [key for key in keys if not mutants.survives(assignment, found[key])] == []


@pytest.mark.minutes
@ALL
def test_a_sample_of_small_changes_to_the_solution_is_noticed(assignment):
    reasons = mutants.explained(assignment)
    found = [m for m in mutants.mutants(assignment) if m.key not in reasons]
    sample = random.Random(assignment).sample(found, 60)
    assert [m.key for m in sample if mutants.survives(assignment, m)] == []


@pytest.mark.soak
@ALL
def test_every_small_change_to_the_solution_is_noticed(assignment):
    """`python -m tests.mutants` prints the table."""
    counted = mutants.tally(assignment)
    assert [m.key for m in counted.gaps] == []
    assert counted.outdated == []


# -- replies that are no answers -----------------------------------------------------------------

ODD = (
    None, 1, "text", [], {}, ["a", 1], ["a", None], [{}, []], [torch.tensor([True, False])] * 2,
    {"a": torch.tensor(True), "b": "text"}, {"a": []}, ([torch.tensor(True)] * 3, {"a": True}),
)  # fmt: skip


class Odd(LocalAsker):
    """Right code whose `number`-th reply about `op` is odd."""

    def __init__(self, namespace, op, number, reply):
        super().__init__(namespace)
        self.op, self.left, self.reply = op, number, reply

    def perform(self, name, op, request):
        reply = super().perform(name, op, request)
        self.left -= op == self.op
        return self.reply if op == self.op and self.left == -1 else reply


@ALL
@pytest.mark.parametrize("op", ["state", "parameters", "recorded", "inputs", "backward"])
def test_odd_replies_are_the_learner_s_mistake_and_no_failure_of_a_test(assignment, op):
    suite = load(assignment)
    for test in suite.tests[:: 8 if assignment == "triton_kernels" else 1]:  # slow ones
        for number, reply in itertools.product((0, 1), ODD):
            asker = Odd(vars(suite.reference), op, number, reply)
            with contextlib.suppress(AssertionError, LearnerError):
                plan.run(suite.plan(test, 1), asker, functools.partial(test.run, seed=1))
            if asker.left >= 0:
                break  # it asks less often
