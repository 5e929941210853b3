"""One odd folder, a locked gradebook, a broken plugin: there is a report for everybody else."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from gradebook_course import FakeRunner, facts_of, make_course, submission_path

from autograder import cli, student_ids
from autograder.gradebook import writer
from autograder.gradebook.writer import Writer
from autograder.grading import engine

ODD = {
    "bob ": "begins or ends with a blank",
    "\u00a0bob": "begins or ends with a blank",
    "b" * 200: "has 200 characters, and nbgrader's database holds 128",
    ".bob": "begins with a dot",
    "b\x1b[2Job": "cannot be printed, U+001B",
    "b\nob": "cannot be printed, U+000A",
    "b\u202eob": "cannot be printed, U+202E",
    "b\udcffob": "no text in UTF-8",
    "b\\ob": "holds a slash or backslash",
}
PLAIN = ("student01", "Zo\u00eb", "a b", "_bob", "bob.", "J. Doe-O'Neil, Jr", "b" * 128)


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of three whose submissions are graded at once."""
    monkeypatch.setattr(engine, "Runner", FakeRunner)
    monkeypatch.delenv("COURSE_DB_URL", raising=False)
    return make_course(tmp_path / "course", dict.fromkeys(("student01", "student02", "student03")))


def grade(course: Path, *options: str) -> int:
    return cli.main(["grade", "layernorm", "--course", str(course), *options])


def rows(course: Path) -> dict[str, dict]:
    graded = json.loads((course / "results" / "layernorm" / "results.json").read_text())
    return {s["student"]: s for s in graded["submissions"]}


def hand_in(course: Path, name: str) -> None:
    copied = submission_path(course, "student01").parent
    shutil.copytree(copied, course / "submitted" / name / "layernorm")


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_is_a_student_id(name: str) -> None:
    assert student_ids.fault(name) is None


@pytest.mark.parametrize("options", [[], ["--no-gradebook"]])
def test_a_folder_that_cannot_be_a_student_is_one_row_and_all_others_are_graded(
    course: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    for name in ODD:
        hand_in(course, name)
    (course / "submitted" / ".ipynb_checkpoints").mkdir()
    assert grade(course, *options) == 1
    found = rows(course)
    assert found.keys() == ODD.keys() | {"student01", "student02", "student03"}
    for name, reason in ODD.items():
        assert found[name]["status"] == "ungraded" and found[name]["score"] is None
        assert reason in found[name]["reason"]
        assert found[name]["reason"].endswith("; rename it, and grade again")
    assert {found[f"student0{n}"]["score"] for n in (1, 2, 3)} == {10.0}
    said = capsys.readouterr()
    assert "Traceback" not in said.err and "autograder: " not in said.err
    assert len(list((course / "results" / "layernorm" / "feedback").iterdir())) == len(found)
    assert (course / "results" / "layernorm" / "index.html").is_file()
    if not options:
        assert facts_of(course).keys() == {"student01", "student02", "student03"}


def test_an_odd_folder_that_was_renamed_is_graded_by_the_next_run(course: Path) -> None:
    hand_in(course, "bob ")
    assert grade(course) == 1
    os.rename(course / "submitted" / "bob ", course / "submitted" / "bob")
    assert grade(course) == 0
    assert rows(course).keys() == facts_of(course).keys() >= {"bob"}


def test_a_folder_that_cannot_be_opened_is_a_row_and_not_forgotten(course: Path) -> None:
    os.symlink("in-circles", course / "submitted" / "in-circles")
    assert grade(course) == 1
    assert rows(course)["in-circles"]["reason"].startswith("its folder cannot be opened: Too many")


# -- the gradebook ------------------------------------------------------------------------------


def no_database(course: Path, _: pytest.MonkeyPatch) -> None:
    (course / "gradebook.db").write_text("dear diary\n" * 200)


def locked(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Writer.__init__.__kwdefaults__, "patience", 0.3)
    other = sqlite3.connect(course / "gradebook.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(Writer, "held_by_another", other, raising=False)  # until the test ends


def full(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(writer, "renew", no_space)


def no_release(course: Path, _: pytest.MonkeyPatch) -> None:
    shutil.rmtree(course / "exercises")


def damaged_release(course: Path, _: pytest.MonkeyPatch) -> None:
    (course / "exercises" / "layernorm" / "layernorm.ipynb").write_text("{")


def broken_configuration(course: Path, _: pytest.MonkeyPatch) -> None:
    (course / "nbgrader_config.py").write_text("c = get_config()\nc.x = no_such_name\n")


def leaving_configuration(course: Path, _: pytest.MonkeyPatch) -> None:
    (course / "nbgrader_config.py").write_text("import sys\nsys.exit('not here')\n")


def broken_plugin(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise ZeroDivisionError("in a plugin\nof the course")

    monkeypatch.setattr(Writer, "_late_penalty", failing)


def other_points(course: Path, _: pytest.MonkeyPatch) -> None:
    path = course / "exercises" / "layernorm" / "layernorm.ipynb"
    path.write_text(path.read_text().replace('"points": 6', '"points": 7'))


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (no_database, "is not an SQLite database: move it away, or name another"),
        (locked, "was locked by another program for 0.3 seconds"),
        (full, "there is no space left on the disk of"),
        (no_release, "run `make exercises`"),
        (damaged_release, "cannot be used"),
        (broken_configuration, "nbgrader_config.py cannot be used: NameError"),
        (leaving_configuration, "nbgrader_config.py cannot be used: SystemExit"),
        (broken_plugin, "ZeroDivisionError: in a plugin"),
        (other_points, "gives 6 points for layer_norm"),
    ],
)
def test_a_gradebook_that_cannot_be_written_is_one_line_and_the_report_is_there(
    course: Path, monkeypatch, capsys, break_it, said: str
) -> None:
    break_it(course, monkeypatch)
    assert grade(course) == 1
    output = capsys.readouterr()
    told = [x for x in output.err.splitlines() if x.startswith("autograder: ")]
    assert len(told) == 1 and said in told[0], output.err
    assert told[0].startswith("autograder: the gradebook is not complete: ")
    assert "Traceback" not in output.err
    assert {s["score"] for s in rows(course).values()} == {10.0} and len(rows(course)) == 3
    assert (course / "results" / "layernorm" / "index.html").is_file()
    assert "student03" in output.out


def test_one_submission_the_database_refuses_keeps_no_other_out_of_the_gradebook(
    course: Path, monkeypatch, capsys
) -> None:
    real = Writer._record

    def refusing(self: Writer, submission: object, entry) -> None:
        if entry.student == "student02":
            "\udcff".encode()
        real(self, submission, entry)

    monkeypatch.setattr(Writer, "_record", refusing)
    assert grade(course) == 1
    assert facts_of(course).keys() == {"student01", "student03"}
    assert rows(course).keys() == {"student01", "student02", "student03"}
    (told,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("autograder: ")]
    assert "complete: 'student02': " in told and "undecodable characters" in told


def test_the_next_run_fills_the_gradebook(course: Path, monkeypatch) -> None:
    with monkeypatch.context() as broken:
        full(course, broken)
        assert grade(course) == 1
    assert grade(course) == 0
    assert facts_of(course).keys() == {"student01", "student02", "student03"}
