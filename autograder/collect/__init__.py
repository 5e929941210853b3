"""Sort an export of a learning platform into `submitted/<student>/<assignment>/`.

nbgrader has `zip_collect` for this. Its steps are sound and are kept: unpack, match names, take the
newest, write a time. But it unpacks everything on disk before it looks, wants a regular expression
from the instructor, takes the student's folder from it unchecked, empties what was collected
before, and stops at the first two files that it cannot order. Here nothing is unpacked but
notebooks, names are checked first, an older submission is kept, and every notebook that is not
taken is listed with its reason while the rest of the class goes on.

The time of a submission is the platform's, where its export says it, or else the one the archive
has for the file. Times inside a learner's own zip are the learner's to choose, and are not used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import stat
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ..errors import EngineError
from ..files import write_whole
from ..reading import submission
from ..reading.notebook import one_line
from .archive import (
    NESTED,
    Entry,
    Refused,
    folder_entries,
    is_notebook,
    is_zip,
    path_fault,
    zip_entries,
)
from .platforms import Origin, gradescope_people, is_known, origins, student_name

TIMESTAMP = "timestamp.txt"
_TIME = "%Y-%m-%d %H:%M:%S.%f UTC"  # as nbgrader writes it
_METADATA = "submission_metadata.yml"
_MAX_PREVIOUS = 50
_MAX_LINES = 200


@dataclass
class Mapping:
    """What became of each file.

    accepted: (name in the archive, student, note), by student.
    refused: (name in the archive, one-line reason).
    others: how many files were neither notebooks nor zips.
    """

    accepted: list[tuple[str, str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    others: int = 0
    remarks: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report to print: who was taken from where, what was not and why."""
        rows = [(one_line(student), one_line(name)) for name, student, _ in self.accepted]
        width = max((len(student) for student, _ in rows), default=0)
        lines = []
        for (student, name), (_, _, note) in zip(rows, self.accepted, strict=True):
            lines.append(f"{student:<{width}}  <-  {name}" + (f"  ({note})" if note else ""))
        for name, reason in self.refused[:_MAX_LINES]:
            lines.append(f"not taken: {one_line(name)}: {reason}")
        if len(self.refused) > _MAX_LINES:
            lines.append(f"not taken: and {len(self.refused) - _MAX_LINES} more")
        lines += self.remarks
        lines.append(f"{len(self.accepted)} collected, {len(self.refused)} not taken")
        if self.others:
            lines[-1] += f", {self.others} other files left in the archive"
        return lines


@dataclass
class _Person:
    student: str
    files: list[tuple[Entry, Origin, str]] = field(default_factory=list)  # str: name in the archive
    note: str = ""


def collect(archive: Path, assignment: str, submitted: Path) -> Mapping:
    """Write the notebooks of `archive`, a zip file or a folder, below `submitted`.

    Raises EngineError with a one-line reason when the archive as a whole cannot be used, or the
    disk cannot be written. What has been collected by then stays, and running again goes on.
    """
    mapping = Mapping()
    try:
        with _opened(archive) as entries:
            people = _people(entries, assignment, mapping)
            store = _Store(submitted, assignment, archive)
            for person in people:
                _take(person, store, mapping)
    except Refused as error:
        raise EngineError(f"{archive} {error}") from None
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise EngineError(f"cannot collect {archive}: {error.strerror or error}{place}") from error
    if not mapping.accepted and not mapping.refused:
        raise EngineError(f"{archive} holds no notebook and no zip file")
    return mapping


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[list[Entry]]:
    if archive.is_dir():
        yield folder_entries(archive)
        return
    if not archive.exists():
        raise EngineError(f"there is no file or folder {archive}")
    if not archive.is_file():
        raise Refused("is neither a zip file nor a folder")
    if archive.stat().st_size == 0:
        raise Refused("is empty")
    with open(archive, "rb") as file, zip_entries(file) as entries:
        yield entries


# -- whose is what -----------------------------------------------------------------------------


