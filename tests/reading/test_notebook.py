"""Finding and decoding a notebook: a file is graded, or one line says why it is not."""

import copy
import json
import os
import time
from functools import partial

import boxes
import pytest
from boxes import ANSWER, DONE, cell, notebook, sources

from autograder.reading.submission import Unreadable, find_notebook, read


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return boxes.released_in(tmp_path_factory.mktemp("released"))


@pytest.fixture
def hand_in(tmp_path, base):
    return partial(boxes.hand_in_to, tmp_path, base)


# --- files as they come -------------------------------------------------------------------------

TEXT = json.dumps(DONE)


def as_version_3(name="input"):
    cells = [
        {"cell_type": "code", name: c["source"], "language": "python"}
        if c["cell_type"] == "code"
        else {"cell_type": "markdown", "source": c["source"]}
        for c in DONE["cells"]
    ]
    return {
        "nbformat": 3,
        "metadata": {},
        "worksheets": [{"cells": cells[:3]}, {"cells": cells[3:]}],
    }


def with_sources(change):
    made = copy.deepcopy(DONE)
    for item in made["cells"]:
        item["source"] = change(item["source"])
    return json.dumps(made)


READABLE = {
    "BOM": "\ufeff" + TEXT,
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-16 big endian": TEXT.encode("utf-16-be"),
    "UTF-32": TEXT.encode("utf-32"),
    "CRLF file": json.dumps(DONE, indent=1).replace("\n", "\r\n"),
    "CRLF sources": with_sources(lambda s: s.replace("\n", "\r\n")),
    "CR sources": with_sources(lambda s: s.replace("\n", "\r")),
    "list sources": with_sources(lambda s: s.splitlines(keepends=True)),
    "list sources without line ends": with_sources(lambda s: s.splitlines()),
    "list with other things": with_sources(lambda s: [None, 3, *s.splitlines(keepends=True)]),
    "blanks at line ends": with_sources(lambda s: s.replace("\n", "\n\n") + "\n"),
    "nbformat 3": json.dumps(as_version_3()),
    "nbformat 3 with source": json.dumps(as_version_3("source")),
    "nbformat 2": json.dumps({**as_version_3(), "nbformat": 2}),
    "no nbformat": json.dumps({"cells": DONE["cells"]}),
    "nbformat of another kind": json.dumps({**DONE, "nbformat": "four", "metadata": 3}),
    "no metadata": json.dumps(
        {"cells": [{"cell_type": c["cell_type"], "source": c["source"]} for c in DONE["cells"]]}
    ),
    "no cell types": json.dumps(
        {"cells": [{"source": c["source"]} for c in DONE["cells"] if c["cell_type"] == "code"]}
    ),
    "odd cells": json.dumps({"cells": [None, 3, "x", [], {}, {"source": None}, *DONE["cells"]]}),
    "null source": json.dumps({"cells": [cell(None), cell(["", None]), cell({}), *DONE["cells"]]}),
    "NaN": json.dumps({**DONE, "metadata": {"x": float("nan"), "y": float("inf")}}),
    "huge integer": TEXT[:-1] + ', "n": ' + "9" * 9000 + "}",
    "duplicate keys": '{"cells": [], ' + TEXT[1:],
    "duplicate ids": json.dumps({"cells": [dict(c, id="same") for c in DONE["cells"]]}),
    "lone surrogate": json.dumps({"cells": [*DONE["cells"], cell("x = '\ud800'")]}),
    "NUL in a cell": json.dumps({"cells": [*DONE["cells"], cell("x = '\0'")]}),
    "NUL at the end": TEXT + "\0\0\n",
    "raw control characters": TEXT.replace("\\n", "\n"),
    "another encoding": json.dumps(
        {"cells": [*DONE["cells"], cell("# Größe")]}, ensure_ascii=False
    ).encode("latin-1"),
    "deep expression": json.dumps({"cells": [*DONE["cells"], cell("x = " + "1+" * 20_000 + "1")]}),
    "deep brackets": json.dumps({"cells": [*DONE["cells"], cell("(" * 50_000)]}),
    "huge cell": json.dumps({"cells": [*DONE["cells"], cell("x = 1\n" * 100_000)]}),
    "many cells": json.dumps({"cells": [*DONE["cells"], *[cell("x = 1")] * 2500]}),
    "big output": json.dumps({**DONE, "metadata": {"x": "A" * 15_000_000}}),
}


@pytest.mark.parametrize("content", READABLE.values(), ids=READABLE.keys())
def test_unusual_but_sensible_files_are_graded(hand_in, content):
    start = time.process_time()
    got = hand_in(content)
    assert got.missing == [] and got.untouched == set()
    assert ANSWER in [s.strip().replace("\n\n", "\n") for s in sources(got, "solution")]
    assert not any("assert" in source for source in sources(got))
    for c in got.cells:
        c.source.encode("utf-8")  # can be sent on
    assert time.process_time() - start < 5


