"""Exports of learning platforms are sorted into submitted/, and hostile archives change nothing."""

from __future__ import annotations

import io
import os
import struct
import tempfile
import warnings
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autograder import archive as archive_module
from autograder.archive import MIB, Limits, Refused, path_fault, zip_entries
from autograder.collect import collect
from autograder.engine import EngineError
from autograder.platforms import student_name

NAME = "layernorm"
NOTEBOOK = b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
WHEN = (2026, 3, 1, 12, 30, 0)


def notebook(mark: str = "") -> bytes:
    return NOTEBOOK.replace(b"[]", b'[{"cell_type": "code", "source": "%s"}]' % mark.encode())


def zipped(files: dict[str, bytes] | list[tuple[str, bytes]], when=WHEN, **attributes) -> bytes:
    """A zip with these entries; `attributes` are set on every ZipInfo."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of duplicate names
        for name, data in files.items() if isinstance(files, dict) else files:
            info = zipfile.ZipInfo("x", when)
            info.filename = name  # as it is: the constructor cuts it at a NUL
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(info, key, value)
            out.writestr(info, data)
    return buffer.getvalue()


@pytest.fixture
def run(tmp_path):
    """Collect a zip given as entries or bytes into tmp_path/submitted."""

    def run(files, **options):
        path = tmp_path / "export.zip"
        path.write_bytes(files if isinstance(files, bytes) else zipped(files, **options))
        return collect(path, NAME, tmp_path / "submitted")

    return run


def submitted(tmp_path: Path) -> dict[str, bytes]:
    """student -> bytes of the collected notebook."""
    root = tmp_path / "submitted"
    return {
        p.relative_to(root).parts[0]: p.read_bytes() for p in root.glob(f"*/{NAME}/{NAME}.ipynb")
    }


def students(mapping) -> list[str]:
    return [student for _, student, _ in mapping.accepted]


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


# -- hostile archives --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/student/layernorm.ipynb", "absolute"),
        ("C:/student/layernorm.ipynb", "absolute"),
        ("../student/layernorm.ipynb", "leads out"),
        ("student/../../layernorm.ipynb", "leads out"),
        ("student\\layernorm.ipynb", "backslashes"),
        ("stu\ndent/layernorm.ipynb", "U+000A"),
        ("stu\x00dent/layernorm.ipynb", "U+0000"),
        ("stu\x1b[2Jdent/layernorm.ipynb", "U+001B"),
        ("stu\u202edent/layernorm.ipynb", "U+202E"),
        ("stu<b>dent/layernorm.ipynb", "U+003C"),
        ("stu:dent/layernorm.ipynb", "U+003A"),
        ("=cmd()/layernorm.ipynb", "U+003D"),
        ("-rf/layernorm.ipynb", "start"),
        (".ssh/layernorm.ipynb", "start"),
        ("CON/layernorm.ipynb", "reserved"),
        ("nul.txt/layernorm.ipynb", "reserved"),
        ("dot./layernorm.ipynb", "reserved"),
        ("s" * 300 + "/layernorm.ipynb", "too long"),
        ("s/" * 30 + "layernorm.ipynb", "too long"),
        ("student/" + "x" * 300 + ".ipynb", "name too long"),
        (" /layernorm.ipynb", "empty"),
        ("layernorm.ipynb", "whose"),
    ],
)
def test_a_hostile_name_is_refused_and_the_rest_is_collected(run, tmp_path, path, reason):
    mapping = run({path: notebook("evil"), "student99/layernorm.ipynb": NOTEBOOK})
    assert [student for _, student, _ in mapping.accepted] == ["student99"]
    assert len(mapping.refused) == 1 and reason.lower() in mapping.refused[0][1].lower()
    found = [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "export.zip"]
    assert {p.relative_to(tmp_path / "submitted").parts[0] for p in found} == {"student99"}


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"external_attr": 0o120777 << 16}, "it is a link"),
        ({"external_attr": 0o020666 << 16}, "it is not a plain file"),
        ({"external_attr": 0o010666 << 16}, "it is not a plain file"),
        ({"compress_type": zipfile.ZIP_LZMA}, "it is compressed in an unusual way"),
    ],
)
def test_entries_that_are_no_plain_files_are_refused(run, tmp_path, attributes, reason):
    mapping = run({"student01/layernorm.ipynb": b"/etc/passwd"}, **attributes)
    assert submitted(tmp_path) == {}
    assert mapping.refused[0][1].startswith(reason)


def test_an_encrypted_entry_is_refused(run, tmp_path):
    data = bytearray(zipped({"student01/layernorm.ipynb": NOTEBOOK}))
    directory = data.index(b"PK\1\2")
    data[directory + 8] |= 1
    assert run(bytes(data)).refused == [("student01/layernorm.ipynb", "it is encrypted")]


def test_zip_bombs_are_refused_quickly(run, tmp_path):
    bomb = b"\0" * (19 * MIB)
    mapping = run(
        {
            "student01/layernorm.ipynb": bomb,
            "student02/layernorm.ipynb": bomb + bomb,
            "student03/work.zip": zipped({"layernorm.ipynb": bomb}),
            "student04/work.zip": zipped({f"{i}.ipynb": bomb for i in range(4)}),
            "student05/work.zip": zipped({f"{i}/x.ipynb": b"" for i in range(5001)}),
            "student99/layernorm.ipynb": NOTEBOOK,
        }
    )
    assert set(submitted(tmp_path)) == {"student99"}
    reasons = [reason for _, reason in mapping.refused]
    assert reasons[0].endswith("over 200 times its size, like a zip bomb")
    assert reasons[1] == "it has 38 MB, more than the 20 MB allowed"
    assert reasons[2].endswith("over 200 times its size, like a zip bomb")
    assert reasons[3] == "the zip: unpacks to more than 64 MB"
    assert reasons[4] == "the zip: holds more than 5000 files"


def test_a_table_of_contents_of_any_size_is_not_read():
    data = zipped({f"{i}.txt": b"" for i in range(100)})
    with (
        pytest.raises(Refused, match="too large a table of contents"),
        zip_entries(io.BytesIO(data), Limits(directory_bytes=1000)),
    ):
        pass


def test_a_size_that_lies_yields_no_more_than_it_says(run, tmp_path):
    data = bytearray(zipped({"student01/layernorm.ipynb": b"x" * 5000}))
    directory = data.index(b"PK\1\2")
    data[directory + 24 : directory + 28] = struct.pack("<I", 10)
    assert run(bytes(data)).refused == [
        ("student01/layernorm.ipynb", "it is damaged in the archive")
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no file or folder"),
        (b"", "is empty"),
        (b"not a zip", "is not a zip file"),
        (zipped({}), "holds no notebook and no zip file"),
        (zipped({"student01/readme.txt": b""}), "holds no notebook and no zip file"),
        (zipped({"a/x.ipynb": NOTEBOOK})[:-30], "is not a zip file"),
    ],
)
def test_an_archive_that_cannot_be_used_is_one_line(tmp_path, content, reason):
    path = tmp_path / "export.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EngineError) as raised:
        collect(path, NAME, tmp_path / "submitted")
    assert reason in str(raised.value) and "\n" not in str(raised.value)


def test_a_class_with_too_many_files_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "export.zip"
    path.write_bytes(zipped({f"s{i}/x.ipynb": b"" for i in range(20)}))
    monkeypatch.setattr(
        archive_module.zip_entries.__wrapped__, "__defaults__", (Limits(entries=9),)
    )
    with pytest.raises(EngineError, match="holds more than 9 files"):
        collect(path, NAME, tmp_path / "submitted")


# -- anything at all ---------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["..", ".", "", "/", "\\", "a", "A", "é", "e\u0301", "CON", "layernorm", "layernorm.ipynb", " ",
     "x_1_assignsubmission_file_", "d_1_2_layernorm.ipynb", "1-2 - N - Oct 1, 2026 108 PM",
     "submission_7", "\0", "\x1b", "\u202e", "~", "$HOME", ".ssh", "con.ipynb", "a.zip"]
)  # fmt: skip
NAMES = st.one_of(
    st.text(max_size=30),
    st.lists(PIECES, max_size=5).map("/".join),
    st.lists(PIECES, max_size=4).map("".join),
).map(lambda text: text.encode("utf-8", "replace").decode("utf-8"))


@given(st.lists(st.tuples(NAMES, st.sampled_from(["", ".ipynb", "/layernorm.ipynb", ".zip"]))))
@example([("../x", ".ipynb"), ("/x", "/layernorm.ipynb"), ("a", "/layernorm.ipynb")])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_the_names_files_land_only_where_they_belong(names):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        inner = zipped([(name + end, NOTEBOOK) for name, end in names[:3]])
        files = [
            (name + end, inner if end == ".zip" else notebook(str(i)))
            for i, (name, end) in enumerate(names)
        ]
        (root / "in").mkdir()
        (root / "in" / "export.zip").write_bytes(zipped(files))
        try:
            mapping = collect(root / "in" / "export.zip", NAME, root / "out" / "submitted")
        except EngineError as error:
            assert "\n" not in str(error)
            return
        written = {p for p in root.rglob("*") if p.is_file()} - {root / "in" / "export.zip"}
        wanted = set()
        for student in students(mapping):
            assert student_name(student) == student
            home = root / "out" / "submitted" / student / NAME
            assert home.resolve() == home
            wanted |= {home / f"{NAME}.ipynb", home / "timestamp.txt"}
        assert written == wanted
        assert len({s.casefold() for s in students(mapping)}) == len(students(mapping))
        assert all(line.isprintable() for line in mapping.lines())


@given(st.text())
def test_a_student_name_is_refused_or_safe(text):
    try:
        name = student_name(text)
    except Refused as error:
        assert str(error).isprintable()
        return
    assert path_fault(name) is None and "/" not in name and name == student_name(name)
    assert not set(name) & set('\\:*?"<>|[]{}$`;&#%!~=\n\t ') and name[0].isalnum()


@given(st.binary(max_size=400), st.integers(0, 400), st.binary(min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_damaged_zips_raise_nothing_but_a_one_line_refusal(junk, place, patch):
    good = bytearray(zipped({"student01/layernorm.ipynb": NOTEBOOK, "b/x.zip": zipped({"y": b""})}))
    good[place : place + len(patch)] = patch
    for data in (junk, bytes(good), bytes(good[:place])):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "export.zip")
            path.write_bytes(data)
            try:
                mapping = collect(path, NAME, Path(folder, "submitted"))
            except EngineError as error:
                assert str(error).isprintable()
            else:
                assert all(line.isprintable() for line in mapping.lines())
