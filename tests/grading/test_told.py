"""What a learner hears of an exercise is little enough, whatever the code under test chooses."""

from __future__ import annotations

import itertools

import torch

from autograder.grading import told
from autograder.grading.told import ERROR_TOO, MOST, WRONG_TOO
from autograder.testing.compare import Mismatch, expect
from autograder.testing.verdict import LearnerError, Outcome, Verdict, explain_error


def wrong(got, want):
    try:
        expect(got, want)
    except Mismatch as mismatch:
        return Outcome(Verdict.WRONG, mismatch.message, plain=mismatch.plain)
    return Outcome(Verdict.PASS)


def error(line, kind="ValueError"):
    return explain_error(LearnerError(kind, 1, line, "layer_norm"), f"line_{line}()")


def heard(*outcomes):
    return [o["message"] for o in told.sparingly(outcome.as_dict() for outcome in outcomes)]


def test_of_errors_the_first_line_and_type_are_told_and_again_where_they_are_the_same():
    first = error(6).message
    assert "`line_6()`" in first
    assert heard(error(6), error(6), error(7), error(6, "TypeError"), Outcome(Verdict.PASS)) == [
        first, first, ERROR_TOO, ERROR_TOO, None,
    ]  # fmt: skip
    memory = explain_error(LearnerError("MemoryError", 1, 9, "layer_norm"), "line_9()")
    assert memory.verdict == Verdict.MEMORY
    assert heard(error(6), memory) == [first, ERROR_TOO]
    assert heard(memory, error(6)) == [memory.message, ERROR_TOO]


def test_verdicts_and_points_stay_and_links_go_with_their_message():
    fault = Outcome(Verdict.ERROR, "In `kernel`, program 7: ...", link="triton-kernels.html#races")
    other = Outcome(Verdict.ERROR, "In `kernel`, program 8: ...", link="triton-kernels.html#masks")
    first, second = told.sparingly([fault.as_dict(), other.as_dict()])
    assert first == fault.as_dict()
    assert second == Outcome(Verdict.ERROR, ERROR_TOO).as_dict()


def test_a_shape_or_dtype_that_the_code_chose_is_told_once():
    want = torch.zeros(3, 5)
    shapes = [wrong(torch.zeros(s), want) for s in ((3, 1), (5, 3), (1, 1), (3, 1))]
    double = wrong(want.double(), want)
    has = "The output has"
    assert heard(*shapes, double) == [
        f"{has} shape (3, 1); expected (3, 5).",
        f"{has} another shape; expected (3, 5).",
        f"{has} another shape; expected (3, 5).",
        f"{has} shape (3, 1); expected (3, 5).",
        f"{has} another dtype; expected float32.",
    ]
    assert heard(double, shapes[0])[0] == f"{has} dtype float64; expected float32."


def test_an_exercise_has_a_few_explanations_and_those_told_may_come_again():
    known = [Outcome(Verdict.WRONG, f"You did {c}.", f"mistake-{c}", f"page#{c}") for c in "abcdef"]
    got = told.sparingly(o.as_dict() for o in [*known, known[0]])
    assert got[:MOST] == [o.as_dict() for o in known[:MOST]] and got[-1] == known[0].as_dict()
    assert got[MOST:-1] == [Outcome(Verdict.WRONG, WRONG_TOO).as_dict()] * (len(known) - MOST)


def test_explanations_that_differ_by_the_test_s_numbers_are_one():
    shapes = [wrong(torch.zeros(2), torch.zeros(n, n + 1)) for n in range(3, 20)]
    assert WRONG_TOO not in heard(*shapes)


def test_errors_and_explanations_do_not_displace_each_other():
    known = [Outcome(Verdict.WRONG, f"You did {c}.", f"mistake-{c}") for c in "abcd"]
    assert heard(*known, error(6)) == [*(o.message for o in known), error(6).message]


def test_after_the_first_failures_a_test_can_say_one_of_a_few_things():
    """The figure of the page on secrets: fewer than 3 bits for each further test."""
    want = torch.zeros(3, 5, 7)
    sizes = itertools.product((1, 3, 5, 7), repeat=3)
    errors = [error(line, kind) for line in range(1, 40) for kind in ("ValueError", "KeyError")]
    shapes = [wrong(torch.zeros(size), want) for size in sizes]
    dtypes = [wrong(want.to(d), want) for d in (torch.float64, torch.float16, torch.int8)]
    known = [Outcome(Verdict.WRONG, f"You did {c}.", f"mistake-{c}") for c in "abcdefghijkl"]
    begun = [errors[3], shapes[5], *known[:MOST]]
    said = set()
    for choice in [*errors, *shapes, *dtypes, *known, Outcome(Verdict.PASS)]:
        last = told.sparingly(o.as_dict() for o in [*begun, choice])[-1]
        said.add((last["verdict"], last["message"], last["misconception"], last["link"]))
    assert len(said) < 2**3 + 1
