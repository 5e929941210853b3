"""Archives made to do harm change nothing outside of submitted/, and cost no one else."""

from __future__ import annotations

import io
import struct
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import pytest
from exports import NAME, NOTEBOOK, collected, notebook, students, submitted, zipped
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autograder.collect import archive as archive_module
from autograder.collect import collect
from autograder.collect.archive import MIB, Limits, Refused, path_fault, zip_entries
from autograder.collect.platforms import student_name
from autograder.errors import EngineError


@pytest.fixture
def run(tmp_path):
    """Collect a zip, given as its entries or its bytes, into tmp_path/submitted."""
    return partial(collected, tmp_path)


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
@example([(" ", ".ipynb"), ("a", ".ipynb"), ("b", ".ipynb"), ("", ".zip")])
@example([(" ", ".ipynb"), ("a", ".ipynb"), ("b", ".ipynb"), ("A/submission_7/", ".zip")])
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
