"""One submission: read the notebook, run the tests that are left, note what is found."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from .. import forbidden
from ..reading import similar, submission
from ..reading.notebook import one_line
from ..sandbox.family import Family
from ..testing import kernel_reply, plan
from ..testing.compare import Mismatch
from ..testing.suite import HiddenTest, Suite
from ..testing.verdict import (
    LearnerError,
    Outcome,
    Refused,
    Verdict,
    WorkerLost,
    explain_error,
    explain_refused,
)
from ..worker import prints
from . import grader_memory
from .advice import Advisor
from .before_tests import BeforeTests, missing_modules, no_module
from .link import RemoteLink
from .records import (
    Done,
    Judged,
    Lost,
    Noticed,
    Read,
    Record,
    Saw,
    Trouble,
    Unreadable,
)  # fmt: skip
from .result import Unit

READING_SECONDS = 6.0  # of computing, to look through the code; a notebook of ours takes 0.02


class TooLong(BaseException):
    """Not to be caught by `except Exception`."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises TooLong in its body when that has computed for so many seconds."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    # Again and again: Python drops what is raised while it destroys an object.
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def looked_through(suite: Suite, cells: Sequence[submission.Cell]) -> list[forbidden.Finding]:
    """What a person should look at. Code written to be long to read is worth a look, too."""
    try:
        with at_most(READING_SECONDS):
            return forbidden.find(cells, suite.exercises, suite.one_loop)
    except TooLong:
        text = "code that takes too long to look through"
    except Exception:  # a defect of ours: a person looks, and the submission is graded
        text = "code that cannot be looked through"
    return [forbidden.Finding(n, -1, 1, text) for n in suite.exercises]