UNREADABLE = {
    "empty": (b"", "empty"),
    "blanks": (b" \n\0", "empty"),
    "text": ("hello", "not JSON"),
    "Python": (ANSWER, "not JSON"),
    "PDF": (b"%PDF-1.7", "a PDF"),
    "zip": (b"PK\x03\x04", "a zip archive"),
    "gzip": (b"\x1f\x8b\x08", "a gzip archive"),
    "HTML": ("<!doctype html>", "a web page"),
    "Git LFS": ("version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
    "noise": (bytes(range(256)) * 20, "not JSON"),
    "cut": (TEXT[: len(TEXT) // 2], "stops in the middle"),
    "cut in a name": (TEXT[: TEXT.index("markdown") + 3], "stops in the middle"),
    "merge conflict": ("{\n<<<<<<< HEAD\n}", "conflict"),
    "list": ("[]", "no object"),
    "number": ("3", "no object"),
    "null": ("null", "no object"),
    "no cells": ("{}", "no list of cells"),
    "cells of another kind": ('{"cells": {"a": 1}}', "no list of cells"),
    "empty list": ('{"cells": []}', "none of the exercises"),
    "text only": (json.dumps(notebook(cell("Hi", kind="markdown"))), "none of the exercises"),
    "other notebook": (json.dumps(notebook(cell("y = 3"))), "none of the exercises"),
    "deep": ('{"cells": ' + "[" * 100_000, "nested too deeply"),
    "deep objects": ('{"a": ' * 100_000, "nested too deeply"),
    "too many cells": (json.dumps(notebook(*[cell("x")] * 3100)), "3100 cells"),
    "too much code": (json.dumps(notebook(*[cell("x = 1\n" * 9000)] * 20)), "characters of code"),
    "too many parts": ('{"cells": [' + "{}," * 2_100_000 + "1]}", "too many parts"),
    "too large": (b" " * (21 * 2**20), "21 MB"),
}


@pytest.mark.parametrize(("content", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_useless_files_get_one_line_that_says_what_to_do(hand_in, content, reason):
    start = time.process_time()
    with pytest.raises(Unreadable, match=reason) as caught:
        hand_in(content)
    message = str(caught.value)
    assert "\n" not in message and len(message) <= 300 and message.isprintable()
    assert time.process_time() - start < 5


def test_a_sparse_file_of_100_gb_is_refused_before_it_is_read(tmp_path, base):
    path = tmp_path / "boxes.ipynb"
    with open(path, "wb") as file:
        file.truncate(100 * 2**30)
    with pytest.raises(Unreadable, match="102400 MB"):
        read(path, base)


def test_links_pipes_and_folders_are_not_opened(tmp_path, base):
    real = tmp_path / "real"
    real.write_text(TEXT)
    (tmp_path / "link.ipynb").symlink_to(real)
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    for name in ("link", "pipe", "folder", "missing", "nul\0"):
        with pytest.raises(Unreadable):
            read(tmp_path / f"{name}.ipynb", base)


def test_the_hash_is_that_of_the_bytes(hand_in):
    assert hand_in(TEXT).sha256 != hand_in(TEXT + "\n").sha256
    assert (
        hand_in(b'{"cells": ' + json.dumps([cell(ANSWER)]).encode() + b"}").sha256[:8]
        == (hand_in({"cells": [cell(ANSWER)]}).sha256[:8])
    )


def test_notices_are_few_and_each_is_one_line(hand_in):
    bad = [cell(f"%%{'x' * 500}\n"), cell("!ls\x1b[31m\n(")]
    got = hand_in(notebook(*DONE["cells"], *bad * 400))
    assert len(got.notices) == 31 and got.notices[-1].startswith("and ")
    assert all("\n" not in line and len(line) < 200 and line.isprintable() for line in got.notices)


# --- which file ---------------------------------------------------------------------------------


def folder_with(tmp_path, *names):
    folder = tmp_path / "boxes"
    folder.mkdir()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TEXT)
    return folder


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["boxes.ipynb"], "boxes.ipynb"),
        (["boxes.ipynb", "boxes (1).ipynb", "Boxes.ipynb", "other.ipynb"], "boxes.ipynb"),
        (["Boxes.IPYNB"], "Boxes.IPYNB"),
        (["boxes (1).ipynb"], "boxes (1).ipynb"),
        (["boxes-Copy1.ipynb"], "boxes-Copy1.ipynb"),
        (["Copy of boxes.ipynb"], "Copy of boxes.ipynb"),
        (["boxes - 副本.ipynb"], "boxes - 副本.ipynb"),
        (["homework.ipynb"], "homework.ipynb"),
        (["student_boxes_final.ipynb", "scratch.ipynb"], "student_boxes_final.ipynb"),
        (["boxes.ipynb.txt"], "boxes.ipynb.txt"),
        (["boxes.ipynb.json", "boxes.ipynb.txt", "boxes.ipynb"], "boxes.ipynb"),
        (["boxes/boxes.ipynb"], "boxes/boxes.ipynb"),
        (["a/b/boxes.ipynb", "notes.txt"], "a/b/boxes.ipynb"),
        (["boxes (2).ipynb", "old/boxes.ipynb"], "boxes (2).ipynb"),
        (["boxes.ipynb", ".ipynb_checkpoints/boxes-checkpoint.ipynb"], "boxes.ipynb"),
        (["__MACOSX/._boxes.ipynb", "boxes (1).ipynb"], "boxes (1).ipynb"),
    ],
)
def test_the_notebook_is_found_under_other_names(tmp_path, names, found):
    folder = folder_with(tmp_path, *names)
    path, notices = find_notebook(folder, "boxes")
    assert path == folder / found
    assert (notices == []) == (
        found == "boxes.ipynb" and len(names) <= 2 and "other" not in names[-1]
    )
    if found != "boxes.ipynb":
        assert notices[0] == f"graded {found!r} as boxes.ipynb"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([], "empty"),
        (["boxes.py", "notes.txt"], "found boxes.py, notes.txt"),
        (["boxes (1).ipynb", "boxes (2).ipynb"], "several notebooks"),
        (["one.ipynb", "two.ipynb"], "several notebooks"),
        (["a/one.ipynb", "two.ipynb"], "several notebooks"),
        (["a/boxes.ipynb", "b/boxes.ipynb"], "several notebooks"),
        ([".ipynb_checkpoints/boxes.ipynb"], "no notebook"),
        ([".boxes.ipynb"], "no notebook"),
    ],
)
def test_no_notebook_or_too_many_is_said_in_one_line(tmp_path, names, reason):
    with pytest.raises(Unreadable, match=reason):
        find_notebook(folder_with(tmp_path, *names), "boxes")


