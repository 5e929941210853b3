"""Read a zip file or a folder from outside, entry by entry; never unpack what it says.

Nothing here writes. An entry is a checked path, a time and a bounded way to get its bytes, so that
no name, link, device, lie about a size or bomb in an archive can reach the file system.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from ..reading.notebook import MAX_BYTES, one_line

MIB = 1 << 20
MAX_RATIO = 200  # of sizes before and after; notebooks full of repeated output reach some 50
MAX_PATH = 1000
MAX_FOLDERS = 20


class Refused(Exception):
    """An entry or an archive is not taken; the message is one line that says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason, 300))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an archive may hold. A learner's own zip gets less than a whole class's."""

    entries: int = 50_000
    directory_bytes: int = 16 * MIB  # of the table of contents, which is read at once
    file_bytes: int = MAX_BYTES
    zip_bytes: int = 64 * MIB  # of a zip inside
    total_bytes: int = 4096 * MIB  # of all that would be opened


NESTED = Limits(entries=5_000, directory_bytes=2 * MIB, zip_bytes=0, total_bytes=64 * MIB)


@dataclass(frozen=True)
class Entry:
    """A file of an archive.

    path: its parts joined by "/", "." and empty parts left out; not checked if `fault` is set.
    time: when it was last changed, naive and in UTC; None when the archive does not say.
    fault: why it must not be opened.
    """

    path: str
    size: int
    time: datetime | None
    read: Callable[[], bytes]
    fault: str | None = None


def is_notebook(path: str) -> bool:
    return path.casefold().endswith((".ipynb", ".ipynb.txt", ".ipynb.json"))


def is_zip(path: str) -> bool:
    return path.casefold().endswith(".zip")


def path_fault(path: str) -> str | None:
    """Why a path from outside must not be used, or None."""
    if not path.strip("/. "):
        return "it has no name"
    if len(path) > MAX_PATH or path.count("/") > MAX_FOLDERS:
        return "its path is too long"
    for character in path:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            return f"its path holds the character U+{ord(character):04X}"
    if "\\" in path:
        return "its path has backslashes; make the zip with another program"
    if path.startswith("/") or path[1:2] == ":":
        return "its path is absolute"
    if ".." in path.split("/"):
        return "its path leads out of the archive (..)"
    return None


def plain_path(path: str) -> str:
    """`path` without empty and "." parts, in composed Unicode (macOS writes it decomposed)."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))


def nothing() -> bytes:
    raise Refused("it must not be opened")


# -- a folder ----------------------------------------------------------------------------------


def folder_entries(folder: Path, limits: Limits = Limits()) -> list[Entry]:
    """The files below `folder`, sorted. Links are not followed.

    Raises:
        Refused: too many files.
        OSError: a folder cannot be read.
    """
    entries: list[Entry] = []
    waiting = [(folder, "")]
    while waiting:
        here, prefix = waiting.pop()
        with os.scandir(here) as found:
            for item in found:
                path = prefix + item.name
                mode = item.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and path_fault(path) is None:
                    waiting.append((here / item.name, path + "/"))
                    continue
                entries.append(_folder_entry(item, path, limits))
                if len(entries) > limits.entries:
                    raise Refused(f"holds more than {limits.entries} files")
    return sorted(entries, key=lambda entry: entry.path)