def _people(entries: list[Entry], assignment: str, mapping: Mapping) -> list[_Person]:
    """The people in the archive, each under a checked name that no other has."""
    wanted = _sift(entries, mapping)
    prefix = _wrapper([entry.path for entry in wanted], assignment)
    known = _metadata(entries, prefix)
    people: dict[tuple[str, str], _Person] = {}
    for entry in wanted:
        try:
            for origin in origins(entry.path.removeprefix(prefix), known):
                key = (origin.platform, origin.person or origin.student)
                person = people.setdefault(key, _Person(origin.student))
                person.files.append((entry, origin, entry.path))
        except Refused as error:
            mapping.refused.append((entry.path, str(error)))
    if any(origin.platform == "Canvas" for p in people.values() for _, origin, _ in p.files):
        mapping.remarks.append("Canvas stamps files with the time of the export, not of handing in")
    return _with_names(list(people.values()), mapping)


def _sift(entries: list[Entry], mapping: Mapping) -> list[Entry]:
    """The notebooks and zips. Refuses hostile paths and links of any kind of file."""
    wanted = []
    for entry in entries:
        if entry.fault is not None and path_fault(entry.path) is not None:
            mapping.refused.append((entry.path, entry.fault))
        elif _is_noise(entry.path):
            continue
        elif is_notebook(entry.path) or is_zip(entry.path):
            wanted.append(entry)
        elif entry.fault is not None:
            mapping.refused.append((entry.path, entry.fault))
        else:
            mapping.others += 1
    return _without_doubles(wanted)


def _is_noise(path: str) -> bool:
    """What macOS and Jupyter leave lying about."""
    *folders, name = path.split("/")
    return name.startswith(".") or not {"__MACOSX", ".ipynb_checkpoints"}.isdisjoint(folders)


def _metadata(entries: list[Entry], prefix: str) -> dict[str, list[Origin]]:
    """Gradescope's list of people. Only the one at the top: a learner may hand in another."""
    found = [e for e in entries if e.path == prefix + _METADATA and e.fault is None]
    if len(found) != 1:
        return {}
    try:
        return gradescope_people(found[0].read())
    except Refused:
        return {}


def _without_doubles(entries: list[Entry]) -> list[Entry]:
    """Mark entries that a file system could not hold beside each other."""
    exact = Counter(entry.path for entry in entries)
    folded: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        folded[_folded(entry.path)].add(entry.path)
    marked, seen = [], set()
    for entry in entries:
        fault = entry.fault
        if exact[entry.path] > 1:
            fault = f"its path occurs {exact[entry.path]} times in the archive"
        elif len(folded[_folded(entry.path)]) > 1:
            fault = "its path differs from another one in upper and lower case only"
        if entry.path not in seen:
            marked.append(dataclasses.replace(entry, fault=fault))
        seen.add(entry.path)
    return marked


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _wrapper(paths: Sequence[str], assignment: str) -> str:
    """The folder around everything, such as "export/", which names no student; or ""."""
    prefix = ""
    for _ in range(3):
        tops = {path.partition("/")[0] for path in paths}
        named = tops == {assignment} and all(path.count("/") > 1 for path in paths)
        below = [path.partition("/")[2] for path in paths]
        if len(tops) != 1 or not all(below) or any(map(is_known, paths)):
            break
        inside = {path.partition("/")[0] for path in below}
        deeper = [path.split("/")[1:2] == [assignment] for path in below]
        class_of_folders = (
            len(inside) > 1
            and assignment not in inside
            and not any(is_notebook(path) for path in below if "/" not in path)
        )
        if not (any(map(is_known, below)) or class_of_folders or all(deeper) or named):
            break
        prefix += tops.pop() + "/"
        paths = below
    return prefix


