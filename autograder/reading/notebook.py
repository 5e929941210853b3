"""Bytes on disk to the raw cells of a notebook. Trusted side; parses hostile bytes, runs nothing.

A learner's file may be anything: another schema version, half a download, a pipe, a bomb. Every
way out of this module is a list of cells or `Unreadable` with one line that says what to do.
"""

import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_BYTES = 20 * 1024 * 1024
MAX_PARTS = 2_000_000  # "{" and "[": each costs some 64 bytes once parsed
MAX_CELLS = 3_000
MAX_CELL_CHARS = 100_000
MAX_CODE_CHARS = 300_000  # parsing costs about 2 s per million characters
MAX_DEPTH = 4
MAX_ENTRIES = 5_000
_EXTENSIONS = (".ipynb", ".ipynb.txt", ".ipynb.json")  # the last two are browsers' doing


class Unreadable(Exception):
    """The submission cannot be graded; `str()` is one line that says why and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason, 300))


@dataclass(frozen=True)
class RawCell:
    """One cell as the file has it. `index` counts all cells from 0, text cells too."""

    index: int
    kind: str  # "code", "markdown", "raw" or whatever the file says
    source: str  # line ends are \n
    grade_id: str | None = None
    flags: dict[str, bool] = field(
        default_factory=dict
    )  # nbgrader's; trusted for released files only


@dataclass(frozen=True)
class RawNotebook:
    cells: list[RawCell]
    sha256: str
    notices: list[str]


def one_line(text: str, limit: int = 120) -> str:
    """Hostile text (a file name, a magic) made fit for a report: printable, one line, short."""
    clean = "".join(c if c.isprintable() else "�" for c in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


# --- which file -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Candidate:
    path: Path
    name: str  # relative to the folder, for messages
    order: tuple[bool, int, bool]  # below the folder, how far the name is off, odd extension


def find_notebook(folder: Path, assignment: str) -> tuple[Path, list[str]]:
    """The notebook of `assignment` in a learner's `folder`, and notices for any guess made.

    The exact name wins; then another case, a copy's name such as "layernorm (1).ipynb", a name that
    contains the assignment's, the only notebook there is; first in `folder` itself, then below it.

    Raises:
        Unreadable: there is none, several are equally likely, or the only one is not a plain file
            inside `folder`.
    """
    wanted = f"{assignment}.ipynb"
    folder, notices = _existing(Path(folder))
    found, refused = _scan(folder, assignment)
    if not found:
        if refused:
            raise Unreadable(f"{refused[0]}: hand in the notebook itself, as {wanted}")
        others = sorted(
            one_line(p.name, 40) for p in _listing(folder) if not p.name.startswith(".")
        )
        seen = f" (found {', '.join(others[:4])})" if others else " (the folder is empty)"
        raise Unreadable(f"no notebook{seen}: hand in {wanted}")
    best = min(candidate.order for candidate in found)
    first = sorted((c for c in found if c.order == best), key=lambda c: c.name)
    if len(first) > 1 or (best[1] == 4 and len(found) > 1):
        names = ", ".join(one_line(c.name, 40) for c in (first if len(first) > 1 else found)[:4])
        raise Unreadable(f"several notebooks ({names}): name the one to grade {wanted}")
    chosen = first[0]
    if chosen.name != wanted:
        notices.append(f"graded {one_line(chosen.name, 80)!r} as {wanted}")
    ignored = sorted(one_line(c.name, 40) for c in found if c is not chosen)
    if ignored:
        notices.append(f"other notebooks were not graded: {', '.join(ignored[:4])}")
    notices += [f"{reason}: not read" for reason in refused[:4]]
    return chosen.path, notices


def _existing(folder: Path) -> tuple[Path, list[str]]:
    """`folder` itself, or the one beside it whose name differs in case only."""
    if folder.is_symlink():
        raise Unreadable(f"the folder {folder.name!r} is a link: hand in the folder itself")
    if folder.is_dir():
        return folder, []
    beside = [
        entry
        for entry in (_listing(folder.parent) if folder.parent.is_dir() else [])
        if entry.name.casefold() == folder.name.casefold() and not entry.is_symlink()
    ]
    if len(beside) == 1 and beside[0].is_dir():
        return beside[0], [f"read the folder {one_line(beside[0].name)!r} as {folder.name!r}"]
    raise Unreadable(f"nothing was handed in: there is no folder {one_line(folder.name)!r}")


def _listing(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for _, entry in zip(range(MAX_ENTRIES), entries, strict=False)]
    except OSError as error:
        raise Unreadable(f"the folder cannot be read ({error.strerror})") from None
    return [folder / name for name in sorted(names)]


def _scan(folder: Path, assignment: str) -> tuple[list[_Candidate], list[str]]:
    """Every notebook at most MAX_DEPTH folders down, and a line for each not to be opened."""
    root = folder.resolve()
    found: list[_Candidate] = []
    refused: list[str] = []
    waiting = [(folder, 0)]
    seen = 0
    while waiting:
        here, depth = waiting.pop(0)
        for path in _listing(here):
            seen += 1
            if seen > MAX_ENTRIES:
                raise Unreadable(f"more than {MAX_ENTRIES} files: hand in the notebook alone")
            if path.name.startswith(".") or path.name in ("__MACOSX", "__pycache__"):
                continue
            name = one_line(str(path.relative_to(folder)), 80)
            extension = next(
                (e for e in _EXTENSIONS[::-1] if path.name.casefold().endswith(e)), None
            )
            real = path
            if path.is_symlink():
                if extension is None:
                    continue  # a linked folder or data file is neither followed nor needed
                try:
                    real = path.resolve(strict=True)
                except (OSError, RuntimeError):
                    refused.append(f"{name!r} is a link that leads nowhere")
                    continue
                if not real.is_relative_to(root):
                    refused.append(f"{name!r} is a link that leaves the folder")
                    continue
            try:
                mode = real.lstat().st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode):
                if depth < MAX_DEPTH and real is path:
                    waiting.append((path, depth + 1))
                if extension is not None:
                    refused.append(f"{name!r} is a folder, not a notebook")
            elif extension is not None and not stat.S_ISREG(mode):
                refused.append(f"{name!r} is not a plain file")
            elif extension is not None:
                off = _name_distance(path.name[: -len(extension)], assignment)
                exact = path.name == f"{assignment}.ipynb"
                order = (depth > 0, 0 if exact else off, extension != ".ipynb")
                found.append(_Candidate(real, name, order))
    return found, refused


def _name_distance(stem: str, assignment: str) -> int:
    """1 another case, 2 a copy, 3 contains the name, 4 something else."""
    stem, assignment = stem.casefold(), assignment.casefold()
    if stem == assignment:
        return 1
    bare = re.sub(
        r"\(\d+\)|\bcopy of\b|[-_ ]*(copy|副本|kopie|copia|copie)[-_ ]*\d*$|[-_ ]\d+$", "", stem
    )
    if re.sub(r"\W", "", bare) == re.sub(r"\W", "", assignment):
        return 2
    return 3 if assignment in stem else 4


# --- what it holds ----------------------------------------------------------------------------


def load(path: Path) -> RawNotebook:
    """Read a notebook of any schema version as plain data.

    Raises:
        Unreadable: not a plain file, too large, not JSON, not a notebook, too many cells.
    """
    data = _read_bytes(Path(path))
    sha256 = hashlib.sha256(data).hexdigest()
    text, notices = _decode(data)
    cells = _cells(_parse(text), notices)
    return RawNotebook(cells, sha256, notices)


def _read_bytes(path: Path) -> bytes:
    # O_NONBLOCK so that a pipe cannot hang us, O_NOFOLLOW against a link made after the search
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "bad file name"
        raise Unreadable(
            f"the file cannot be opened ({why}): hand in the notebook itself"
        ) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("not a plain file: hand in the notebook itself")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = b"" if status.st_size > MAX_BYTES else file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    size = max(status.st_size, len(data))
    if size > MAX_BYTES:
        raise Unreadable(
            f"{size / 2**20:.0f} MB, more than the {MAX_BYTES // 2**20} MB allowed: "
            "clear the outputs (Kernel, Restart and Clear Outputs), save and hand in again"
        )
    return data


_KINDS = (
    (b"PK", "a zip archive"),
    (b"%PDF", "a PDF"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"<", "a web page"),
    (b"version https://git-lfs", "a Git LFS pointer"),
)


def _decode(data: bytes) -> tuple[str, list[str]]:
    if not data.strip(b"\x00 \t\r\n"):
        raise Unreadable("the file is empty: save the notebook and hand it in again")
    for magic, kind in _KINDS:
        if data.lstrip().startswith(magic):
            raise Unreadable(f"the file is {kind}, not a notebook: hand in the .ipynb file")
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding), []
    except UnicodeDecodeError:
        return data.decode(encoding, "replace"), [
            "the file is not clean UTF-8: bad bytes were replaced"
        ]


def _integer(digits: str) -> int:
    return (
        int(digits) if len(digits) < 20 else 0
    )  # thousands of digits would raise, and none is needed


def _parse(text: str) -> Any:
    text = text.strip("\ufeff\x00 \t\r\n")
    if text.count("{") + text.count("[") > MAX_PARTS:
        raise Unreadable("the file has too many parts: clear the outputs, save and hand in again")
    try:
        # strict=False: some editors write raw control characters into strings
        return json.loads(
            text,
            strict=False,
            parse_constant=lambda name: None,
            parse_int=_integer,
            object_hook=None,
        )
    except json.JSONDecodeError as error:
        if re.search(r"^(<{7}|>{7}) ", text, re.MULTILINE):
            raise Unreadable(
                "holds Git conflict marks: resolve them, save and hand in again"
            ) from None
        cut = error.pos >= len(text) - 1 or error.msg.startswith("Unterminated")
        if text[:1] == "{" and cut:
            raise Unreadable(
                "the file stops in the middle: save the notebook and hand it in again"
            ) from None
        raise Unreadable(
            f"not a notebook: not JSON (line {error.lineno}): hand in the .ipynb file from Jupyter"
        ) from None
    except (RecursionError, MemoryError):
        raise Unreadable("not a notebook: its JSON is nested too deeply") from None


def _cells(tree: Any, notices: list[str]) -> list[RawCell]:
    if not isinstance(tree, dict):
        raise Unreadable(
            "not a notebook: its JSON is no object: hand in the .ipynb file from Jupyter"
        )
    lists: list[Any] = [tree.get("cells")]
    worksheets = tree.get("worksheets")  # nbformat 2 and 3
    if isinstance(worksheets, list):
        lists += [sheet.get("cells") for sheet in worksheets if isinstance(sheet, dict)]
    lists = [cells for cells in lists if isinstance(cells, list)]
    if not lists:
        raise Unreadable(
            "not a notebook: it has no list of cells: hand in the .ipynb file from Jupyter"
        )
    items = [item for cells in lists for item in cells]
    if len(items) > MAX_CELLS:
        raise Unreadable(
            f"{len(items)} cells, more than the {MAX_CELLS} allowed: delete the extra cells"
        )
    cells: list[RawCell] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            notices.append(f"cell {index + 1} is damaged and was not run")
            continue
        cell = _cell(index, item)
        if len(cell.source) > MAX_CELL_CHARS and cell.kind == "code":
            notices.append(
                f"cell {index + 1} was not run: {len(cell.source)} characters, "
                f"more than {MAX_CELL_CHARS}"
            )
            continue
        cells.append(cell)
    code = sum(len(cell.source) for cell in cells if cell.kind == "code")
    if code > MAX_CODE_CHARS:
        raise Unreadable(
            f"{code} characters of code, more than {MAX_CODE_CHARS}: delete the extra cells"
        )
    return cells


def _cell(index: int, item: dict[str, Any]) -> RawCell:
    kind = item.get("cell_type")
    if not isinstance(kind, str):
        kind = "code"
    language = item.get("language", "python")  # nbformat 3
    if kind == "code" and isinstance(language, str) and "python" not in language.casefold():
        kind = "raw"
    source = item.get("source")
    if source is None:
        source = item.get("input")  # nbformat 2 and 3
    metadata = item.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    nbgrader = nbgrader if isinstance(nbgrader, dict) else {}
    grade_id = nbgrader.get("grade_id")
    flags = {name: nbgrader.get(name) is True for name in ("grade", "solution", "locked")}
    return RawCell(
        index, kind, _text(source), grade_id if isinstance(grade_id, str) else None, flags
    )


def _text(source: Any) -> str:
    if isinstance(source, list):
        lines = [line for line in source if isinstance(line, str)]
        separator = "" if any(line.endswith(("\n", "\r")) for line in lines[:-1]) else "\n"
        source = separator.join(lines)
    if not isinstance(source, str):
        return ""
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    # half of a surrogate pair cannot be written down again
    return source.encode("utf-8", "replace").decode("utf-8") if _has_surrogate(source) else source


def _has_surrogate(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is not None
