"""Whose file is it? How learning platforms name the files in the zips they export.

Moodle       Jane Doe_123_assignsubmission_file_/layernorm.ipynb   (or ..._file_layernorm.ipynb)
Canvas       doejane_LATE_4567_8901_layernorm-1.ipynb              (user, upload; -1 second attempt)
Brightspace  4567-8901 - Jane Doe - Oct 11, 2026 208 PM/layernorm.ipynb
Blackboard   Layer norm_jdoe_attempt_2026-10-11-14-08-00_layernorm.ipynb
Gradescope   submission_8901/layernorm.ipynb, people and times in submission_metadata.yml
else         jdoe/layernorm.ipynb, jdoe/layernorm/layernorm.ipynb or jdoe.zip

Moodle's number is another one in every assignment, so it only tells namesakes apart. The numbers of
Canvas and Brightspace stay with a person and become part of the student's name.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .archive import Refused, is_zip

MAX_NAME = 80
_ALSO = frozenset("._-'’,@()+·")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows


@dataclass(frozen=True)
class Origin:
    """What the name of one file says.

    platform: who exported it.
    student: the name for the student's folder, not checked yet.
    person: equal for the files of one person, and for no one else's; default: `student`.
    tie: what to append to `student` if two people have the same.
    rest: the path of the file as the student named it.
    slot, attempt: of files with the same student and slot, those of the greatest attempt count.
    time: when it was handed in, naive and in UTC, if the platform says so.
    note: what an instructor would like to know.
    """

    platform: str
    student: str
    rest: str
    person: str = ""
    tie: str | None = None
    slot: str = ""
    attempt: tuple[Any, ...] = ()
    time: datetime | None = None
    note: str = ""


def student_name(text: str) -> str:
    """`text` as the name of a student's folder, blanks as "_".

    Raises Refused when it holds what a file system, a shell, a spreadsheet or nbgrader would not
    take for a plain name.
    """
    name = "_".join(unicodedata.normalize("NFC", text).split())
    if not name:
        raise Refused("the student's name is empty")
    if len(name) > MAX_NAME or len(name.encode("utf-8", "replace")) > 2 * MAX_NAME:
        raise Refused("the student's name is too long")
    for character in name:
        if unicodedata.category(character)[0] not in "LMN" and character not in _ALSO:
            raise Refused(f"the student's name holds the character U+{ord(character):04X}")
    if unicodedata.category(name[0])[0] not in "LN":
        raise Refused("the student's name does not start with a letter or digit")
    if name.endswith(".") or _RESERVED.fullmatch(name):
        raise Refused("the student's name is reserved on some systems")
    return name


def origins(path: str, people: Mapping[str, list[Origin]]) -> list[Origin]:
    """Who handed in the file at `path`: several people for a group's submission.

    people: what `gradescope_people` found. Raises Refused when the path names no student.
    """
    top, _, below = path.partition("/")
    if below and re.fullmatch(r"submission_\d+", top):
        unknown = Origin("Gradescope", top, "", note="submission_metadata.yml does not name them")
        return [_with_rest(origin, below) for origin in people.get(top, [unknown])]
    for read in (_moodle, _brightspace, _blackboard, _canvas):
        origin = read(path)
        if origin is not None:
            return [origin]
    if below:
        return [Origin("folder", top, below)]
    if is_zip(path):
        return [Origin("folder", top[: -len(".zip")], top)]
    raise Refused("its name does not say whose it is; put it into a folder named after the student")


def is_known(path: str) -> bool:
    """Whether the path is named as a learning platform names it."""
    top, _, below = path.partition("/")
    if below and re.fullmatch(r"submission_\d+", top):
        return True
    return any(read(path) for read in (_moodle, _brightspace, _blackboard, _canvas))


def _with_rest(origin: Origin, rest: str) -> Origin:
    return dataclasses.replace(origin, rest=rest)


def _moodle(path: str) -> Origin | None:
    match = re.fullmatch(r"([^/]+?)_(\d+)_assignsubmission_[a-z]+(?:_?/|_)(.+)", path)
    if match is None:
        return None
    name, number, rest = match.groups()
    return Origin("Moodle", name, rest, person=f"{name}_{number}", tie=number)


def _canvas(path: str) -> Origin | None:
    match = re.fullmatch(r"([^/]+?)(_LATE)?_(\d+)_(\d+)_([^/]+)", path)
    student = late = None
    if match is not None:
        name, late, user, upload, rest = match.groups()
        student = f"{name}_{user}"
    else:  # anonymous grading
        match = re.fullmatch(r"(LATE_)?(anon_[^_/]+)_(\d+)_([^/]+)", path)
        if match is None:
            return None
        late, student, upload, rest = match.groups()
    stem, dot, extension = rest.partition(".")
    again = re.fullmatch(r"(.+)-(\d{1,3})", stem)
    attempt = (int(again[2]) if again else 0, int(upload))
    slot = f"{again[1] if again else stem}{dot}{extension}"
    note = "late according to Canvas" if late else ""
    return Origin("Canvas", student, rest, slot=slot, attempt=attempt, note=note)


def _brightspace(path: str) -> Origin | None:
    # A "/" where the files of a submission are in a folder, " - " where they are not.
    match = re.fullmatch(
        r"(\d+)-\d+ - ([^/]+?) - ([^/]*?\d{4}[^/]*?\d{3,4}(?: ?[AP]M)?)(?:/| - )(.+)", path
    )
    if match is None:
        return None
    user, name, date, rest = match.groups()
    time = _brightspace_time(date)
    return Origin(
        "Brightspace", f"{name}_{user}", rest, attempt=(time or datetime.min,), time=_utc(time)
    )


def _brightspace_time(text: str) -> datetime | None:
    """Local time; its colon is left out: "Oct 11, 2026 208 PM"."""
    match = re.fullmatch(r"(.+?),? (\d{1,2})(\d\d)(?: ?([AP]M))?", text)
    if match is None:
        return None
    date, hour, minute, half = match.groups()
    for day in ("%b %d, %Y", "%B %d, %Y", "%d %B, %Y", "%d %b, %Y", "%d %B %Y", "%d %b %Y"):
        clock = f"{int(hour):02d}{minute}" + (f" {half}" if half else "")
        try:
            return datetime.strptime(f"{date} {clock}", f"{day} {'%I%M %p' if half else '%H%M'}")
        except ValueError:
            continue
    return None


def _blackboard(path: str) -> Origin | None:
    match = re.fullmatch(
        r"([^/]+?_([^_/]+))_attempt_(\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d)_([^/]+)", path
    )
    if match is None:
        return None
    person, student, text, rest = match.groups()  # a_b: which part is the title's cannot be told
    try:
        time = datetime.strptime(text, "%Y-%m-%d-%H-%M-%S")
    except ValueError:
        return None
    return Origin("Blackboard", student, rest, person, attempt=(time,), time=_utc(time))


def _utc(local: datetime | None) -> datetime | None:
    try:
        return local and local.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


def gradescope_people(metadata: bytes) -> dict[str, list[Origin]]:
    """Who is behind each submission: folder name -> one Origin a person. {} if unreadable."""
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        tree = yaml.load(metadata, loader)
    except Exception:  # any damage; the submissions are then named by their numbers
        return {}
    people: dict[str, list[Origin]] = {}
    for folder, record in tree.items() if isinstance(tree, dict) else ():
        if not isinstance(folder, str) or not isinstance(record, dict):
            continue
        submitters = record.get(":submitters")
        who = [_gradescope_id(p) for p in submitters] if isinstance(submitters, list) else []
        time = record.get(":created_at")
        if not isinstance(time, datetime):
            time = None
        elif time.tzinfo is not None:
            time = time.astimezone(UTC).replace(tzinfo=None)
        attempt = (time or datetime.min, int("0" + "".join(re.findall(r"\d+", folder))[:18]))
        note = f"handed in by a group of {len(who)}" if len(who) > 1 else ""
        people[folder] = [
            Origin("Gradescope", student, "", attempt=attempt, time=time, note=note)
            for student in who
            if student
        ]
    return {folder: found for folder, found in people.items() if found}


def _gradescope_id(person: Any) -> str | None:
    """The student number if the course has one, else the address."""
    if not isinstance(person, dict):
        return None
    for field in (":sid", ":email", ":name"):
        value = person.get(field)
        if isinstance(value, str | int) and str(value).strip():
            return str(value).strip()
    return None