def _with_names(people: list[_Person], mapping: Mapping) -> list[_Person]:
    """Check every name; tell namesakes apart by the platform's number, or refuse both."""
    for person in people:
        try:
            person.student = student_name(person.student)
        except Refused as error:
            remedy = "put it into submitted/NAME/ yourself, with a name that is plain"
            mapping.refused.append((person.files[0][2], f"{error}; {remedy}"))
            person.student = ""
    people = [person for person in people if person.student]
    for person in _namesakes(people):
        tie = person.files[0][1].tie
        if tie is not None:
            person.student += f"_{tie}"
            person.note = "another person has the same name"
    doubles = {id(person) for person in _namesakes(people)}
    for person in people:
        if id(person) in doubles:
            reason = f"another person's files also lead to the name {person.student!r}"
            mapping.refused.append((person.files[0][2], reason))
    return sorted((p for p in people if id(p) not in doubles), key=lambda person: person.student)


def _namesakes(people: list[_Person]) -> list[_Person]:
    count = Counter(_folded(person.student) for person in people)
    return [person for person in people if count[_folded(person.student)] > 1]


# -- one person --------------------------------------------------------------------------------


def _take(person: _Person, store: _Store, mapping: Mapping) -> None:
    """Find the person's notebook and write it."""
    name = person.files[0][2]
    try:
        files, notes = _latest(person.files)
        name = files[0][2]
        with tempfile.TemporaryDirectory() as folder:
            staging = Path(folder).resolve()
            staged = _stage(files, staging, store.assignment, mapping)
            if not staged:
                raise Refused("holds no notebook")
            try:
                path, more = submission.find_notebook(staging, store.assignment)
            except submission.Unreadable as error:
                raise Refused(str(error)) from None
            entry, origin, name = staged[path.relative_to(staging).as_posix()]
            data = path.read_bytes()
        time = origin.time or entry.time
        notes = [person.note, origin.note, *notes, *more, store.write(person.student, data, time)]
        note = "; ".join(one_line(note) for note in notes if note)
        mapping.accepted.append((name, person.student, note))
    except Refused as error:
        mapping.refused.append((name, str(error)))


def _latest(
    files: list[tuple[Entry, Origin, str]],
) -> tuple[list[tuple[Entry, Origin, str]], list[str]]:
    """The files of the latest attempt, and a note if there are earlier ones."""
    attempts: dict[str, set[tuple]] = defaultdict(set)
    for _, origin, _ in files:
        attempts[origin.slot].add(origin.attempt)
    kept = [file for file in files if file[1].attempt == max(attempts[file[1].slot])]
    most = max(len(found) for found in attempts.values())
    return kept, [f"the latest of {most} attempts"] if most > 1 else []


def _stage(
    files: list[tuple[Entry, Origin, str]], folder: Path, assignment: str, mapping: Mapping
) -> dict[str, tuple[Entry, Origin, str]]:
    """Write the notebooks of one person below `folder`: relative path -> where it is from."""
    home = f"{assignment}/".casefold()
    if any(origin.rest.casefold().startswith(home) for _, origin, _ in files):
        # laid out as nbgrader does; other assignments lie beside it
        files = [file for file in files if file[1].rest.casefold().startswith(home)]
    else:
        home = ""
    staged: dict[str, tuple[Entry, Origin, str]] = {}
    for entry, origin, name in files:
        rest = origin.rest[len(home) :]
        if entry.fault is not None:
            raise Refused(entry.fault if len(files) == 1 else f"{one_line(rest)}: {entry.fault}")
        if not is_zip(rest):
            staged[_write_staged(folder, rest, entry.read())] = (entry, origin, name)
            continue
        for path, data in _unzip(entry, name, mapping):
            inner = (entry, origin, f"{name}/{path}")
            below = rest[: -len(".zip")].strip("/") or "zip"  # a file may be called just ".zip"
            staged[_write_staged(folder, f"{below}/{path}", data)] = inner
    return staged