def _folder_entry(item: os.DirEntry[str], path: str, limits: Limits) -> Entry:
    status = item.stat(follow_symlinks=False)
    fault = path_fault(path) or _kind_fault(status.st_mode)
    if fault is not None:
        return Entry(path, 0, None, nothing, fault)
    time = datetime.fromtimestamp(status.st_mtime, UTC).replace(tzinfo=None)
    most = _most(path, limits)

    def read() -> bytes:
        try:
            handle = os.open(item.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise Refused("it is not a plain file")
                return _bounded(file, most)
        except OSError as error:
            raise Refused(f"it cannot be read ({error.strerror})") from None

    return Entry(plain_path(path), status.st_size, time, read)


# -- a zip file --------------------------------------------------------------------------------


@contextlib.contextmanager
def zip_entries(file: IO[bytes], limits: Limits = Limits()) -> Iterator[list[Entry]]:
    """The files of a zip; their bytes can be read inside the `with` block.

    Raises Refused: not a zip, damaged, or beyond `limits`.
    """
    try:
        archive = zipfile.ZipFile(_Reader(file, limits.directory_bytes))  # type: ignore[arg-type]
    except Refused:
        raise
    except Exception as error:  # the module raises many kinds on damaged files
        known = isinstance(error, zipfile.BadZipFile)
        raise Refused("is not a zip file" if known else "is a damaged zip file") from None
    with archive:
        if len(archive.infolist()) > limits.entries:
            raise Refused(f"holds more than {limits.entries} files")
        entries = [
            _zip_entry(archive, info, limits)
            for info in archive.infolist()
            if not info.orig_filename.endswith("/") or path_fault(info.orig_filename)
        ]
        opened = sum(e.size for e in entries if is_notebook(e.path) or is_zip(e.path))
        if opened > limits.total_bytes:
            raise Refused(f"unpacks to more than {limits.total_bytes // MIB} MB")
        yield entries


class _Reader(io.RawIOBase):
    """The file under a ZipFile, which reads a table of contents of any size at once."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most = file, most

    def read(self, size: int = -1) -> bytes:
        if size > self._most:
            raise Refused("is a zip file with too large a table of contents")
        return self._file.read(self._most if size < 0 else size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def _zip_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limits: Limits) -> Entry:
    # orig_filename: `filename` has been cut at a NUL character
    fault = path_fault(info.orig_filename) or _info_fault(info)
    if fault is not None:
        return Entry(info.orig_filename, 0, None, nothing, fault)
    path = plain_path(info.orig_filename)
    most = _most(path, limits)

    def read() -> bytes:
        if info.file_size > most:
            raise Refused(_too_large(info.file_size, most))
        if info.file_size > MIB and info.file_size > MAX_RATIO * info.compress_size:
            raise Refused(f"it unpacks to over {MAX_RATIO} times its size, like a zip bomb")
        try:
            with archive.open(info) as file:
                return _bounded(file, most)
        except Refused:
            raise
        except Exception:  # zlib, struct, CRC, and more kinds on damaged or hostile entries
            raise Refused("it is damaged in the archive") from None

    return Entry(path, info.file_size, _zip_time(info), read)


def _info_fault(info: zipfile.ZipInfo) -> str | None:
    if info.flag_bits & 0x2041:
        return "it is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is compressed in an unusual way; make the zip with another program"
    return _kind_fault(info.external_attr >> 16)


def _kind_fault(mode: int) -> str | None:
    if stat.S_ISLNK(mode):
        return "it is a link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "it is not a plain file"
    return None


def _most(path: str, limits: Limits) -> int:
    return limits.zip_bytes if is_zip(path) else limits.file_bytes


def _too_large(size: int, most: int) -> str:
    return f"it has {size / MIB:.0f} MB, more than the {most // MIB} MB allowed"


def _bounded(file: IO[bytes], most: int) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise Refused(_too_large(len(data), most))
    return data


def _zip_time(info: zipfile.ZipInfo) -> datetime | None:
    """The entry's time: the one in UTC if it has that, else the local one (of this machine)."""
    extra = info.extra
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        if kind == 0x5455 and length >= 5 and len(extra) >= 9 and extra[4] & 1:
            (seconds,) = struct.unpack_from("<i", extra, 5)
            if seconds > 0:
                return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        extra = extra[4 + length :]
    if info.date_time[:3] <= (1980, 1, 1):
        return None  # what is written for "not known"
    try:
        return datetime(*info.date_time).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None