class OneSubmission:
    """Runs the tests that are left of one unit. What it finds stands in `records`, in order."""

    def __init__(
        self, suite: Suite, unit: Unit, sock: socket.socket, family: Family | None
    ) -> None:
        self.suite, self.unit = suite, unit
        self.records: list[Record] = []
        until = unit.started + suite.budget.on_the_clock(suite.budget.submission_seconds)
        self.link = RemoteLink(sock, suite, until, family)
        self.lines: dict[int, list[str]] = {}
        self.cell_names: dict[int, str | None] = {}
        self.broken: dict[str, str] = {}  # graded name -> the syntax error that hides it
        self.before = BeforeTests([], [], suite.budget)

    def tell(self, record: Record) -> None:
        self.records.append(record)

    def tell_loss(self, loss: WorkerLost, exercise: str) -> None:
        self.tell(Lost(str(loss.verdict), loss.message, exercise, loss.said, loss.starved))

    def run(self) -> None:
        try:
            notebook = self.read()
        except submission.Unreadable as error:
            return self.tell(Unreadable(str(error)))
        cells = [c for c in notebook.cells if self.unit.own_cells or c.origin != "added"]
        self.lines = {c.index: c.source.splitlines() for c in cells}
        self.cell_names = {c.index: c.grade_id for c in cells}
        self.broken = notebook.broken
        if self.suite.kernels:
            self.link.kernels = kernel_reply.jit_functions(c.source for c in cells)
        cells = [c for c in cells if c.readable]
        try:
            # What ends the process is not told again which statement did it.
            records = self.link.start(cells, self.unit.seed, not self.unit.own_cells)
        except WorkerLost as loss:
            return self.tell_loss(loss, "")
        except LearnerError:
            records = []
        self.before = BeforeTests(records, cells, self.suite.budget, self.link.kernels)
        self.tell(Noticed(self.before.notices()))
        for test in self.suite.tests[len(self.unit.outcomes) :]:
            name = test.exercise
            lost = self.unit.lost.get(name, [])
            if len(lost) >= 2:
                text = f"Not run: `{name}` had already ended twice in: {lost[-1]}."
                self.tell(Judged(Outcome(Verdict(lost[-1]), text).as_dict()))
                continue
            self.link.begin_test()
            try:
                self.tell(Judged(self.judge(test).as_dict()))
            except WorkerLost as loss:
                return self.tell_loss(loss, name)
            for operator in sorted(self.link.seen):
                self.tell(Saw(operator, name))
            self.link.seen.clear()
        self.tell(Noticed(self.printed()))
        self.tell(Done(self.launched()))

    def advise(self, assembler: socket.socket) -> None:
        """Instead of `run`: have a GPU's compiler look at the kernels that were launched."""
        notebook = submission.read(Path(self.unit.path), self.suite.released)
        advisor = Advisor(self.suite, notebook, self.link, assembler)
        self.tell(Noticed(advisor.notices(self.unit.launched, self.unit.seed)))

    def launched(self) -> list[dict[str, Any]]:
        """The kernels that the tests launched, for the advice that follows."""
        if not self.suite.advice:
            return []
        self.link.begin_test()
        with contextlib.suppress(WorkerLost, LearnerError):
            reply = self.link.perform("kernels", "signatures", {})
            found = kernel_reply.signatures_of(reply, self.link.kernels or {})
            return [{"kernel": name, **signature} for name, signature in found]
        return []

    def read(self) -> submission.Submission:
        """Read the notebook; the first time, also look for what a person should see."""
        notebook = submission.read(Path(self.unit.path), self.suite.released)
        if not self.unit.outcomes and self.unit.own_cells:
            findings = looked_through(self.suite, notebook.cells)
            code = ""
            with contextlib.suppress(TooLong), at_most(READING_SECONDS):
                code = similar.fingerprint(notebook)
            review = [
                {"exercise": f.exercise, "kind": "suspicious", "line": f.line, "detail": f.detail}
                for f in findings
            ]
            notices = [*notebook.notices, *self.suite.shortcomings]
            self.tell(Read(notebook.sha256, code, notices, review))
        return notebook

    def printed(self) -> list[str]:
        """That the functions printed too much: not how much or where, which inputs may decide."""
        with contextlib.suppress(WorkerLost, LearnerError):
            if self.link.perform("prints", "printed", {}) is True:
                return [
                    f"Your functions printed more than {prints.LIMIT_KIB} KiB while they were "
                    "tested. It cost no points, and nobody reads it: take the prints out."
                ]
        return []

    def judge(self, test: HiddenTest) -> Outcome:
        """Run one test. Raises WorkerLost when the worker is gone."""
        steps = self.suite.plan(test, self.unit.seed)
        try:
            plan.run(steps, self.link, lambda student: test.run(student, self.unit.seed))
        except Mismatch as mismatch:
            told = self.told(test.exercise)
            known = self.suite.recognise(test, self.unit.seed, mismatch.index, mismatch.got, told)
            if known is None:
                return Outcome(Verdict.WRONG, mismatch.message, plain=mismatch.plain)
            return Outcome(Verdict.WRONG, known.message, known.name, known.link)
        except (LearnerError, Refused) as error:
            return self.explain(error)
        except WorkerLost:
            raise
        except pytest.skip.Exception as skip:
            return Outcome(Verdict.SKIPPED, skip.msg)
        except AssertionError as error:
            return Outcome(Verdict.WRONG, str(error).split("\n")[0] or "The test failed.")
        except Exception as error:
            self.tell(Trouble(grader_memory.trouble(error)))
            return Outcome(Verdict.INTERNAL_ERROR, "The test itself failed.")
        return Outcome(Verdict.PASS)

    def told(self, exercise: str) -> list[str]:
        """The mistakes named so far in an exercise, also before a worker was lost."""
        new = [record.outcome for record in self.records if isinstance(record, Judged)]
        pairs = zip(self.suite.tests, [*self.unit.outcomes, *new], strict=False)
        named = [o["misconception"] for test, o in pairs if test.exercise == exercise]
        return [name for name in named if name]

    def unreadable_in(self, line: str) -> str | None:
        """That a name in a line of the learner's stands in a cell that is no Python."""
        for name, why in self.broken.items():
            if re.search(rf"\b{name}\b", line):
                return f"`{name}` is not there: Python cannot read it, {why}."
        return None

    def explain(self, error: LearnerError | Refused) -> Outcome:
        """The outcome of an error. A place that is not in the notebook is not repeated."""
        if error.kind == "NotImplementedError" and error.name in self.broken:
            return Outcome(Verdict.ERROR, f"Python cannot read it: {self.broken[error.name]}.")
        if error.kind == "NotImplementedError" and not error.line:  # there is nothing of this name
            because = self.before.why_missing(error.name)
            if because is not None:
                return Outcome(Verdict.ERROR, because)
        lines = self.lines.get(error.cell, [])
        if not 0 < error.line <= len(lines):
            error.line = 0  # a made-up line number could carry a hidden input out (attack 14)
        line = one_line(lines[error.line - 1], 120) if error.line else None
        if isinstance(error, Refused):
            return explain_refused(error, line, self.cell_names.get(error.cell))
        because = None
        if line and error.kind == "NameError":
            because = self.before.why_undefined(line) or self.unreadable_in(line)
        elif line and error.kind == "ModuleNotFoundError" and (gone := missing_modules(line)):
            because = f"T{no_module(gone)[1:]}"
        return explain_error(error, line, self.cell_names.get(error.cell), because)
