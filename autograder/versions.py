"""What decides a score besides the submission: the files of grader and suite, and the software.

A stored result is used again only under the versions it was made with, and a Dask worker only with
those of this machine. So a version is a digest of whole folders: a file that is added tomorrow is
in it without being named here. Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Collection, Iterator
from importlib import metadata
from pathlib import Path

from . import __version__
from .course import ROOT

# In each of these an assignment has a folder of its own, which decides its scores alone.
BY_ASSIGNMENT = ("autograder/suites", "autograder/misconceptions", "solutions", "exercises")
# The grader: all else in here, and what lies beside the folders of the assignments.
GRADER = ("autograder", "kernel_sanitizer", "solutions")
PACKAGES = ("torch", "triton", "numpy")


def grader(root: Path = ROOT) -> str:
    """The version of the grader below `root`, with the software it runs on."""
    of_assignments = {root / parent for parent in BY_ASSIGNMENT}
    files = [file for tree in GRADER for file in _files(root / tree, of_assignments)]
    digest = hashlib.sha256(f"{_digest(root, files)} {software()}".encode())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def suite(assignment: str, root: Path = ROOT) -> str:
    """The version of all that is there for one assignment: tests, reference, notebook, mistakes."""
    files = [file for parent in BY_ASSIGNMENT for file in _files(root / parent / assignment)]
    return _digest(root, files)[:16]


def software() -> dict[str, str]:
    """Name -> version of what computes; "none" for what is not installed."""
    return {"Python": platform.python_version()} | {name: _installed(name) for name in PACKAGES}


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _files(folder: Path, without_folders_in: Collection[Path] = ()) -> Iterator[Path]:
    """All files below `folder`, but for hidden ones, byte code, and an editor's copies."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        keep = () if here in without_folders_in else folders
        folders[:] = [n for n in keep if n != "__pycache__" and not n.startswith(".")]
        for name in names:
            if not name.startswith(".") and not name.endswith(("~", ".pyc")):
                yield here / name


def _digest(root: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()
