"""Every command that reads or writes a course does so in the one that it is told of."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from exports import notebook, zipped
from gradebook_course import FakeRunner, make_course, released

from autograder import cli
from autograder.course import ROOT
from autograder.grading import engine


def two_courses(tmp_path: Path) -> tuple[Path, Path]:
    here = make_course(tmp_path / "here", {"ada": None})
    other = make_course(tmp_path / "other", {"grace": None, "edsger": None})
    return here, other


@pytest.fixture
def courses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """(the course that is worked in without a word, another one), both graded."""
    monkeypatch.setattr(engine, "Runner", FakeRunner)
    here, other = two_courses(tmp_path)
    for course in (here, other):
        options = ["--course", str(course), "--no-gradebook"]
        assert cli.main(["grade", "layernorm", *options]) == 0
    return here, other


def pages(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir()}


def test_feedback_hands_out_the_pages_of_the_course_it_is_told(courses, tmp_path) -> None:
    for course, students in zip(courses, ({"ada"}, {"grace", "edsger"}), strict=True):
        target = tmp_path / "pages" / course.name
        options = ["--course", str(course), "--to", str(target)]
        assert cli.main(["feedback", "layernorm", *options]) == 0
        assert pages(target) == students


@pytest.mark.parametrize("format", ["csv", "json", "gradescope"])
def test_export_copies_the_scores_of_the_course_it_is_told(courses, tmp_path, format) -> None:
    target = tmp_path / "scores"
    options = ["--course", str(courses[1]), "--format", format, "--to", str(target)]
    assert cli.main(["export", "layernorm", *options]) == 0
    if format == "gradescope":
        assert pages(target) == {"grace", "edsger"}
    else:
        text = target.read_text()
        assert "grace" in text and "edsger" in text and "ada" not in text


def test_results_that_were_put_elsewhere_are_found_by_the_same_option(courses, tmp_path) -> None:
    elsewhere = tmp_path / "elsewhere"
    named = ["--results", str(elsewhere)]
    course = ["--course", str(courses[0]), "--no-gradebook"]
    assert cli.main(["grade", "layernorm", *course, *named]) == 0
    shutil.rmtree(courses[0] / "results")
    assert cli.main(["feedback", "layernorm", *named, "--to", str(tmp_path / "pages")]) == 0
    assert pages(tmp_path / "pages") == {"ada"}
    assert cli.main(["export", "layernorm", *named, "--to", str(tmp_path / "s.csv")]) == 0
    assert "ada" in (tmp_path / "s.csv").read_text()


@pytest.mark.parametrize("verb", ["export", "feedback"])
def test_results_of_another_assignment_are_not_handed_out(courses, tmp_path, capsys, verb) -> None:
    results = courses[0] / "results" / "layernorm"
    options = ["--results", str(results), "--to", str(tmp_path / "target")]
    assert cli.main([verb, "batchnorm", *options]) == 2
    assert "holds results of layernorm, not batchnorm" in capsys.readouterr().err
    assert not (tmp_path / "target").exists()


def test_a_course_without_results_is_said_with_its_folder(courses, tmp_path, capsys) -> None:
    shutil.rmtree(courses[1] / "results")
    options = ["--course", str(courses[1]), "--to", str(tmp_path / "target")]
    assert cli.main(["feedback", "layernorm", *options]) == 2
    said = capsys.readouterr().err
    assert f"nothing to copy yet in {courses[1] / 'results' / 'layernorm'}; run" in said
    assert not (tmp_path / "target").exists()


def test_collect_puts_submissions_into_the_course_it_is_told(tmp_path) -> None:
    archive = tmp_path / "export.zip"
    archive.write_bytes(zipped({"grace/layernorm.ipynb": notebook()}))
    assert cli.main(["collect", "layernorm", str(archive), "--course", str(tmp_path / "c")]) == 0
    assert (tmp_path / "c" / "submitted" / "grace" / "layernorm" / "layernorm.ipynb").is_file()


# -- the notebook that the course handed out ----------------------------------------------------


def written_questions(course: Path) -> tuple[int, int]:
    """(how many questions a person grades, their points), as the class page says."""
    page = (course / "results" / "layernorm" / "index.html").read_text()
    (found,) = re.findall(r"<p>(\d+) written questions? \((\d+) points\)", page)
    return int(found[0]), int(found[1])


def test_the_report_reads_the_notebook_that_the_course_released(courses) -> None:
    assert [written_questions(course) for course in courses] == [(1, 2), (1, 2)]


def test_the_report_finds_a_release_folder_that_nbgrader_is_told_of(courses) -> None:
    course = courses[1]
    (course / "exercises").rename(course / "handed-out")
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text().replace('= "exercises"', '= "handed-out"'))
    notebook = released()
    notebook.cells[5].metadata["nbgrader"]["points"] = 5
    nbformat.write(notebook, course / "handed-out" / "layernorm" / "layernorm.ipynb")
    options = ["--course", str(course), "--no-gradebook"]
    assert cli.main(["grade", "layernorm", *options]) == 0
    assert written_questions(course) == (1, 5)


def test_a_course_that_keeps_no_released_notebook_is_told_of_the_suites_own(courses) -> None:
    course = courses[1]
    shutil.rmtree(course / "exercises")
    options = ["--course", str(course), "--no-gradebook"]
    assert cli.main(["grade", "layernorm", *options]) == 0
    cells = json.loads((ROOT / "exercises/layernorm/layernorm.ipynb").read_text())["cells"]
    asked = [m for c in cells if (m := c["metadata"].get("nbgrader", {})).get("solution")]
    points = [m["points"] for m in asked if m["grade"]]
    assert written_questions(course) == (len(points), sum(points)) != (1, 2)
