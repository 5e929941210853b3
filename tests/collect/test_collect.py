"""Exports of learning platforms are sorted into submitted/, and nothing that is there is lost."""

from __future__ import annotations

import os
import struct
from datetime import UTC, datetime
from functools import partial

import pytest
from exports import NAME, NOTEBOOK, WHEN, collected, notebook, students, submitted, zipped

from autograder.collect import collect


@pytest.fixture
def run(tmp_path):
    """Collect a zip, given as its entries or its bytes, into tmp_path/submitted."""
    return partial(collected, tmp_path)


# -- platforms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("Jane Doe_123_assignsubmission_file_/layernorm.ipynb", "Jane_Doe"),
        ("Jane Doe_123_assignsubmission_file/sub/layernorm.ipynb", "Jane_Doe"),
        ("Jane Doe_123_assignsubmission_file_layernorm.ipynb", "Jane_Doe"),
        ("Zoë O'Brien-Łuk_9_assignsubmission_file_/x.ipynb", "Zoë_O'Brien-Łuk"),
        ("doejane_4567_8901_layernorm.ipynb", "doejane_4567"),
        ("doejane_LATE_4567_8901_layernorm.ipynb", "doejane_4567"),
        ("doejane_4567_8901_x_1_2_layernorm.ipynb", "doejane_4567"),
        ("LATE_anon_a1B2c_8901_layernorm.ipynb", "anon_a1B2c"),
        ("4567-8901 - Jane Doe - Oct 11, 2026 208 PM/layernorm.ipynb", "Jane_Doe_4567"),
        ("4567-8901 - Jane Doe - 11 October, 2026 1408/layernorm.ipynb", "Jane_Doe_4567"),
        ("4567-8901 - Jane Doe - Oct 11, 2026 208 PM - layernorm.ipynb", "Jane_Doe_4567"),
        ("Layer norm_jdoe_attempt_2026-10-11-14-08-00_layernorm.ipynb", "jdoe"),
        ("submission_8901/layernorm.ipynb", "submission_8901"),
        ("student01/layernorm.ipynb", "student01"),
        ("student01/layernorm/layernorm.ipynb", "student01"),
        ("student01/my work/layernorm.ipynb", "student01"),
    ],
)
def test_the_student_is_read_from_the_name_a_platform_gives(run, tmp_path, path, student):
    for prefix in ("", "export/"):
        others = {f"{prefix}student{i}/{NAME}.ipynb": NOTEBOOK for i in (98, 99)}
        mapping = run({prefix + path: notebook("mine"), **others})
        assert mapping.refused == []
        assert set(students(mapping)) == {student, "student98", "student99"}
        assert submitted(tmp_path)[student] == notebook("mine")


def test_gradescope_metadata_gives_person_and_time(run, tmp_path):
    metadata = b"""
submission_1:
  :submitters:
  - :name: Jane Doe
    :sid: '0123'
    :email: jane@example.org
  :created_at: 2026-03-05 10:00:00.000000000 -07:00
submission_2:
  :submitters:
  - :name: A
    :email: a@example.org
  - :name: B
    :email: b+c@example.org
  :created_at: 2026-03-06 10:00:00.000000000 Z
submission_3:
  :submitters:
  - :name: Jane Doe
    :sid: '0123'
  :created_at: 2026-03-04 10:00:00.000000000 Z
"""
    mapping = run(
        {
            "assignment_9_export/submission_metadata.yml": metadata,
            "assignment_9_export/submission_1/layernorm.ipynb": notebook("late"),
            "assignment_9_export/submission_2/layernorm.ipynb": notebook("group"),
            "assignment_9_export/submission_3/layernorm.ipynb": notebook("early"),
            # a learner's own list of people is not believed
            "assignment_9_export/submission_2/submission_metadata.yml": b"submission_2: {}",
        }
    )
    assert submitted(tmp_path) == {
        "0123": notebook("late"),
        "a@example.org": notebook("group"),
        "b+c@example.org": notebook("group"),
    }
    notes = {student: note for _, student, note in mapping.accepted}
    assert notes["0123"] == "the latest of 2 attempts"
    assert notes["a@example.org"] == "handed in by a group of 2"
    stamp = tmp_path / "submitted" / "0123" / NAME / "timestamp.txt"
    assert stamp.read_text() == "2026-03-05 17:00:00.000000 UTC"


def test_a_single_student_laid_out_as_nbgrader_does_is_not_taken_for_a_wrapper(run, tmp_path):
    run({"student01/layernorm/layernorm.ipynb": notebook("a"), "student01/rmsnorm/x.ipynb": b"x"})
    assert submitted(tmp_path) == {"student01": notebook("a")}


