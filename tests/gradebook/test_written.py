"""Questions answered in words: kept as text, never run, given to a person, out of our scores."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import nbformat
import pytest
from boxes import ANSWER, CHECK, STUB, cell, notebook
from gradebook_course import (
    EVIL,
    facts_of,
    make_course,
    nbgrader,
    released,
    result_of,
    submission_path,
    write_result,
)

from autograder.gradebook import learner as learners
from autograder.reading import submission
from autograder.reports.report import learner_text, to_gradescope, write_report

QUESTION = cell("YOUR ANSWER HERE", "written_why", "markdown", solution=True, grade=True)
HANDED_OUT = notebook(
    cell("# Boxes", kind="markdown"),
    cell("import math"),
    cell(STUB, "area", solution=True),
    cell(CHECK, "test_area", grade=True, locked=True),
    cell("Why?", kind="markdown"),
    QUESTION,
)
NOTICE = "a person grades 1 written question: the points are not part of this score"


@pytest.fixture
def hand_in(tmp_path):
    """Hand in the released notebook with its last cell replaced by others."""
    path = tmp_path / "released.ipynb"
    path.write_text(json.dumps(HANDED_OUT))
    handed_out = submission.released(path)

    def read(*answers, code=ANSWER):
        made = copy.deepcopy(HANDED_OUT)
        made["cells"][2]["source"] = code
        made["cells"][-1:] = answers
        target = tmp_path / "boxes.ipynb"
        target.write_text(json.dumps(made))
        return submission.read(target, handed_out), learners.read(target, handed_out)

    return read


def answer(text, kind="markdown", name="written_why"):
    return cell(text, name, kind, solution=True, grade=True)


def test_an_answer_is_kept_as_text_and_the_notices_name_the_person(hand_in):
    got, learner = hand_in(answer("Since $w h$.\r\n"))
    assert learner.sources["written_why"] == "Since $w h$." and learner.texts == []
    assert [c.source for c in got.cells] == ["import math", ANSWER]
    assert got.notices == [NOTICE]


def test_code_quoted_in_an_answer_is_not_run_even_if_the_exercise_is_a_stub(hand_in):
    quoted = "def area(w, h):\n    return 7"
    got, learner = hand_in(answer(quoted), code=STUB)
    assert quoted not in [c.source for c in got.cells] and got.untouched == {"area"}
    assert learner.sources["written_why"] == quoted


@pytest.mark.parametrize("text", ["Width times height.", "yes", "print('hello')"])
def test_an_answer_whose_cell_became_a_code_cell_is_not_run(hand_in, text):
    got, learner = hand_in(answer(text, "code"))
    assert [c.source for c in got.cells] == ["import math", ANSWER] and got.notices == [NOTICE]
    assert learner.sources["written_why"] == text and list(learner.added) == []


def test_code_that_took_over_the_id_of_the_question_is_still_run(hand_in):
    got, learner = hand_in(answer("half = 0.5", "code"), answer("Because."))
    assert "half = 0.5" in [c.source for c in got.cells] and learner.added == ["half = 0.5"]
    assert learner.sources["written_why"] == "Because."


def test_all_parts_of_an_answer_that_was_split_are_kept_once(hand_in):
    _, learner = hand_in(answer("First."), answer("Second."), answer("First."), QUESTION)
    assert learner.sources["written_why"] == "First.\n\nSecond."


@pytest.mark.parametrize(
    "other", [cell("I think so.", kind="markdown"), answer("I think so.", name="q")]
)
def test_an_answer_in_another_cell_is_kept_apart(hand_in, other):
    _, learner = hand_in(QUESTION, other)
    assert "written_why" not in learner.sources and learner.texts == ["I think so."]


def test_assignments_without_written_questions_keep_no_text(tmp_path):
    path = tmp_path / "boxes.ipynb"
    plain = notebook(*HANDED_OUT["cells"][:5])
    path.write_text(json.dumps(plain))
    handed_out = submission.released(path)
    plain["cells"].append(cell("Mine.", kind="markdown"))
    path.write_text(json.dumps(plain))
    assert learners.read(path, handed_out).texts == []
    assert submission.read(path, handed_out).notices == []


# -- the gradebook --------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return make_course(tmp_path, {"student01": None})


def _hand_in(course: Path, answer: str, *more: str) -> None:
    handed = released()
    handed.cells[5].source = answer
    handed.cells += [nbformat.v4.new_markdown_cell(text) for text in more]
    nbformat.write(handed, submission_path(course, "student01"))
    write_result(course, result_of("student01"))


def test_an_answer_waits_for_a_person_and_does_not_move_the_automatic_score(course: Path) -> None:
    _hand_in(course, "Because.")
    facts = facts_of(course)["student01"]
    assert facts["grades"]["why"] == (None, None, True)
    assert (facts["score"], facts["max_score"]) == (10.0, 12.0)
    assert facts["comments"]["why"] is None


@pytest.mark.parametrize("text", ["Your answer here.", "", " \n"])
def test_no_answer_is_zero_without_a_person(course: Path, text: str) -> None:
    _hand_in(course, text)
    assert facts_of(course)["student01"]["grades"]["why"] == (0.0, None, False)


def test_an_answer_in_another_cell_goes_to_a_person_who_sees_it(course: Path) -> None:
    _hand_in(course, "Your answer here.", f"My answer. {EVIL}")
    assert facts_of(course)["student01"]["grades"]["why"] == (None, None, True)
    path = course / "autograded/student01/layernorm/layernorm.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    assert cells[-1].source == f"    My answer. {EVIL}"
    nbgrader(course, "generate_feedback", "layernorm")
    page = (course / "feedback/student01/layernorm/layernorm.html").read_text()
    assert "My answer." in page and "<script>alert(1)" not in page


def test_the_answer_is_literal_text_in_the_autograded_notebook(course: Path) -> None:
    _hand_in(course, f"# Because\n\n{EVIL}\n\n[link](javascript:alert(3))")
    path = course / "autograded/student01/layernorm/layernorm.ipynb"
    (shown,) = [c for c in nbformat.read(path, as_version=4).cells if c.get("id") == "why"]
    lines = [line for line in shown.source.split("\n") if line]
    assert len(lines) == 3 and all(line.startswith("    ") for line in lines)


# -- the reports ----------------------------------------------------------------------------------


def test_reports_count_the_automatic_points_and_name_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "released.ipynb"
    nbformat.write(released(), path)
    result = result_of("student01") | {"notices": [NOTICE]}
    results = {
        "assignment": "layernorm", "suite_version": "1", "grader_version": "1", "seed": 1,
        "protections": [], "submissions": [result],
    }  # fmt: skip
    write_report(results, tmp_path / "out", path)
    page = (tmp_path / "out/index.html").read_text()
    assert "1 written question (2 points) is graded by a person" in page
    assert "10 of 10" in page and "of 12" not in page
    assert NOTICE in (tmp_path / "out/feedback/student01.html").read_text()
    assert NOTICE in learner_text(result) and "Total: 10 of 10 points" in learner_text(result)
    assert NOTICE in json.loads(to_gradescope(result))["output"]
    write_report(results, tmp_path / "other")
    assert "written question (" not in (tmp_path / "other/index.html").read_text()
