"""The rows of one submission in nbgrader's tables, as plain values.

nbgrader's objects give the same rows; loading and tracking them costs more than all the rest of
writing a submission.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nbgrader import api
from sqlalchemy import Connection, Table, and_, bindparam, insert, select, update

_student, _course_work, _handed_in, _notebook, _grade, _comment, _cell = (
    model.__table__
    for model in (
        api.Student, api.Assignment, api.SubmittedAssignment, api.SubmittedNotebook, api.Grade,
        api.Comment, api.BaseCell,
    )
)  # fmt: skip

_CELLS = select(_cell.c.id).where(_cell.c.notebook_id == bindparam("notebook"))
_FIND = (
    select(
        _student.c.id.label("student"), _handed_in.c.id.label("handed_in"), _handed_in.c.timestamp,
        _handed_in.c.extension, _course_work.c.duedate, _notebook.c.id.label("notebook"),
        _notebook.c.flagged, _notebook.c.late_submission_penalty,
    )
    .select_from(
        _course_work.outerjoin(_student, _student.c.id == bindparam("name"))
        .outerjoin(
            _handed_in,
            and_(
                _handed_in.c.assignment_id == _course_work.c.id,
                _handed_in.c.student_id == bindparam("name"),
            ),
        )
        .outerjoin(
            _notebook,
            and_(
                _notebook.c.assignment_id == _handed_in.c.id,
                _notebook.c.notebook_id == bindparam("notebook"),
            ),
        )
    )
    .where(_course_work.c.id == bindparam("assignment"))
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A graded, solution or task cell of the assignment. kind: the class nbgrader has for it."""

    id: str
    kind: type
    name: str


@dataclass(frozen=True)
class Known:
    """What the gradebook holds for every submission of an assignment."""

    assignment: str  # ids
    notebook: str
    cells: tuple[Cell, ...]

    def still_holds(self, connection: Connection) -> bool:
        """Whether the rows are there, as far as one quick look tells."""
        ids: set[str] = set(connection.scalars(_CELLS, {"notebook": self.notebook}))
        return ids == {cell.id for cell in self.cells}


class Submission:
    """The rows of one student's submission, made where missing.

    when: the time of handing in.
    """

    def __init__(
        self, connection: Connection, known: Known, name: str, when: datetime | None
    ) -> None:
        self._connection, self._known, self._when = connection, known, when
        values = {"name": name, "assignment": known.assignment, "notebook": known.notebook}
        found = connection.execute(_FIND, values).one()._asdict()
        self._is_new = found["notebook"] is None  # no cell has a grade or comment yet
        if found["student"] is None:
            connection.execute(insert(_student), {"id": name})
        if found["handed_in"] is None:
            found |= {"handed_in": api.new_uuid(), "timestamp": when}
            row = {"id": found["handed_in"], "student_id": name, "assignment_id": known.assignment}
            connection.execute(insert(_handed_in), row | {"timestamp": when})
        if found["notebook"] is None:
            found |= {"notebook": api.new_uuid(), "flagged": False}
            row = {"id": found["notebook"], "assignment_id": found["handed_in"]}
            connection.execute(
                insert(_notebook), row | {"notebook_id": known.notebook, "flagged": False}
            )
        self._found = found

    @property
    def due(self) -> datetime | None:
        """When it is due, this student's extension included."""
        due, extension = self._found["duedate"], self._found["extension"]
        return due if due is None else due + (extension or timedelta())

    def finish(self, flag: bool, penalty: float | None) -> None:
        """Set the time of handing in and the penalty; put a flag up, never down."""
        found = self._found
        if found["timestamp"] != self._when:
            self._set(_handed_in, found["handed_in"], timestamp=self._when)
        flagged = found["flagged"] or flag
        if (found["flagged"], found["late_submission_penalty"]) != (flagged, penalty):
            values = {"flagged": flagged, "late_submission_penalty": penalty}
            self._set(_notebook, found["notebook"], **values)

    def grades(self) -> list[tuple[Cell, dict[str, Any]]]:
        """Each graded cell with its row."""
        return self._rows(_grade, api.SolutionCell)

    def comments(self) -> list[tuple[Cell, dict[str, Any]]]:
        """Each cell that takes a comment, with its row."""
        return self._rows(_comment, api.GradeCell)

    def put_grades(self, rows: Iterable[dict[str, Any]]) -> None:
        self._put(_grade, rows)

    def put_comments(self, rows: Iterable[dict[str, Any]]) -> None:
        self._put(_comment, rows)

    def _rows(self, table: Table, other: type) -> list[tuple[Cell, dict[str, Any]]]:
        cells = [cell for cell in self._known.cells if cell.kind is not other]
        # By cell first: that is how the table is indexed, so time does not grow with the class.
        mine = table.c.cell_id.in_([cell.id for cell in cells])
        query = select(table).where(mine, table.c.notebook_id == self._found["notebook"])
        found = () if self._is_new else self._connection.execute(query).mappings()
        rows = {row["cell_id"]: dict(row) for row in found}
        return [(cell, rows.get(cell.id) or self._new(table, cell)) for cell in cells]

    def _new(self, table: Table, cell: Cell) -> dict[str, Any]:
        empty = dict.fromkeys((column.name for column in table.columns), None)
        return empty | {"cell_id": cell.id, "notebook_id": self._found["notebook"]}

    def _put(self, table: Table, rows: Iterable[dict[str, Any]]) -> None:
        """Write changed rows; those without an id are new."""
        rows = list(rows)
        new = [row | {"id": api.new_uuid()} for row in rows if row["id"] is None]
        if new:
            self._connection.execute(insert(table), new)
        for row in rows:
            if row["id"] is not None:
                self._set(table, row["id"], **row)

    def _set(self, table: Table, row_id: str, **values: Any) -> None:
        self._connection.execute(update(table).where(table.c.id == row_id).values(values))