def test_a_folder_is_collected_like_a_zip(tmp_path):
    source = tmp_path / "export"
    for name, data in {
        "student01/layernorm.ipynb": notebook("1"),
        "student02/work.zip": zipped({"layernorm/layernorm.ipynb": notebook("2")}),
        "student03.zip": zipped({"layernorm.ipynb": notebook("3")}),
        "student03/readme.md": b"",
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
        os.utime(source / name, (1_700_000_000, 1_700_000_000))
    os.symlink("/etc/passwd", source / "student01" / "secret.ipynb")
    os.mkfifo(source / "student02" / "pipe")
    mapping = collect(source, NAME, tmp_path / "submitted")
    assert submitted(tmp_path) == {"student02": notebook("2"), "student03": notebook("3")}
    assert ("student02/pipe", "it is not a plain file") in mapping.refused
    assert ("student01/layernorm.ipynb", "secret.ipynb: it is a link") in mapping.refused
    stamp = tmp_path / "submitted" / "student02" / NAME / "timestamp.txt"
    assert stamp.read_text() == "2023-11-14 22:13:20.000000 UTC"


# -- which file, which attempt -----------------------------------------------------------------


def test_the_latest_attempt_counts(run, tmp_path):
    mapping = run(
        {
            "doejane_1_20_layernorm-2.ipynb": notebook("third"),
            "doejane_1_21_layernorm.ipynb": notebook("first"),
            "doejane_1_19_layernorm-1.ipynb": notebook("second"),
            "7-1 - A B - Oct 9, 2026 145 PM/layernorm.ipynb": notebook("afternoon"),
            "7-1 - A B - Oct 9, 2026 1105 AM/layernorm.ipynb": notebook("morning"),
        }
    )
    assert submitted(tmp_path) == {"doejane_1": notebook("third"), "A_B_7": notebook("afternoon")}
    assert [(name, note.split(";")[0]) for name, _, note in mapping.accepted] == [
        ("7-1 - A B - Oct 9, 2026 145 PM/layernorm.ipynb", "the latest of 2 attempts"),
        ("doejane_1_20_layernorm-2.ipynb", "the latest of 3 attempts"),
    ]


def test_the_notebook_of_the_assignment_is_chosen_and_the_guess_is_told(run, tmp_path):
    mapping = run(
        {
            "student01/LayerNorm (1).ipynb": notebook("copy"),
            "student01/notes.ipynb": notebook("notes"),
            "student01/__MACOSX/._layernorm.ipynb": b"x",
            "student01/.ipynb_checkpoints/layernorm.ipynb": b"x",
            "student02/plot.png": b"x",
        }
    )
    assert submitted(tmp_path) == {"student01": notebook("copy")}
    assert "graded 'LayerNorm (1).ipynb' as layernorm.ipynb" in mapping.accepted[0][2]
    assert mapping.others == 1 and mapping.refused == []


def test_namesakes_in_moodle_are_told_apart_by_number(run, tmp_path):
    run(
        {
            "Jane Doe_1_assignsubmission_file_/layernorm.ipynb": notebook("1"),
            "jane Doe_2_assignsubmission_file_/layernorm.ipynb": notebook("2"),
        }
    )
    assert submitted(tmp_path) == {"Jane_Doe_1": notebook("1"), "jane_Doe_2": notebook("2")}


@pytest.mark.parametrize(
    "paths",
    [
        ("Student01/layernorm.ipynb", "student01/other.ipynb"),
        ("a b/layernorm.ipynb", "a_b/layernorm.ipynb"),
        (
            "T_x_jo_attempt_2026-10-11-14-08-00_a.ipynb",
            "T_y_jo_attempt_2026-10-11-14-08-00_a.ipynb",
        ),
        ("é/layernorm.ipynb", "e\u0301/x.ipynb", "É/layernorm.ipynb"),
    ],
)
def test_names_that_collide_are_all_refused(run, tmp_path, paths):
    mapping = run({path: NOTEBOOK for path in [*paths, "student99/layernorm.ipynb"]})
    assert set(submitted(tmp_path)) == {"student99"}
    assert len(mapping.refused) >= 2
    assert all("lead to the name" in reason for _, reason in mapping.refused)


def test_the_same_path_twice_refuses_the_student(run, tmp_path):
    mapping = run(
        [
            ("student01/layernorm.ipynb", notebook("good")),
            ("student01/layernorm.ipynb", notebook("evil")),
            ("student01/other.ipynb", notebook("other")),
            ("student02/layernorm.ipynb", notebook("ok")),
        ]
    )
    assert submitted(tmp_path) == {"student02": notebook("ok")}
    assert mapping.refused == [
        (
            "student01/layernorm.ipynb",
            "layernorm.ipynb: its path occurs 2 times in the archive",
        )
    ]


def test_nested_zips_are_opened_one_level_deep(run, tmp_path):
    good = zipped({"work/layernorm.ipynb": notebook("in zip")}, when=(1999, 1, 1, 0, 0, 0))
    mapping = run(
        {
            "a_1_assignsubmission_file_/hand-in.zip": good,
            "b_2_assignsubmission_file_/two.zip": zipped({"inner.zip": good}),
            "student01.zip": good,
            "student02/bad.zip": b"PK\3\4 no zip",
            "student03/empty.zip": zipped({"readme.txt": b""}),
        }
    )
    assert submitted(tmp_path) == {"a": notebook("in zip"), "student01": notebook("in zip")}
    assert dict(mapping.refused) == {
        "b_2_assignsubmission_file_/two.zip/inner.zip": "a zip in a zip in the archive is not "
        "opened",
        "b_2_assignsubmission_file_/two.zip": "holds no notebook",
        "student02/bad.zip": "the zip: is not a zip file",
        "student03/empty.zip": "holds no notebook",
    }
    # the time of the learner's own zip is not believed
    assert "1999" not in (tmp_path / "submitted/student01" / NAME / "timestamp.txt").read_text()


def test_the_report_names_everyone_and_holds_one_line_each(run):
    mapping = run({"student01/layernorm.ipynb": NOTEBOOK, "x.ipynb": NOTEBOOK, "a/\x1b[31m": b""})
    lines = mapping.lines()
    assert lines[0] == "student01  <-  student01/layernorm.ipynb"
    assert "its name does not say whose it is" in lines[2]
    assert lines[-1] == "1 collected, 2 not taken"
    assert all(line.isprintable() for line in lines)


# -- what is there already ---------------------------------------------------------------------


def test_collecting_again_changes_nothing(run, tmp_path):
    files = {"student01/layernorm.ipynb": notebook("a")}
    run(files)
    folder = tmp_path / "submitted" / "student01" / NAME
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}
    mapping = run(files, when=(2027, 1, 1, 0, 0, 0))
    assert mapping.accepted == [("student01/layernorm.ipynb", "student01", "unchanged")]
    assert {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()} == before
    assert set(before) == {"layernorm.ipynb", "timestamp.txt"}


