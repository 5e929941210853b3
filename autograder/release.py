"""From solutions/<name>/<name>.py to the notebook that learners get.

The source is a jupytext percent script with nbgrader metadata in its cell headers. `build_source`
turns it into the instructor's notebook under build/source/, and `release` lets nbgrader remove the
solutions from that. Both give the same bytes every time. What is wrong with a source is said in one
line by a `ReleaseError`.

An exercise is a code cell and the check cell after it. A written question is one text cell,
`nbgrader={"grade_id": "written_<word>", "written": true, "points": 3}`, with the marking guide
between the solution markers; a person grades it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .course import ROOT
from .files import renew
from .testing import allowance

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
MARKERS = ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS", "BEGIN MARK SCHEME")
IMPORT_SAFE = "active-ipynb"
WRITTEN = "written_"
NAME = re.compile(r"[A-Za-z0-9_-]+")
KEYS = {"grade_id", "solution", "grade", "locked", "points", "written"}
KEYS |= {"schema_version", "cell_type", "task"}


class ReleaseError(Exception):
    """An assignment cannot be built. The text is one line for the author of the course."""


def assignments(root: Path = ROOT) -> list[str]:
    """Names of all assignments, sorted: the folders solutions/<name>/ that hold <name>.py."""
    return sorted(
        path.parent.name
        for path in (root / "solutions").glob("*/*.py")
        if path.stem == path.parent.name
    )


def points(assignment: str, root: Path = ROOT) -> dict[str, float]:
    """Points of each exercise, by graded name, in the order of the notebook.

    These are the points of the nbgrader cell `test_<graded name>`.
    """
    return {
        meta["grade_id"].removeprefix("test_"): float(meta["points"])
        for _, meta in _graded(_source_notebook(assignment, root))
        if meta["grade"] and not meta["solution"]
    }


def written(assignment: str, root: Path = ROOT) -> dict[str, float]:
    """Points of each written question, by grade_id, in the order of the notebook."""
    return {
        meta["grade_id"]: float(meta["points"])
        for _, meta in _graded(_source_notebook(assignment, root))
        if _is_written(meta)
    }


def solution_cells(assignment: str, root: Path = ROOT) -> dict[str, str]:
    """Source of each solution cell with its solution, by graded name, marker lines left out."""
    return {
        meta["grade_id"]: "\n".join(
            line for line in cell.source.split("\n") if line.strip() not in (BEGIN, END)
        )
        for cell, meta in _graded(_source_notebook(assignment, root))
        if meta["solution"] and not meta["grade"]
    }


def stub(assignment: str, name: str, root: Path = ROOT) -> str:
    """Source of the solution cell `name` as the learner gets it, from exercises/.

    Raises:
        ReleaseError: the assignment was not released yet, or has no such exercise.
    """
    import nbformat

    path = _released_path(assignment, root)
    if not path.is_file():
        raise ReleaseError(f"{assignment}: {path.relative_to(root)} is missing, run make exercises")
    cells = {
        meta["grade_id"]: cell.source
        for cell, meta in _graded(nbformat.read(path, as_version=4))
        if meta["solution"] and not meta["grade"]
    }
    if name not in cells:
        raise ReleaseError(f"{assignment}: no exercise {name!r}, there are {', '.join(cells)}")
    return cells[name]


def build_source(assignment: str, root: Path = ROOT) -> Path:
    """Write build/source/<assignment>/<assignment>.ipynb, the notebook with solutions.

    Returns:
        The path of the notebook.

    Raises:
        ReleaseError: no such assignment, or something is wrong with its source.
    """
    return _write_source(assignment, root, root)


def release(
    assignment: str, root: Path = ROOT, *, register: bool = False, force: bool = False
) -> Path:
    """Write exercises/<assignment>/<assignment>.ipynb by nbgrader's generate_assignment.

    Args:
        register: also enter the assignment, its cells and points into the gradebook.
        force: replace a released notebook in which somebody has written answers.

    Returns:
        The path of the notebook.

    Raises:
        ReleaseError: as `build_source`; or nbgrader refuses the notebook; or a solution would be
            released; or the notebook in exercises/ holds answers.
    """
    build_source(assignment, root)
    content = _generate(assignment, root, register=register)
    path = _released_path(assignment, root)
    if path.is_file():
        if path.read_bytes() == content:
            return path
        answered = _answered(path)
        if answered and not force:
            raise ReleaseError(
                f"{assignment}: {path.relative_to(root)} holds an answer to {answered}; "
                "copy it elsewhere, then run python -m autograder.release --force"
            )
    renew(path, content)
    return path


def check(assignment: str, root: Path = ROOT) -> str | None:
    """One line that says how exercises/ differs from what `release` would write, or None."""
    path = _released_path(assignment, root)
    content = _generate(assignment, root, register=False)
    shown = path.relative_to(root)
    if not path.is_file():
        return f"{shown} is missing, run make exercises"
    if path.read_bytes() != content:
        return f"{shown} is not up to date with solutions/, run make exercises"
    others = [p for p in sorted(path.parent.iterdir()) if p != path and p.name[0] != "."]
    return f"{others[0].relative_to(root)} is not a released file, remove it" if others else None


def main(argv: Sequence[str] | None = None) -> int:
    """Release the named assignments (default all), or only check them. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m autograder.release", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="assignment")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if outdated")
    parser.add_argument("--register", action="store_true", help="enter it into the gradebook too")
    parser.add_argument("--force", action="store_true", help="replace a notebook that has answers")
    options = parser.parse_args(argv)
    try:
        for name in options.names or assignments():
            if options.check:
                problem = check(name)
                if problem:
                    raise ReleaseError(f"{name}: {problem}")
                print(f"{name}: up to date")
            else:
                path = release(name, register=options.register, force=options.force)
                print(f"{name}: {path.relative_to(ROOT)}")
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


