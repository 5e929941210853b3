"""The gradebook where it meets the world: PostgreSQL, times, locks, full disks, old files."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gradebook_course import (
    facts_of,
    files_below,
    make_course,
    result_of,
    rows_of,
    submission_path,
    write_result,
)
from sqlalchemy import event

from autograder.gradebook.timestamps import HandedIn, handed_in
from autograder.gradebook.writer import GradebookError, Writer


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return make_course(tmp_path, {"student01": "2026-01-05 10:00:00 UTC"})


# -- PostgreSQL -------------------------------------------------------------------------------


def _program(name: str) -> str | None:
    folders = [
        os.environ["PATH"],
        "/usr/local/bin",
        *map(str, Path("/usr/lib").glob("postgresql/*/bin")),
    ]
    return shutil.which(name, path=os.pathsep.join(folders))


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The url of a new PostgreSQL server on a socket in a folder of its own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    initdb, postgres = _program("initdb"), _program("postgres")
    if not initdb or not postgres:
        pytest.skip("no PostgreSQL server on this machine")
    # PostgreSQL refuses to run as root, and nobody may not enter pytest's folders.
    other = {"user": "nobody", "group": "nogroup"} if os.getuid() == 0 else {}
    folder = tempfile.mkdtemp(prefix="pg", dir="/tmp")  # a socket's path must be short
    if other:
        shutil.chown(folder, **other)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **other}
    server = None
    try:
        make = [initdb, "-D", f"{folder}/data", "-A", "trust", "-U", "grader", "--no-sync"]
        if subprocess.run(make, timeout=600, check=False, **quiet).returncode:
            pytest.skip("initdb fails on this machine")
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB"]
        server = subprocess.Popen(
            [postgres, "-D", f"{folder}/data", "-k", folder, *options], **quiet
        )
        for _ in range(6000):
            if Path(f"{folder}/.s.PGSQL.5432").exists():
                break
            time.sleep(0.1)
        yield f"postgresql://grader@/postgres?host={folder}"
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=600)
        shutil.rmtree(folder, ignore_errors=True)


def test_postgresql_holds_the_same_as_sqlite(
    course: Path, postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = result_of("student01", 3.0)
    result["exercises"][0]["tests"][0]["message"] = "a NUL \0 and a surrogate \udcff"
    write_result(course, result)
    monkeypatch.setenv("COURSE_DB_URL", postgresql)
    with Writer(course, "layernorm") as writer:
        for _ in range(2):
            writer.write(result, submission_path(course, "student01"))
        assert writer.database.where.startswith("the gradebook postgresql+psycopg://grader@/")
    assert facts_of(course, postgresql) == facts_of(course)


def test_a_locked_postgresql_table_is_one_line(course: Path, postgresql: str) -> None:
    import psycopg

    write_result(course, result_of("student01"), db_url=postgresql)
    with psycopg.connect(postgresql) as other:
        other.execute("LOCK TABLE grade")
        with pytest.raises(GradebookError) as error:
            write_result(course, result_of("student01", 1.0), db_url=postgresql, patience=0.5)
        assert "was locked by another program" in _one_line(error)
    write_result(course, result_of("student01", 1.0), db_url=postgresql)
    assert facts_of(course, postgresql)["student01"]["grades"]["test_layer_norm"][0] == 1.0


def test_a_postgresql_that_is_not_there_is_one_line_without_the_password(course: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    url = "postgresql://grader:secret4711@127.0.0.1:1/course"
    with pytest.raises(GradebookError) as error:
        write_result(course, result_of("student01"), db_url=url, patience=0.3)
    assert "secret4711" not in _one_line(error)


def test_a_missing_driver_says_what_to_install(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(GradebookError, match="pip install 'psycopg"):
        Writer(course, "layernorm", "postgresql://grader@127.0.0.1:1/course")


# -- timestamps -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "yesterday-ish", "\x00\x01", "1" * 500, "9999999999999"])
def test_a_timestamp_that_is_none_is_put_aside(course: Path, text: str) -> None:
    path = submission_path(course, "student01")
    (path.parent / "timestamp.txt").write_text(text)
    os.utime(path, (1_700_000_000, 1_700_000_000.25))
    stamp = handed_in(path, path.parent)
    assert stamp.text == "2023-11-14 22:13:20.250000 UTC"
    assert (path.parent / "timestamp.txt").read_text() == stamp.text
    assert (path.parent / "timestamp.txt.invalid").read_text() == text
    assert handed_in(path, path.parent) == stamp


@pytest.mark.parametrize("seconds", [3e11, -1e12, 1e300])
def test_a_date_that_no_calendar_has_is_no_time(
    course: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    path = submission_path(course, "student01")
    (path.parent / "timestamp.txt").unlink(missing_ok=True)
    # As tmpfs, Btrfs and ZFS keep it; others cut it short.
    monkeypatch.setattr(Path, "stat", lambda *_, **__: SimpleNamespace(st_mtime=seconds))
    assert handed_in(path, path.parent) == HandedIn()


def test_a_submission_outside_of_the_course_is_only_read(course: Path, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "layernorm.ipynb"
    path.parent.mkdir()
    path.write_text("{}")
    assert handed_in(path, course / "submitted/student01/layernorm").time is not None
    assert files_below(path.parent) == [path]


def test_a_timestamp_that_is_a_pipe_or_a_link_does_not_stop_the_writer(course: Path) -> None:
    path = submission_path(course, "student01")
    stamp = path.parent / "timestamp.txt"
    stamp.unlink()
    os.mkfifo(stamp)
    assert handed_in(path, path.parent).time is not None
    stamp.unlink()
    stamp.symlink_to("/etc/hostname")
    assert handed_in(path, path.parent).time is not None


# -- when it cannot be written ----------------------------------------------------------------


def _lock(root: Path) -> sqlite3.Connection:
    other = sqlite3.connect(root / "gradebook.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    return other


def test_a_lock_is_waited_for(course: Path) -> None:
    write_result(course, result_of("student01"))
    other = _lock(course)
    threading.Timer(2.0, other.rollback).start()
    started = time.monotonic()
    write_result(course, result_of("student01", 1.0))
    assert time.monotonic() - started > 1.5
    assert facts_of(course)["student01"]["grades"]["test_layer_norm"][0] == 1.0


def test_patience_outlasts_ten_seconds_by_default(course: Path) -> None:
    with Writer(course, "layernorm") as writer:
        assert writer.database.patience >= 10


def _one_line(error: pytest.ExceptionInfo[GradebookError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "no result is lost" in text
    return text


def test_a_lock_that_stays_is_one_line_and_leaves_no_half_record(course: Path) -> None:
    write_result(course, result_of("student01"))
    rows = rows_of(course)
    other = _lock(course)
    with pytest.raises(GradebookError) as error:
        write_result(course, result_of("student01", 1.0), patience=0.3)
    assert "was locked by another program for 0.3 seconds" in _one_line(error)
    other.rollback()
    assert rows_of(course) == rows


def test_a_read_only_gradebook_is_one_line(course: Path) -> None:
    write_result(course, result_of("student01"))
    url = f"sqlite:///file:{course / 'gradebook.db'}?mode=ro&uri=true"
    with pytest.raises(GradebookError) as error:
        write_result(course, result_of("student01", 1.0), db_url=url)
    assert "is read-only" in _one_line(error)


def test_a_file_that_is_no_database_is_one_line_and_stays_as_it_is(course: Path) -> None:
    (course / "gradebook.db").write_text("dear diary\n" * 200)
    with pytest.raises(GradebookError) as error:
        write_result(course, result_of("student01"))
    assert "is not an SQLite database" in _one_line(error)
    assert (course / "gradebook.db").read_text() == "dear diary\n" * 200


def test_a_folder_that_is_not_there_is_one_line(course: Path) -> None:
    with pytest.raises(GradebookError) as error:
        write_result(course, result_of("student01"), db_url=f"sqlite:///{course}/none/gradebook.db")
    assert "cannot be opened" in _one_line(error)


def test_an_old_schema_is_named_with_its_command_and_kept(course: Path) -> None:
    write_result(course, result_of("student01"))
    with sqlite3.connect(course / "gradebook.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '724cde206c17'")
    rows = rows_of(course)
    with pytest.raises(GradebookError) as error:
        write_result(course, result_of("student01", 1.0))
    assert "back it up and run `nbgrader db upgrade`" in _one_line(error)
    assert rows_of(course) == rows


def test_a_database_of_something_else_is_not_touched(course: Path) -> None:
    with sqlite3.connect(course / "gradebook.db") as connection:
        connection.execute("CREATE TABLE recipes (id INTEGER)")
    with pytest.raises(GradebookError, match="not a gradebook of nbgrader"):
        write_result(course, result_of("student01"))
    assert "CREATE TABLE recipes (id INTEGER);" in rows_of(course)
    assert len(rows_of(course)) == 3


def test_a_full_disk_under_the_gradebook_is_one_line(course: Path) -> None:
    with Writer(course, "layernorm") as writer:
        writer.register()

        @event.listens_for(writer.database._engine, "connect")
        def _no_more_pages(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA max_page_count = 1")

        big = result_of("student01")
        big["exercises"][0]["tests"][0]["message"] = "x " * 100_000
        big["exercises"][0]["tests"] *= 30
        with pytest.raises(GradebookError) as error:
            writer.write(big, submission_path(course, "student01"))
    assert "no space left on the disk" in _one_line(error)


def test_a_full_disk_under_autograded_is_one_line_and_records_nothing(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "autograded/student01")

    with Writer(course, "layernorm") as writer:
        writer.register()
        rows = rows_of(course)
        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(GradebookError) as error:
            writer.write(result_of("student01"), submission_path(course, "student01"))
    assert "no space left on the disk of autograded/student01" in _one_line(error)
    assert rows_of(course) == rows
    assert files_below(course / "autograded") == []


def test_a_missing_release_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(GradebookError, match="run `make exercises`"):
        Writer(tmp_path, "layernorm")


@pytest.mark.parametrize("url", ["no url", "oracle+nothing://x/y"])
def test_a_wrong_database_url_is_one_line(course: Path, url: str) -> None:
    with pytest.raises(GradebookError) as error:
        Writer(course, "layernorm", url)
    assert "\n" not in str(error.value)
