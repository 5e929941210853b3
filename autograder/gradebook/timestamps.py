"""When a submission was handed in, told the way nbgrader and formgrader read it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.utils import parse_utc

FILE = "timestamp.txt"
_LONGEST = 100


@dataclass(frozen=True)
class HandedIn:
    """time: naive and in UTC, as nbgrader stores it; text: what timestamp.txt says."""

    time: datetime | None = None
    text: str | None = None


def handed_in(notebook_path: Path | None, submitted: Path) -> HandedIn:
    """The time in timestamp.txt beside the submission, or else the time the notebook was changed.

    submitted: the folder of this submission in the course, where formgrader looks. formgrader
    counts a submission as graded only if the time in the gradebook equals the one in that folder's
    timestamp.txt, so a missing one is written there, and one that is no time (formgrader would
    fail on it for the whole class) is put aside. Folders outside of the course are only read.
    """
    folder = _folder(notebook_path, submitted)
    if folder is None:
        return HandedIn()
    found = _read(folder / FILE)
    if found is not None and found.time is not None:
        return found
    changed = _changed(notebook_path) or _changed(folder)
    if changed is None or folder != submitted:
        return changed or HandedIn()
    try:
        if found is not None:
            (folder / FILE).replace(folder / f"{FILE}.invalid")
        with open(folder / FILE, "x", encoding="ascii") as file:
            file.write(changed.text or "")
    except OSError:
        # Nothing may be written there. No time at all keeps formgrader counting it as graded.
        return HandedIn()
    return changed


def _folder(notebook_path: Path | None, submitted: Path) -> Path | None:
    if notebook_path is None:
        return submitted if submitted.is_dir() else None
    path = Path(os.path.abspath(notebook_path))
    return submitted if submitted in path.parents else path.parent


def _read(path: Path) -> HandedIn | None:
    """None when there is no file; a HandedIn without a time when it holds none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError:
        return HandedIn()
    try:
        text = os.read(handle, _LONGEST + 1).decode("utf-8").strip()
        time = parse_utc(text) if 0 < len(text) <= _LONGEST and text.isprintable() else None
    except Exception:  # a learner's file: the date parser raises several kinds
        return HandedIn()
    finally:
        os.close(handle)
    return HandedIn(time, text if time else None)


def _changed(path: Path | None) -> HandedIn | None:
    try:
        seconds = path.stat().st_mtime if path is not None else None
        if seconds is None:
            return None
        time = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (OSError, ValueError, OverflowError):  # some file systems keep the year 11476
        return None
    return HandedIn(time, time.strftime("%Y-%m-%d %H:%M:%S.%f UTC"))