# ---- the source notebook ----------------------------------------------------------------------


def _source_notebook(assignment: str, root: Path) -> Any:
    """The source as a checked notebook with complete nbgrader metadata and stable cell ids."""
    import jupytext
    import nbformat

    path = root / "solutions" / assignment / f"{assignment}.py"
    if not NAME.fullmatch(assignment) or not path.is_file():
        known = ", ".join(assignments(root)) or "none yet"
        raise ReleaseError(f"no assignment {assignment!r}, there are: {known}")
    parsed = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    notebook = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for number, cell in enumerate(parsed.cells, start=1):
        where = f"{assignment}: cell {number}"
        meta = _cell_metadata(cell, where)
        # jupytext would draw random ids; these make every build the same.
        cell.id = meta["nbgrader"]["grade_id"] if "nbgrader" in meta else f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict(meta)
        notebook.cells.append(cell)
    _check_notebook(notebook, assignment)
    with contextlib.suppress(OSError):  # without a hidden suite there are no limits to tell of
        if notebook.cells and notebook.cells[0].cell_type == "markdown":
            notebook.cells[0].source += f"\n\n{allowance.line(assignment)}"
    return notebook


def _cell_metadata(cell: Any, where: str) -> dict[str, Any]:
    """Metadata of a cell with the nbgrader part completed.

    A header states only what is particular: `grade_id` and `solution` of a solution cell,
    `grade_id` and `points` of a check cell, `grade_id`, `written` and `points` of a written
    question, `grade_id` alone for a cell that is only locked.
    """
    kept = {key: cell.metadata[key] for key in ("tags", "nbgrader") if key in cell.metadata}
    unknown = sorted(key for key in set(cell.metadata) - set(kept) if key[:9] != "lines_to_")
    if unknown:  # what jupytext could not parse ends up under other names
        raise ReleaseError(f"{where} has a header that cannot be read ({unknown[0]})")
    if "nbgrader" not in kept:
        return kept
    given = kept["nbgrader"]
    if not isinstance(given, dict) or set(given) - KEYS:
        raise ReleaseError(f"{where} has nbgrader metadata that cannot be read: {given}")
    grade_id = given.get("grade_id")
    if not isinstance(grade_id, str) or not NAME.fullmatch(grade_id) or len(grade_id) > 64:
        raise ReleaseError(
            f"{where} needs a grade_id of letters, digits, _ and -, not {grade_id!r}"
        )
    if "written" in given:  # our word for what nbgrader writes as two flags
        if given["written"] is not True:
            raise ReleaseError(f"{where} ({grade_id}) cannot have written={given['written']!r}")
        given = {"solution": True, "grade": True, "points": None, **given}
        del given["written"]
    solution, grade = given.get("solution", False), given.get("grade", "points" in given)
    complete = {
        "cell_type": cell.cell_type,
        "grade": grade,
        "grade_id": grade_id,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    if grade:
        complete["points"] = given.get("points")
    for key, value in given.items():
        flag = key in ("solution", "grade", "locked", "task")
        if complete.get(key) != value or (flag and not isinstance(value, bool)):
            raise ReleaseError(f"{where} ({grade_id}) cannot have {key}={value!r} here")
    return {**kept, "nbgrader": complete}


def _check_notebook(notebook: Any, assignment: str) -> None:
    """Raise ReleaseError unless every exercise is a solution cell followed by its check cell."""
    seen: set[str] = set()
    solutions: list[str] = []
    checked: set[str] = set()
    for number, cell in enumerate(notebook.cells, start=1):
        where = f"{assignment}: cell {number}"
        meta = cell.metadata.get("nbgrader")
        if meta is None or not meta["solution"]:
            marked = [marker for marker in MARKERS if marker in cell.source]
            if marked:
                raise ReleaseError(f"{where} holds {marked[0]} but is not a solution cell")
        if meta is None:
            continue
        name = meta["grade_id"]
        if name in seen:
            raise ReleaseError(f"{where} repeats the grade_id {name!r}")
        seen.add(name)
        if _is_written(meta):
            _check_written(cell, name, where)
        elif meta["solution"]:
            _check_solution(cell, name, where)
            solutions.append(name)
        elif meta["grade"]:
            _check_test(cell, name, solutions, where)
            checked.add(name.removeprefix("test_"))
    for name in solutions:
        if name not in checked:
            raise ReleaseError(f"{assignment}: {name} has no check cell test_{name}")


def _check_solution(cell: Any, name: str, where: str) -> None:
    if cell.cell_type != "code":
        raise ReleaseError(f"{where} ({name}) must be a code cell")
    _check_markers(cell, name, where)
    try:
        tree = ast.parse(cell.source)
    except SyntaxError as error:
        raise ReleaseError(f"{where} ({name}) is not Python: {error.msg}") from None
    if name not in [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]:
        raise ReleaseError(f"{where} must define {name}, the name it is graded by")


def _check_written(cell: Any, name: str, where: str) -> None:
    if cell.cell_type != "markdown" or not name.startswith(WRITTEN):
        raise ReleaseError(f"{where} ({name}) must be a markdown cell named {WRITTEN}<word>")
    _check_markers(cell, name, where)
    _check_points(cell, name, where)


def _check_markers(cell: Any, name: str, where: str) -> None:
    lines = [line.strip() for line in cell.source.split("\n")]
    marks = [line for line in lines if any(marker in line for marker in MARKERS)]
    if not marks or marks != [BEGIN, END] * (len(marks) // 2):
        raise ReleaseError(f"{where} ({name}) needs pairs of the lines {BEGIN} and {END}")


def _check_points(cell: Any, name: str, where: str) -> None:
    worth = cell.metadata["nbgrader"]["points"]
    if isinstance(worth, bool) or not isinstance(worth, int | float) or not 0 <= worth < 1e6:
        raise ReleaseError(f"{where} ({name}) has points {worth!r}, not a number of at least 0")


def _check_test(cell: Any, name: str, solutions: list[str], where: str) -> None:
    if not name.startswith("test_") or name.removeprefix("test_") not in solutions:
        raise ReleaseError(f"{where} ({name}) is a check cell without a solution cell before it")
    _check_points(cell, name, where)
    if cell.cell_type != "code" or IMPORT_SAFE not in cell.metadata.get("tags", []):
        raise ReleaseError(f"{where} ({name}) must be a code cell tagged {IMPORT_SAFE}")
    try:
        ast.parse(cell.source)
    except SyntaxError as error:
        raise ReleaseError(f"{where} ({name}) is not Python: {error.msg}") from None


def _is_written(meta: Any) -> bool:
    return bool(meta["solution"] and meta["grade"])


def _graded(notebook: Any) -> Iterator[tuple[Any, Any]]:
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            yield cell, cell.metadata["nbgrader"]


def _write_source(assignment: str, root: Path, target: Path) -> Path:
    import nbformat

    text = nbformat.writes(_source_notebook(assignment, root)) + "\n"
    path = target / "build" / "source" / assignment / f"{assignment}.ipynb"
    renew(path, text.encode())
    return path


# ---- the released notebook --------------------------------------------------------------------


def _released_path(assignment: str, root: Path) -> Path:
    return root / "exercises" / assignment / f"{assignment}.ipynb"


def _generate(assignment: str, root: Path, *, register: bool) -> bytes:
    """The bytes of the released notebook.

    nbgrader works in an empty folder: it deletes the old release when it fails, and it would hand
    out any file it found beside the source.
    """
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import SaveCells
    from traitlets.config import Config, PyFileConfigLoader

    config = Config()
    if (root / "nbgrader_config.py").is_file():
        config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    with tempfile.TemporaryDirectory() as folder:
        _write_source(assignment, root, Path(folder))
        config.CourseDirectory.root = folder
        config.CourseDirectory.source_directory = "build/source"
        config.CourseDirectory.release_directory = "exercises"
        coursedir = CourseDirectory(config=config, assignment_id=assignment)
        converter = GenerateAssignment(coursedir=coursedir, config=config)
        errors = _collect_errors(converter)
        if not register:  # what nbgrader's own --no-db does
            converter.no_database = True
            converter.preprocessors = [p for p in converter.preprocessors if p is not SaveCells]
        path = os.environ.get("PATH", "")
        # A new gradebook makes nbgrader call alembic, which lies beside this Python.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), path])
        try:
            converter.start()
        except Exception as error:
            reason = (errors or [str(error) or type(error).__name__])[0].strip().split("\n")[-1]
            raise ReleaseError(f"{assignment}: nbgrader refuses it: {reason}") from error
        finally:
            os.environ["PATH"] = path
        content = _released_path(assignment, Path(folder)).read_bytes()
    _check_no_leak(assignment, root, content)
    return content


def _collect_errors(converter: Any) -> list[str]:
    """Keep nbgrader's log off the terminal, and return the list its errors will be put in."""
    errors: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            errors.append(record.getMessage())

    log = logging.getLogger("autograder.release.nbgrader")
    log.propagate = False
    log.handlers = [Collect(level=logging.ERROR)]
    converter.log = log
    return errors


def _check_no_leak(assignment: str, root: Path, content: bytes) -> None:
    """The last line of defence: nothing that only a solution says may be in the release."""
    import nbformat

    secret: set[str] = set()
    public: set[str] = set()
    for cell in _source_notebook(assignment, root).cells:
        inside = False
        for line in cell.source.split("\n"):
            inside = (inside or BEGIN in line) and END not in line
            (secret if inside else public).add(line.strip())
    released = nbformat.reads(content.decode(), as_version=4)
    lines = {line.strip() for cell in released.cells for line in cell.source.split("\n")}
    leaked = (secret - public) & lines
    if leaked or any(marker in line for line in lines for marker in MARKERS):
        raise ReleaseError(f"{assignment}: the released notebook would hold a solution line")


def _answered(path: Path) -> str | None:
    """Name of the first solution cell of a released notebook that is not its stub any more."""
    import nbformat
    from nbgrader.utils import compute_checksum

    try:
        notebook = nbformat.read(path, as_version=4)
        for cell, meta in _graded(notebook):
            if meta.get("solution") and meta.get("checksum") != compute_checksum(cell):
                return str(meta.get("grade_id"))
    except Exception:  # not a notebook: nobody's answers are lost with it
        return None
    return None


if __name__ == "__main__":
    sys.exit(main())
