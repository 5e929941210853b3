"""What happens with the results of a class while it is graded: progress, gradebook, reports."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from ..course import ROOT
from ..gradebook.bookkeeper import Bookkeeper


class ClassRun:
    """Takes the results of one run of `engine.grade`, and writes what people read.

    course: nbgrader's folder. results: the folder of this assignment's results.
    count: how many submissions there are. stream: where progress is told.
    gradebook: whether nbgrader's gets the scores. copy: where results.json is wanted as well.
    """

    def __init__(
        self, assignment: str, course: Path, results: Path, count: int, stream: TextIO, *,
        gradebook: bool = True, copy: Path | None = None,
    ) -> None:  # fmt: skip
        self._assignment, self._course, self._results = assignment, course, results
        self._copy = copy
        self._progress = Progress(count, stream)
        self._gradebook = Bookkeeper(course if gradebook else None, assignment)

    @property
    def troubles(self) -> list[str]:
        """What kept results from being recorded, a line each."""
        return self._gradebook.troubles

    def add(self, result: dict[str, Any], path: Path | None) -> None:
        """One submission has its result. path: its notebook."""
        self._gradebook.add(result, path)
        self._progress.step(result["status"] == "graded")

    def finish(self, graded: dict[str, Any]) -> None:
        """All have: record what waits, and write the reports. graded: the class's results."""
        from ..reports import report  # late: it is not needed for the first grade

        self._gradebook.flush()
        self._progress.close()
        report.write_report(graded, self._results, self._handed_out())
        self._remove_old_pages(report.student_pages(graded, self._results))
        if self._copy:
            self._copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._results / "results.json", self._copy)

    def _handed_out(self) -> Path | None:
        """The notebook that the course released, or the suite's own where the course has none."""
        from ..gradebook.writer import released_notebook
        from ..reading.released import read_released

        def of_the_course() -> Path:
            return released_notebook(self._course, self._assignment)

        def of_the_suite() -> Path:
            return ROOT / "exercises" / self._assignment / f"{self._assignment}.ipynb"

        for place in (of_the_course, of_the_suite):
            with contextlib.suppress(Exception):  # what is wrong with it, the gradebook says
                path = place()
                read_released(path)
                return path
        return None

    def _remove_old_pages(self, pages: Iterable[tuple[str, Path]]) -> None:
        """Remove those of students who are no longer there, and what a killed run left of one.

        `feedback` would hand them out. The results themselves stay in units/ and in the gradebook.
        pages: the student and the path of each page that is current.
        """
        current = {page.stem for _, page in pages}
        for name, suffix in (("feedback", ".html"), ("gradescope", ".json")):
            for path in (self._results / name).iterdir():
                old = path.suffix == suffix and path.stem not in current
                if old or path.name.startswith("."):
                    path.unlink()
        for path in self._results.glob(".*.*"):  # not .lock
            path.unlink()


class Progress:
    """Count, failures and time left: a bar on a terminal, plain lines in a log."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total, self._stream = total, stream
        self._done = self._failed = 0
        self._started = time.monotonic()
        self._bar = stream.isatty()
        self._told = 0.0

    def step(self, ok: bool) -> None:
        self._done += 1
        self._failed += not ok
        now = time.monotonic()
        if self._bar:
            self._stream.write("\r\x1b[K" + self._line(now))
            self._stream.flush()
        elif now - self._told >= 10 or self._done == self._total:
            self._told = now
            print(self._line(now), file=self._stream, flush=True)

    def _line(self, now: float) -> str:
        left = (now - self._started) / self._done * (self._total - self._done)
        text = f"{self._done}/{self._total} graded, {self._failed} could not be"
        if self._bar:
            filled = 24 * self._done // self._total
            text = f"[{'#' * filled}{'.' * (24 - filled)}] {text}"
        return f"{text}, about {left:.0f} s left" if self._done < self._total else text

    def close(self) -> None:
        if self._bar:
            self._stream.write("\n")
