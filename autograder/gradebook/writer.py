"""The one writer of nbgrader's gradebook: whole submissions, by one transaction, one commit.

A result goes in three steps inside one transaction: rows, then the files of autograded/, then the
commit. A crash between two of them leaves submissions that formgrader lists as not graded yet, and
writing the same results again repairs it. Writing the same result twice changes nothing. Several
results may share a transaction: what begins and ends one takes as long as the rows of one.

What a person entered (manual scores, comments, extra credit, extensions) is never touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import api
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import is_locked
from sqlalchemy import select
from sqlalchemy.orm import Session, with_polymorphic
from traitlets.config import Config, PyFileConfigLoader

from .. import student_ids
from ..files import renew
from ..reading import released as handed_out
from ..reading import submission
from ..reports import words
from . import autograded
from .database import Database, GradebookError, Unrecordable
from .learner import Learner, Reader
from .rows import Cell, Known, Submission
from .timestamps import FILE as TIMESTAMP
from .timestamps import HandedIn, handed_in

__all__ = ["GradebookError", "Unrecordable", "Writer", "course", "released_notebook"]

TOGETHER = 6  # results that `add` gathers for one transaction

_ROLES = {"grade": api.GradeCell, "solution": api.SolutionCell, "task": api.TaskCell}


def course(root: Path) -> tuple[CourseDirectory, Config]:
    """nbgrader's view of the course at `root`, and the configuration in its nbgrader_config.py.

    Raises GradebookError when that file cannot be used.
    """
    config = Config()
    path = root / "nbgrader_config.py"
    try:
        if path.is_file():
            config = PyFileConfigLoader(path.name, path=str(root)).load_config()
        directory = CourseDirectory(config=config)
        directory.root = str(root)
    except (Exception, SystemExit) as error:  # the file is a program, and may do anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise GradebookError(f"{path} cannot be used: {reason[:200]}") from error
    return directory, config


def released_notebook(root: Path, assignment: str) -> Path:
    """Where the course at `root` keeps what it handed out. Raises GradebookError as `course`."""
    directory, _ = course(Path(root).resolve())
    release = directory.format_path(directory.release_directory, ".", assignment)
    return Path(release) / f"{assignment}.ipynb"


@dataclass(frozen=True)
class _Entry:
    """What is to be recorded of one submission."""

    student: str
    result: Mapping[str, Any]
    learner: Learner
    notebook: NotebookNode  # the autograded one
    stamp: HandedIn


class Writer:
    """Records submissions of one assignment. Use one per course and process, and close it.

    root: the course folder. db_url: where the gradebook is; by default COURSE_DB_URL, then
    nbgrader_config.py, then gradebook.db in the course folder.
    patience: seconds to go on trying while another program holds the gradebook.
    """

    def __init__(
        self, root: Path, assignment: str, db_url: str | None = None, *, patience: float = 30.0
    ) -> None:
        self.root, self.assignment = Path(root).resolve(), assignment
        self.course, self.config = course(self.root)
        url = db_url or os.environ.get("COURSE_DB_URL") or self.course.db_url
        self.database = Database(url, self.root, patience=patience)
        release = self._folder(self.course.release_directory, ".")
        self.released_path = release / f"{assignment}.ipynb"
        self.released = self._read_released()
        self._reader = Reader(self.released_path)
        self._known: Known | None = None
        self._waiting: list[tuple[Mapping[str, Any], Path | None]] = []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        self._reader.close()
        self.database.close()

    def register(self) -> None:
        """Make sure that the gradebook knows the assignment, its notebook and cells."""
        self.database.transaction(self._ensure_notebook)

    def write(
        self,
        result: Mapping[str, Any],
        notebook_path: Path | None,
        *,
        learner: Learner | None = None,
    ) -> None:
        """Record one submission result (see `engine`) in the gradebook and in autograded/.

        notebook_path: the submitted notebook; None when there was no file that could be one.
        learner: what to show of it; by default it is read from `notebook_path`.
        Raises GradebookError with a one-line reason; then nothing of this submission is recorded.
        """
        self._transaction([self._prepared(result, notebook_path, learner)])

    def add(self, result: Mapping[str, Any], notebook_path: Path | None) -> None:
        """As `write`, but perhaps later, together with others, and by `flush` at the latest.

        Raises GradebookError as `flush`.
        """
        self._waiting.append((result, notebook_path))
        if len(self._waiting) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Record what was added and still waits.

        Raises Unrecordable when all but one, which it names, or more could be recorded; another
        GradebookError when those before the one at fault were.
        """
        waiting, self._waiting = self._waiting, []
        try:
            self._transaction([self._prepared(*one) for one in waiting])
        except GradebookError:
            refused = []
            for one in waiting:
                try:
                    self.write(*one)
                except Unrecordable as error:
                    refused.append(f"{one[0]['student']!a}: {error}")
            if refused:
                raise Unrecordable("; ".join(refused)) from None

    def record(self, result: Mapping[str, Any], notebook_path: Path) -> NotebookNode:
        """As `write`, and give the autograded notebook, which nbgrader stores itself."""
        entry = self._prepared(result, notebook_path)
        self._transaction([entry], put_notebooks=False)
        return entry.notebook

    def _prepared(
        self, result: Mapping[str, Any], path: Path | None, learner: Learner | None = None
    ) -> _Entry:
        student = self._student_id(result)
        if learner is None:
            learner = self._read(path)
        notebook = autograded.build(self.released, learner, result)
        stamp = handed_in(path, self._folder(self.course.submitted_directory, student))
        return _Entry(student, result, learner, notebook, stamp)

    def _read(self, path: Path | None) -> Learner:
        try:
            return self._reader.read(path)
        except OSError as error:
            raise GradebookError(str(error)) from error

    def _transaction(self, entries: Sequence[_Entry], put_notebooks: bool = True) -> None:
        if not entries:
            return

        def transaction(session: Session) -> None:
            connection = session.connection()
            known = self._known
            if known is None or not known.still_holds(connection):
                known = self._known = self._ensure_notebook(session)
            for entry in entries:
                rows = Submission(connection, known, entry.student, entry.stamp.time)
                self._record(rows, entry)
            for entry in entries:
                self._put_files(entry, put_notebooks)

        self.database.transaction(transaction)

    def _put_files(self, entry: _Entry, put_notebook: bool) -> None:
        target = self._folder(self.course.autograded_directory, entry.student)
        mode = 0o664 if self.course.groupshared else 0o444
        if put_notebook:
            renew(target / f"{self.assignment}.ipynb", autograded.dumps(entry.notebook), mode=mode)
        if entry.stamp.text is not None:
            renew(target / TIMESTAMP, entry.stamp.text, mode=mode)

    def _folder(self, step: str, student: str) -> Path:
        return Path(self.course.format_path(step, student, self.assignment))

    # The released notebook and its rows

    def _read_released(self) -> NotebookNode:
        path = self.released_path
        try:
            released = handed_out.read_released(path)
            submission.released(path)
            return released
        except OSError:
            raise GradebookError(f"no released notebook at {path}: run `make exercises`") from None
        except Exception as error:
            reason = str(error).split("\n")[0]
            raise GradebookError(f"the released {path} cannot be used: {reason}") from error

    def _ensure_notebook(self, session: Session) -> Known:
        """Rows for the course, the assignment, its notebook and cells; made where missing."""
        course_id = self.course.course_id or "default_course"
        if session.get(api.Course, course_id) is None:
            session.add(api.Course(id=course_id))
        assignment = session.scalar(select(api.Assignment).filter_by(name=self.assignment))
        if assignment is None:
            assignment = api.Assignment(name=self.assignment, course_id=course_id)
            session.add(assignment)
        session.flush()
        notebook = session.scalar(
            select(api.Notebook).filter_by(name=self.assignment, assignment_id=assignment.id)
        )
        if notebook is None:
            kernel = json.dumps(self.released.metadata.get("kernelspec", {}))
            notebook = api.Notebook(
                name=self.assignment, assignment_id=assignment.id, kernelspec=kernel
            )
            session.add(notebook)
            session.flush()
        cells = self._ensure_cells(session, notebook)
        named = tuple(Cell(row.id, kind, name) for (kind, name), row in cells.items())
        return Known(assignment.id, notebook.id, named)

    def _ensure_cells(
        self, session: Session, notebook: api.Notebook
    ) -> dict[tuple[type, str], api.BaseCell]:
        kinds = with_polymorphic(api.BaseCell, "*")
        rows: Any = session.scalars(select(kinds).where(kinds.notebook_id == notebook.id))
        known = {(type(row), row.name): row for row in rows}
        sources: set[str] = set(
            session.scalars(
                select(api.SourceCell.name).where(api.SourceCell.notebook_id == notebook.id)
            )
        )
        wanted: dict[tuple[type, str], NotebookNode] = {}
        for cell in self.released.cells:
            meta = cell.metadata.get("nbgrader", {})
            for role, kind in _ROLES.items():
                if meta.get(role):
                    wanted[kind, meta["grade_id"]] = cell
            named = any(meta.get(role) for role in _ROLES) or is_locked(cell)
            if named and meta["grade_id"] not in sources:
                session.add(_source_cell(cell, notebook.id))
        self._drop_stale(session, notebook, {k: v for k, v in known.items() if k not in wanted})
        for (kind, name), cell in wanted.items():
            row = known.get((kind, name))
            if row is None:
                row = known[kind, name] = kind(name=name, notebook_id=notebook.id)
                session.add(row)
            if kind is not api.SolutionCell:
                row.cell_type = cell.cell_type
                row.max_score = float(cell.metadata.nbgrader["points"])
        session.flush()
        return {key: known[key] for key in wanted}

    def _drop_stale(
        self, session: Session, notebook: api.Notebook, stale: dict[tuple[type, str], api.BaseCell]
    ) -> None:
        """Forget cells that the released notebook no longer has, unless they hold grades."""
        if not stale:
            return
        ids = [row.id for row in stale.values()]
        for model in (api.Grade, api.Comment):
            if session.scalar(select(model.id).where(model.cell_id.in_(ids)).limit(1)):
                names = ", ".join(sorted({name for _, name in stale}))
                raise GradebookError(
                    f"the gradebook has grades for cells that the released {self.assignment} no "
                    f"longer has ({names}): back the gradebook up, run "
                    f"`nbgrader db assignment remove {self.assignment} --force`, grade again"
                )
        for row in stale.values():
            session.delete(row)

    # The rows of one submission

    def _student_id(self, result: Mapping[str, Any]) -> str:
        name = str(result["student"])
        fault = student_ids.fault(name)
        if fault is not None:
            raise Unrecordable(f"{name!a} cannot be a student id in nbgrader: {fault}")
        return name

    def _scores(self, result: Mapping[str, Any]) -> dict[str, float]:
        """Score by grade_id of the test cell. Empty for an ungraded submission, never zeros."""
        if result["status"] != "graded":
            return {}
        points = handed_out.released_points(self.released)
        scores = {}
        for exercise in result["exercises"]:
            cell = handed_out.TEST_PREFIX + exercise["name"]
            if points.get(cell) != float(exercise["max_score"]):
                raise GradebookError(
                    f"the suite gives {exercise['max_score']:g} points for {exercise['name']}, the "
                    f"cell {cell} of the released notebook {points.get(cell, 'is missing')}"
                )
            scores[cell] = float(exercise["score"])
        return scores

    def _record(self, rows: Submission, entry: _Entry) -> None:
        total = self._grades(rows, entry.result, entry.learner)
        news = self._comments(rows, entry.result, entry.learner)
        # Only when something changed: a person who took the flag away is not asked again.
        flag = news and bool(entry.result["review"])
        penalty = self._late_penalty(entry.student, entry.stamp.time, rows.due, total)
        rows.finish(flag, penalty)

    def _grades(self, rows: Submission, result: Mapping[str, Any], learner: Learner) -> float:
        """Set the automatic scores, and give the score of the notebook as nbgrader counts it."""
        assert self._known is not None  # a submission has its rows by now
        scores, total, changed = self._scores(result), 0.0, []
        written = {cell.name for cell in self._known.cells if cell.kind is api.SolutionCell}
        for cell, grade in rows.grades():
            auto = scores.get(cell.name)
            if (
                result["status"] == "graded"
                and cell.name in written
                and self._unanswered(cell.name, learner)
            ):
                auto = 0.0  # a written answer that nobody wrote, as nbgrader scores it
            needs = grade["needs_manual_grade"]
            if grade["manual_score"] is None:
                needs = auto is None
            elif grade["auto_score"] != auto:
                # nbgrader asks for another look at every regrade; a look is due when it differs.
                needs = True
            wanted = grade | {"auto_score": auto, "needs_manual_grade": needs}
            if wanted != grade:
                changed.append(wanted)
            score = grade["manual_score"] if grade["manual_score"] is not None else auto
            if score is not None:
                total += score + (grade["extra_credit"] or 0.0)
        rows.put_grades(changed)
        return total

    def _comments(self, rows: Submission, result: Mapping[str, Any], learner: Learner) -> bool:
        """Set the automatic comments of solution cells, and tell whether any of them changed."""
        exercises = {e["name"]: e for e in result["exercises"]}
        changed, news = [], False
        for cell, comment in rows.comments():
            auto = None
            if cell.name in exercises:
                lines = words.exercise_text(exercises[cell.name])
                auto = words.literal(lines)
            elif result["status"] != "graded":
                reason = words.plain(result.get("reason") or "no reason was recorded", 500)
                auto = words.literal(f"Not graded yet: {reason}")
            elif cell.kind is api.SolutionCell and self._unanswered(cell.name, learner):
                auto = autograded.NO_RESPONSE
            news = news or comment["auto_comment"] != auto
            if comment["id"] is None or comment["auto_comment"] != auto:
                changed.append(comment | {"auto_comment": auto})
        rows.put_comments(changed)
        return news

    def _unanswered(self, name: str, learner: Learner) -> bool:
        cell = next(c for c in self.released.cells if handed_out.grade_id(c) == name)
        if handed_out.is_written(cell) and learner.texts:
            return False  # the answer may stand in another cell: a person looks
        return learner.sources.get(name, cell.source).strip() == cell.source.strip()

    def _late_penalty(
        self, student: str, when: datetime | None, due: datetime | None, score: float
    ) -> float | None:
        """The penalty nbgrader's own plugin (or the course's) gives, within 0 and the score."""
        late_by = (when - due).total_seconds() if when and due else 0.0
        if late_by <= 0:
            return None
        late = AssignLatePenalties(config=self.config)
        late.init_plugin()
        penalty = late.plugin_inst.late_submission_penalty(student, score, late_by)
        return None if penalty is None else min(max(0.0, float(penalty)), score)


def _source_cell(cell: NotebookNode, notebook_id: str) -> api.SourceCell:
    return api.SourceCell(
        name=cell.metadata.nbgrader["grade_id"],
        notebook_id=notebook_id,
        cell_type=cell.cell_type,
        locked=is_locked(cell),
        source=cell.source,
        checksum=cell.metadata.nbgrader.get("checksum"),
    )
