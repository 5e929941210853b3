"""The gradebook: what nbgrader and formgrader see of a result, and what stops it."""

from __future__ import annotations

import csv
import json
import shutil
import time
from pathlib import Path

import nbformat
import pytest
from gradebook_course import (
    EVIL,
    MARKER,
    database_url,
    facts_of,
    files_below,
    make_course,
    nbgrader,
    released,
    result_of,
    rows_of,
    submission_path,
    ungraded,
    write_result,
)
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import event

from autograder.gradebook.writer import TOGETHER, GradebookError, Writer
from autograder.reports.words import literal

STUDENTS = {
    "student01": "2026-01-05 10:00:00.000000 UTC",
    "student02": "2026-01-05 11:30:00 UTC",
    "student03": None,
}
RESULTS = {
    "student01": result_of("student01"),
    "student02": result_of("student02", 2.5, 0.0),
    "student03": ungraded("student03"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course whose three submissions were recorded by the writer. Tests only read it."""
    root = make_course(tmp_path_factory.mktemp("written"), STUDENTS)
    with Writer(root, "layernorm") as writer:
        for student, result in RESULTS.items():
            writer.write(result, submission_path(root, student))
    return root


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return make_course(tmp_path, {"student01": "2026-01-05 10:00:00 UTC"})


# -- what nbgrader reads ----------------------------------------------------------------------


def test_scores_of_every_cell_are_in_the_gradebook(written: Path) -> None:
    facts = facts_of(written)
    assert facts["student01"]["grades"] == {
        "test_layer_norm": (6.0, None, False),
        "test_LayerNorm": (4.0, None, False),
        "why": (None, None, True),
    }
    assert facts["student02"]["grades"]["test_layer_norm"] == (2.5, None, False)
    assert facts["student02"]["grades"]["test_LayerNorm"] == (0.0, None, False)
    assert [f["max_score"] for f in facts.values()] == [12.0, 12.0, 12.0]


def test_an_ungraded_submission_waits_for_a_person_and_has_no_zero(written: Path) -> None:
    grades = facts_of(written)["student03"]["grades"]
    assert set(grades.values()) == {(None, None, True)}
    comment = facts_of(written)["student03"]["comments"]["layer_norm"]
    assert comment == "    Not graded yet: the grader failed twice"


def test_formgrader_lists_every_submission_as_graded(written: Path) -> None:
    directory = CourseDirectory(
        root=str(written), source_directory="build/source", release_directory="exercises"
    )
    api = NbGraderAPI(directory)
    assert api.get_autograded_students("layernorm") == set(STUDENTS)
    listed = {s["student"]: s for s in api.get_submissions("layernorm")}
    assert {s: (x["autograded"], x["score"]) for s, x in listed.items()} == {
        "student01": (True, 10.0),
        "student02": (True, 2.5),
        "student03": (True, 0.0),
    }
    assert listed["student03"]["needs_manual_grade"]
    opened = api.get_notebook_submissions("layernorm", "layernorm")
    assert {n["student"] for n in opened} == set(STUDENTS)


def test_a_missing_timestamp_is_the_time_of_the_file_in_all_three_places(written: Path) -> None:
    path = submission_path(written, "student03")
    text = (path.parent / "timestamp.txt").read_text()
    graded = written / "autograded/student03/layernorm/timestamp.txt"
    assert graded.read_text() == text
    stamp = facts_of(written)["student03"]["timestamp"]
    assert abs(stamp.timestamp() - time.timezone - path.stat().st_mtime) < 3700
    assert text.startswith(stamp.strftime("%Y-%m-%d %H:%M:%S"))


def test_export_agrees_with_the_results(written: Path) -> None:
    nbgrader(written, "export")
    with open(written / "grades.csv", newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    scores = {
        student: (float(r["raw_score"]), float(r["max_score"])) for student, r in rows.items()
    }
    assert scores == {
        "student01": (10.0, 12.0),
        "student02": (2.5, 12.0),
        "student03": (0.0, 12.0),
    }


@pytest.fixture(scope="module")
def feedback(written: Path) -> dict[str, str]:
    nbgrader(written, "generate_feedback", "layernorm")
    return {
        student: (written / f"feedback/{student}/layernorm/layernorm.html").read_text()
        for student in STUDENTS
    }


def test_feedback_shows_each_test_in_cell_and_comment(feedback: dict[str, str]) -> None:
    page = feedback["student02"]
    assert page.count("[wrong] Title of test_b. (0.5 of 4)") == 2
    assert page.count("[pass] Title of test_a. (2 of 2)") == 2
    assert page.count("You divided by D - 1; `x[0]` is not * the * biased variance.") == 2
    assert "Score: 2.5 / 6.0" in page
    assert "Not graded yet: the grader failed twice" in feedback["student03"]


def test_nothing_a_learner_wrote_becomes_html_in_the_feedback(feedback: dict[str, str]) -> None:
    for page in feedback.values():
        assert "alert(1)" in page, "the learner's source is shown"
        for live in ("<script>alert", "<img src=x", 'javascript:alert(3)"', "onerror=alert(2)>"):
            assert live not in page


def test_hidden_tests_appear_in_no_produced_file(written: Path, feedback: dict[str, str]) -> None:
    produced = [p for d in ("autograded", "feedback") for p in (written / d).rglob("*")]
    files = [p for p in produced if p.is_file()]
    assert len(files) >= 9
    assert not [p for p in files if MARKER.encode() in p.read_bytes()]


def test_the_autograded_notebook_keeps_only_trusted_metadata(written: Path) -> None:
    text = (written / "autograded/student01/layernorm/layernorm.ipynb").read_text()
    notebook = nbformat.reads(text, as_version=4)
    cells = {c.metadata.get("nbgrader", {}).get("grade_id", c.id): c for c in notebook.cells}
    assert cells["test_layer_norm"].metadata.nbgrader.points == 6
    assert cells["test_layer_norm"].source.strip() == "assert layer_norm"
    assert cells["layer_norm"].source.startswith("def layer_norm(x):\n    return x  # student01")
    assert cells["LayerNorm"].source == "class LayerNorm:\n    pass"
    assert cells["added-1"].source.startswith("helper = 1")
    assert not any(c.cell_type == "raw" for c in notebook.cells)
    assert {o.output_type for c in notebook.cells for o in c.get("outputs", [])} == {"stream"}
    assert "text/html" not in text
    assert "evil" not in notebook.metadata


@pytest.mark.parametrize(
    "text",
    [EVIL, f"$$\n{EVIL}\n$$", f"\\begin{{x}}{EVIL}\\end{{x}}", "```\n</code>" + EVIL,
     "[a](javascript:alert(3))", "![a](attachment:b)", "<!--\n-->" + EVIL, f"a\n\n\n- b\n\n{EVIL}"],
)  # fmt: skip
def test_literal_text_stays_text_in_markdown(text: str) -> None:
    html = markdown2html_mistune(literal(text))
    tags = {part.split(">")[0] for part in html.split("<")[1:]}
    assert tags == {"pre", "code", "/code", "/pre"}


def test_nbgrader_autograde_gives_the_same_as_the_writer(written: Path, tmp_path: Path) -> None:
    root = make_course(tmp_path, STUDENTS)
    for student in STUDENTS:  # same times, and something to copy along
        shutil.copy2(submission_path(written, student), submission_path(root, student))
        (submission_path(root, student).parent / "page.html").write_text(EVIL)
        (submission_path(root, student).parent / "data").mkdir()
        (submission_path(root, student).parent / "data/more.js").write_text("alert(5)")
    (root / "results.json").write_text(json.dumps(RESULTS))
    nbgrader(root, "autograde", "layernorm")
    assert facts_of(root) == facts_of(written)
    ours = {p.relative_to(written): p.read_bytes() for p in files_below(written / "autograded")}
    theirs = {p.relative_to(root): p.read_bytes() for p in files_below(root / "autograded")}
    assert theirs == ours


def test_generate_assignment_and_the_writer_know_the_same_cells(course: Path) -> None:
    with Writer(course, "layernorm") as writer:
        writer.register()
    nbgrader(course, "generate_assignment", "layernorm", "--force")
    write_result(course, result_of("student01", 5.0))
    facts = facts_of(course)["student01"]
    assert {name: auto for name, (auto, _, _) in facts["grades"].items()} == {
        "test_layer_norm": 5.0,
        "test_LayerNorm": 4.0,
        "why": None,
    }
    assert set(facts["comments"]) == {"layer_norm", "LayerNorm", "why"}


# -- writing again ----------------------------------------------------------------------------


def test_writing_the_same_result_again_changes_nothing(course: Path) -> None:
    result = result_of("student01", 3.0) | {
        "review": [{"exercise": "layer_norm", "kind": "suspicious", "line": 4, "detail": "f_back"}]
    }
    write_result(course, result)
    rows, times = (
        rows_of(course),
        [p.stat().st_mtime_ns for p in files_below(course / "autograded")],
    )
    write_result(course, result)
    assert rows_of(course) == rows
    assert [p.stat().st_mtime_ns for p in files_below(course / "autograded")] == times


def test_a_submission_is_recorded_with_one_commit(course: Path) -> None:
    commits = []
    with Writer(course, "layernorm") as writer:
        event.listen(writer.database._engine, "commit", commits.append)
        writer.write(result_of("student01"), submission_path(course, "student01"))
    assert len(commits) == 1


def test_results_that_were_added_share_commits_and_none_is_left_out(
    course: Path, tmp_path: Path
) -> None:
    students = [f"student{n:02d}" for n in range(20, 23 + 2 * TOGETHER)]
    commits, alone = [], make_course(tmp_path / "alone", {})
    with Writer(course, "layernorm") as writer:
        event.listen(writer.database._engine, "commit", commits.append)
        for student in students:
            writer.add(result_of(student, 2.5), None)
        assert len(commits) == 2
    assert len(commits) == 3
    with Writer(alone, "layernorm") as writer:
        for student in students:
            writer.write(result_of(student, 2.5), None)
    assert facts_of(course) == facts_of(alone)
    assert len(list((course / "autograded").glob("*/layernorm/layernorm.ipynb"))) == len(students)


def test_one_result_that_cannot_be_recorded_keeps_back_none_before_it(course: Path) -> None:
    with Writer(course, "layernorm") as writer:
        writer.add(result_of("student01"), None)
        writer.add(result_of("student02"), None)
        writer.add(result_of("a/b"), None)
        with pytest.raises(GradebookError, match="student id"):
            writer.flush()
    assert set(facts_of(course)) == {"student01", "student02"}


def test_results_wait_no_longer_where_the_run_ends_in_an_error(course: Path) -> None:
    with pytest.raises(KeyError), Writer(course, "layernorm") as writer:
        writer.write(result_of("student02"), None)
        writer.add(result_of("student01"), None)
        raise KeyError
    assert set(facts_of(course)) == {"student02"}


def test_a_manual_grade_survives_and_asks_for_a_look_only_when_the_score_changed(
    course: Path,
) -> None:
    write_result(course, result_of("student01", 3.0))
    with Gradebook(database_url(course)) as book:
        grade = book.find_grade("test_layer_norm", "layernorm", "layernorm", "student01")
        grade.manual_score, grade.needs_manual_grade, grade.extra_credit = 5.0, False, 0.5
        comment = book.find_comment("layer_norm", "layernorm", "layernorm", "student01")
        comment.manual_comment = "Well argued."
        book.db.commit()
    write_result(course, result_of("student01", 3.0))
    facts = facts_of(course)["student01"]
    assert facts["grades"]["test_layer_norm"] == (3.0, 5.0, False)
    assert facts["score"] == 5.5 + 4.0
    assert facts["comments"]["layer_norm"] == "Well argued."
    write_result(course, result_of("student01", 2.0))
    assert facts_of(course)["student01"]["grades"]["test_layer_norm"] == (2.0, 5.0, True)


def test_a_flag_that_a_person_took_away_stays_away(course: Path) -> None:
    entry = {
        "exercise": "layer_norm",
        "kind": "operator-seen",
        "line": 0,
        "detail": "aten::layer_norm",
    }
    result = result_of("student01", 0.0) | {"review": [entry]}
    write_result(course, result)
    assert facts_of(course)["student01"]["flagged"]
    assert "aten::layer_norm" not in str(facts_of(course)["student01"]["comments"])
    with Gradebook(database_url(course)) as book:
        book.find_submission_notebook("layernorm", "layernorm", "student01").flagged = False
        book.db.commit()
    write_result(course, result)
    assert not facts_of(course)["student01"]["flagged"]


def test_a_written_answer_that_nobody_wrote_scores_zero_as_in_nbgrader(course: Path) -> None:
    path = submission_path(course, "student01")
    nbformat.write(released(), path)
    write_result(course, result_of("student01", 0.0, 0.0))
    assert facts_of(course)["student01"]["grades"]["why"] == (0.0, None, False)
    assert facts_of(course)["student01"]["comments"]["why"] == "No response."


def test_a_late_penalty_goes_away_with_an_extension(course: Path) -> None:
    with Writer(course, "layernorm") as writer:
        writer.register()
    with Gradebook(database_url(course)) as book:
        book.update_or_create_assignment("layernorm", duedate="2026-01-05 09:00:00 UTC")
    write_result(course, result_of("student01"))
    assert facts_of(course)["student01"]["penalty"] == 10.0
    with Gradebook(database_url(course)) as book:
        book.grant_extension("layernorm", "student01", hours=2)
    write_result(course, result_of("student01"))
    assert facts_of(course)["student01"]["penalty"] is None


def test_cells_that_were_renamed_are_replaced_until_they_hold_grades(course: Path) -> None:
    with Writer(course, "layernorm") as writer:
        writer.register()
    notebook = released()
    notebook.cells[3].metadata.nbgrader.grade_id = "Norm"
    notebook.cells[3].source = "class Norm:\n    pass"
    nbformat.write(notebook, course / "exercises/layernorm/layernorm.ipynb")
    write_result(course, result_of("student01"))
    assert "Norm" in facts_of(course)["student01"]["comments"]
    nbformat.write(released(), course / "exercises/layernorm/layernorm.ipynb")
    with pytest.raises(GradebookError, match=r"no longer has \(Norm\).*nbgrader db assignment"):
        write_result(course, result_of("student01"))


def test_points_that_differ_from_the_released_notebook_are_refused(course: Path) -> None:
    result = result_of("student01")
    result["exercises"][0]["max_score"] = 8.0
    with pytest.raises(GradebookError, match="gives 8 points for layer_norm"):
        write_result(course, result)
    assert not (course / "autograded").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\x1b[2J", "x" * 129, "\udcff", " a"])
def test_names_that_cannot_be_a_student_id_are_refused(course: Path, name: str) -> None:
    with Writer(course, "layernorm") as writer, pytest.raises(GradebookError, match="student id"):
        writer.write(result_of("student01") | {"student": name}, None)


def test_a_submission_without_a_notebook_is_recorded(course: Path) -> None:
    result = ungraded("student01") | {"reason": "not a notebook: not JSON"}
    with Writer(course, "layernorm") as writer:
        writer.write(result, None)
    text = (course / "autograded/student01/layernorm/layernorm.ipynb").read_text()
    assert "Not graded yet: not a notebook: not JSON" in text
    assert "NotImplementedError" not in text
