"""Files are whole or not there, and one that holds the same already is left alone."""

from __future__ import annotations

import os

import pytest

from autograder.files import renew, write_whole


def test_what_cannot_be_written_whole_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "after")
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_text_is_utf8_with_its_own_line_ends_and_the_mode_is_as_asked(tmp_path):
    path = tmp_path / "deep" / ("n" * 250)
    write_whole(path, "a\r\nä\n", mode=0o600)
    assert path.read_bytes() == "a\r\nä\n".encode() and path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_holds_the_same_keeps_its_date(tmp_path):
    path = tmp_path / "notebook.ipynb"
    renew(path, b"same")
    os.utime(path, (1, 1))
    renew(path, "same")
    assert path.stat().st_mtime == 1
    renew(path, "other")
    assert path.read_text() == "other" and path.stat().st_mtime > 1
