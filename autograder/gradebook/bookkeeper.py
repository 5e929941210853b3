"""Results on their way into nbgrader's gradebook, which may be late, locked or full."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import student_ids
from ..errors import EngineError
from ..reading.notebook import one_line


class Bookkeeper:
    """Records results in the gradebook of a course. It never ends a run: what keeps a result from
    being recorded is told in `troubles`, and the report is written all the same.

    The gradebook is opened with the second result: loading nbgrader takes a second, and the first
    grade is there by then.
    course: nbgrader's folder; None where no gradebook is wanted.
    """

    def __init__(self, course: Path | None, assignment: str) -> None:
        self._course, self._assignment = course, assignment
        self._wanted = course is not None
        self._writer: Any = None
        self._first: list[tuple[dict[str, Any], Path | None]] = []
        self.troubles: list[str] = []  # one line each

    def add(self, result: dict[str, Any], path: Path | None) -> None:
        """Record a result, now or with the next ones."""
        if student_ids.fault(result["student"]):
            return  # its row of the report says so
        if self._first:
            self._try(lambda: self._open().add(result, path))
        else:
            self._first.append((result, path))

    def flush(self) -> None:
        """Record what was added and still waits."""
        if self._first:
            self._try(lambda: self._open().flush())

    def _try(self, action: Callable[[], None]) -> None:
        if not self._wanted:
            return
        try:
            action()
        except Exception as error:  # of nbgrader, a driver or a plugin of the course, too
            told = isinstance(error, EngineError)
            reason = str(error) if told else f"{type(error).__name__}: {error}"
            self.troubles.append(f"the gradebook is not complete: {one_line(reason, 400)}")
            # Of what stops all, once is enough: a lock is waited for long.
            self._wanted = getattr(error, "of_one_submission", False)

    def _open(self) -> Any:
        if self._writer is None:
            assert self._course is not None  # else no gradebook is wanted
            gc.disable()  # imports leave little to collect, and to look for it takes long
            try:
                from .writer import Writer

                self._writer = Writer(self._course, self._assignment)
            finally:
                gc.freeze()
                gc.enable()
            self._writer.add(*self._first[0])
        return self._writer
