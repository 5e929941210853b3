"""Where the course lies, and which assignments it has. Light, so that anybody may ask."""

from __future__ import annotations

from pathlib import Path

from .errors import EngineError

ROOT = Path(__file__).resolve().parent.parent
SUITES = ROOT / "autograder" / "suites"


def names() -> list[str]:
    """The assignments that have a suite, in alphabetical order."""
    return sorted(p.parent.name for p in SUITES.glob("*/suite.toml"))


def known(assignment: str) -> None:
    """Raises EngineError, with the names that there are, unless the assignment has a suite."""
    if assignment not in names():
        listed = ", ".join(names())
        raise EngineError(f"no assignment named {assignment!r}; there are: {listed}")


def assignment_of(notebook: Path) -> str:
    """The assignment of a notebook, by the name of its file. Raises EngineError."""
    stem = notebook.stem.lower()
    for name in names():
        if name in stem:
            return name
    raise EngineError(f"cannot tell which assignment {notebook} is; give --assignment NAME")
