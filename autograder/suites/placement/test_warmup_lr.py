"""Hidden tests of `warmup_lr(step, d_model, warmup)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

import solutions.placement.placement as reference
from autograder.suites.placement.inputs import numbers
from autograder.testing.compare import expect
from autograder.testing.verdict import LearnerError


def _check(student, what, *cases):
    """All cases at once: a mistake shows by what it does before, at and after the top."""
    want = torch.tensor([reference.warmup_lr(*case) for case in cases], dtype=torch.float64)
    got = [student.warmup_lr(*case) for case in cases]
    expect(numbers(got), want, rtol=1e-9, atol=0, what=what)


@pytest.mark.points(0.75)
def test_around_the_top(student, rng):
    """The rate is largest at the end of warm-up, and smaller before and after it"""
    steps = (1, 100, 399, 400, 401, 1000)
    _check(student, "the rates before, at and after the top", *((s, 64, 400) for s in steps))


@pytest.mark.points(0.5)
def test_during_warm_up(student, rng):
    """The rate rises in a straight line"""
    cases = [(1, 256, 1000), (10, 64, 50), (499, 512, 500), (2000, 128, 8000)]
    _check(student, "the rates during warm-up", *cases)


@pytest.mark.points(0.5)
def test_after_warm_up(student, rng):
    """The rate falls with one over the root of the step"""
    cases = [(2000, 256, 1000), (51, 64, 50), (10**6, 512, 500), (7, 100, 1)]
    _check(student, "the rates after warm-up", *cases)


@pytest.mark.points(0.5)
def test_width_and_warm_up(student, rng):
    """Wide models and long warm-ups have a lower top"""
    cases = [(w, d, w) for d in (16, 64, 1000) for w in (1, 32, 4000)]
    _check(student, "the rates at the top", *cases)


@pytest.mark.points(0.5)
def test_any_numbers(student, rng):
    """Agrees with the formula for any step, width and length of warm-up"""
    drawn = torch.randint(1, 5000, (12, 3), generator=rng).tolist()
    _check(student, "the rates", *drawn)


@pytest.mark.points(0.25)
def test_there_is_no_step_zero(student, rng):
    """A step smaller than one is refused with a ValueError"""
    for step in (0, -1, -100):
        refused = False
        try:
            student.warmup_lr(step, 64, 100)
        except LearnerError as error:
            if error.kind not in ("ValueError", "ZeroDivisionError", "AssertionError", "TypeError"):
                raise
            refused = error.kind == "ValueError"
        expect(refused, True, what="the answer to whether such a step raises a ValueError")
    _check(student, "the rate at the first step", (1, 64, 100))