def _unzip(entry: Entry, name: str, mapping: Mapping) -> Iterator[tuple[str, bytes]]:
    """The notebooks of a learner's own zip. Raises Refused for the whole of it."""
    try:
        with zip_entries(io.BytesIO(entry.read()), NESTED) as entries:
            inner = Mapping()
            wanted = _sift(entries, inner)
            mapping.refused += [(f"{name}/{path}", reason) for path, reason in inner.refused]
            for found in wanted:
                if found.fault is not None:
                    raise Refused(f"{one_line(found.path)}: {found.fault}")
                if is_zip(found.path):
                    reason = "a zip in a zip in the archive is not opened"
                    mapping.refused.append((f"{name}/{found.path}", reason))
                    continue
                yield found.path, found.read()
    except Refused as error:
        raise Refused(f"the zip: {error}") from None


def _write_staged(folder: Path, rest: str, data: bytes) -> str:
    path = folder / rest
    if folder not in path.parents or ".." in path.parts:
        raise Refused(f"{one_line(rest)}: it would land outside of its folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(data)
    except (FileExistsError, NotADirectoryError):
        raise Refused(f"{one_line(rest)}: there are two of this name") from None
    except OSError as error:
        if path.parent.is_dir() and len(path.name.encode()) < 255:
            raise
        raise Refused(f"{one_line(rest)}: {error.strerror}") from None
    return path.relative_to(folder).as_posix()


# -- writing -----------------------------------------------------------------------------------


class _Store:
    """Where submissions go. Never loses one that is there."""

    def __init__(self, submitted: Path, assignment: str, archive: Path) -> None:
        self.submitted, self.assignment = submitted, assignment
        changed = datetime.fromtimestamp(archive.stat().st_mtime, UTC)
        self._fallback = changed.replace(tzinfo=None)
        submitted.mkdir(parents=True, exist_ok=True)
        self._there = {_folded(path.name): path.name for path in submitted.iterdir()}

    def write(self, student: str, data: bytes, time: datetime | None) -> str:
        """Write one submission and return a note. Raises Refused when what is there must stay."""
        there = self._there.setdefault(_folded(student), student)
        if there != student:
            raise Refused(f"there is a folder {there!r} already: nearly the same name")
        folder = self.submitted / student / self.assignment
        for path in (folder.parent, folder):
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise Refused(f"{path} is not a folder")
        folder.mkdir(parents=True, exist_ok=True)
        target, stamp = folder / f"{self.assignment}.ipynb", folder / TIMESTAMP
        before = _plain_bytes(target)
        if before == data:
            if not stamp.exists():
                self._write_time(stamp, time)
            return "unchanged"
        note = "" if time else "the archive has no time for it: took the archive's own"
        if before is not None:
            earlier = _time_in(stamp)
            if time and earlier and time < earlier:
                raise Refused(f"older than the submission that is there ({earlier:%Y-%m-%d %H:%M})")
            kept = _keep(folder, target, stamp, before)
            note = "; ".join(filter(None, [f"the earlier one is kept as {kept}", note]))
        # The time first: if this is cut short, the next run sees other bytes and goes on.
        self._write_time(stamp, time)
        write_whole(target, data, durable=True)
        return note

    def _write_time(self, stamp: Path, time: datetime | None) -> None:
        write_whole(stamp, (time or self._fallback).strftime(_TIME).encode(), durable=True)


def _plain_bytes(path: Path) -> bytes | None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise Refused(f"{path} is there and is not a plain file")
    return path.read_bytes()


def _time_in(stamp: Path) -> datetime | None:
    try:
        return datetime.strptime((_plain_bytes(stamp) or b"").decode("ascii").strip(), _TIME)
    except ValueError:
        return None


def _keep(folder: Path, target: Path, stamp: Path, before: bytes) -> str:
    """Copy what is there to a name of its own, with its time; return the name."""
    for number in range(1, _MAX_PREVIOUS + 1):
        suffix = ".previous" if number == 1 else f".previous{number}"
        kept = folder / (target.name + suffix)
        there = _plain_bytes(kept)
        if there is None:
            with contextlib.suppress(FileNotFoundError):
                write_whole(folder / (TIMESTAMP + suffix), stamp.read_bytes(), durable=True)
            write_whole(kept, before, durable=True)
        if there is None or there == before:
            return kept.name
    raise Refused(f"{_MAX_PREVIOUS} earlier submissions are kept already: move some away")