def test_a_folder_in_another_case_is_found_and_a_missing_one_named(tmp_path):
    folder_with(tmp_path, "boxes.ipynb").rename(tmp_path / "BOXES")
    path, notices = find_notebook(tmp_path / "boxes", "boxes")
    assert path == tmp_path / "BOXES" / "boxes.ipynb" and "BOXES" in notices[0]
    with pytest.raises(Unreadable, match="nothing was handed in"):
        find_notebook(tmp_path / "other", "other")


def test_links_that_leave_the_folder_are_refused_and_others_followed(tmp_path):
    folder = folder_with(tmp_path, "real/kept.txt")
    secret = tmp_path / "secret.ipynb"
    secret.write_text(TEXT)
    link = folder / "boxes.ipynb"
    link.symlink_to(secret)
    with pytest.raises(Unreadable, match="leaves the folder"):
        find_notebook(folder, "boxes")
    for target in ("/dev/zero", "/proc/self/mem", "../secret.ipynb", "boxes.ipynb", "nowhere"):
        link.unlink()
        link.symlink_to(target)
        with pytest.raises(Unreadable, match="link"):
            find_notebook(folder, "boxes")
    link.unlink()
    link.symlink_to("real/kept.txt")
    assert find_notebook(folder, "boxes")[0] == (folder / "real/kept.txt").resolve()


def test_a_linked_folder_is_not_entered(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "boxes.ipynb").write_text(TEXT)
    folder = folder_with(tmp_path)
    (folder / "sub").symlink_to(outside)
    with pytest.raises(Unreadable, match="no notebook"):
        find_notebook(folder, "boxes")
    folder.joinpath("sub").unlink()
    folder.rmdir()
    folder.symlink_to(outside)
    with pytest.raises(Unreadable, match="is a link"):
        find_notebook(folder, "boxes")


def test_pipes_and_folders_with_the_name_are_refused(tmp_path):
    folder = folder_with(tmp_path)
    os.mkfifo(folder / "boxes.ipynb")
    with pytest.raises(Unreadable, match="not a plain file"):
        find_notebook(folder, "boxes")
    (folder / "boxes.ipynb").unlink()
    (folder / "boxes.ipynb").mkdir()
    with pytest.raises(Unreadable, match="is a folder"):
        find_notebook(folder, "boxes")
    (folder / "boxes.ipynb" / "boxes.ipynb").write_text(TEXT)
    path, notices = find_notebook(folder, "boxes")
    assert path == folder / "boxes.ipynb" / "boxes.ipynb"
    assert any("is a folder" in line for line in notices)


def test_odd_file_names_are_fit_to_print(tmp_path):
    folder = folder_with(tmp_path, "\x1b[31m<b>\n.ipynb", "x\u202e.ipynb")
    (folder / os.fsdecode(b"\xff.ipynb")).write_text(TEXT)
    with pytest.raises(Unreadable) as caught:
        find_notebook(folder, "boxes")
    assert str(caught.value).isprintable()