def test_a_newer_submission_replaces_and_every_older_one_is_kept(run, tmp_path):
    folder = tmp_path / "submitted" / "student01" / NAME
    for day, mark in enumerate(["a", "b", "c"], start=1):
        mapping = run({"student01/layernorm.ipynb": notebook(mark)}, when=(2026, 3, day, 0, 0, 0))
    assert mapping.accepted[0][2] == "the earlier one is kept as layernorm.ipynb.previous2"
    assert (folder / "layernorm.ipynb").read_bytes() == notebook("c")
    assert (folder / "layernorm.ipynb.previous").read_bytes() == notebook("a")
    assert (folder / "layernorm.ipynb.previous2").read_bytes() == notebook("b")
    times = [
        (folder / f"timestamp.txt{suffix}").read_text() for suffix in (".previous", ".previous2")
    ]
    assert times[0] < times[1] < (folder / "timestamp.txt").read_text()


def test_an_older_submission_does_not_replace_a_newer_one(run, tmp_path):
    run({"student01/layernorm.ipynb": notebook("new")}, when=(2026, 3, 2, 0, 0, 0))
    mapping = run({"student01/layernorm.ipynb": notebook("old")}, when=(2026, 3, 1, 0, 0, 0))
    assert submitted(tmp_path) == {"student01": notebook("new")}
    assert mapping.refused[0][1].startswith("older than the submission that is there (2026-03-0")


def test_links_in_the_submitted_folder_are_not_written_through(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    root = tmp_path / "submitted"
    (root / "student02").mkdir(parents=True)
    (root / "student03" / NAME).mkdir(parents=True)
    os.symlink(outside, root / "student01")
    os.symlink(outside, root / "student02" / NAME)
    os.symlink(outside / "precious", root / "student03" / NAME / f"{NAME}.ipynb")
    mapping = run({f"student0{i}/layernorm.ipynb": NOTEBOOK for i in (1, 2, 3)})
    assert mapping.accepted == [] and len(mapping.refused) == 3
    assert [p.name for p in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_bytes() == b"precious"


def test_a_name_that_differs_in_case_from_a_folder_that_is_there_is_refused(run, tmp_path):
    run({"Student01/layernorm.ipynb": NOTEBOOK})
    mapping = run({"student01/layernorm.ipynb": NOTEBOOK})
    assert mapping.refused == [
        (
            "student01/layernorm.ipynb",
            "there is a folder 'Student01' already: nearly the same name",
        )
    ]


def test_the_time_is_the_entrys_in_utc(run, tmp_path):
    extended = struct.pack("<HHBi", 0x5455, 5, 1, 1_700_000_000)
    run({"student01/layernorm.ipynb": NOTEBOOK, "student02/layernorm.ipynb": NOTEBOOK})
    local = datetime(*WHEN).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.000000 UTC")
    assert (tmp_path / f"submitted/student01/{NAME}/timestamp.txt").read_text() == local
    run({"student03/layernorm.ipynb": NOTEBOOK}, extra=extended)
    stamp = tmp_path / f"submitted/student03/{NAME}/timestamp.txt"
    assert stamp.read_text() == "2023-11-14 22:13:20.000000 UTC"
    mapping = run({"student04/layernorm.ipynb": NOTEBOOK}, when=(1980, 1, 1, 0, 0, 0))
    assert mapping.accepted[0][2] == "the archive has no time for it: took the archive's own"
