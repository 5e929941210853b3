"""The submissions that the suite runner has graded at a time: each a worker and a grader.

A grader is a fork of this process (`grader.Grader`), which talks to a worker in the sandbox and
reports one outcome per test. The parent only starts, watches and ends both, so a submission that
breaks its grader costs itself alone.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..sandbox import Limits, SandboxError
from ..sandbox.forkserver import ForkServer, WorkerProcess
from ..testing.suite import Suite
from ..testing.verdict import Outcome, Verdict
from .advice import SECONDS
from .grader import LIFETIME, Grader
from .records import (
    Done,
    End,
    Judged,
    Lost,
    Noticed,
    Read,
    Record,
    Saw,
    Trouble,
    Unreadable,
)  # fmt: skip
from .result import Unit, assemble

# Signals that a fault of the code ends in. Another may be sent on purpose, and say something.
_FAULTS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
GRACE = 10.0  # seconds a child may take beyond the submission's own time


class _Grading:
    """One unit being graded: its worker, and the grader that runs the tests."""

    def __init__(self, suite: Suite, server: ForkServer, unit: Unit, grader: Grader) -> None:
        self.suite, self.unit, self.grader = suite, unit, grader
        unit.started = unit.started or time.monotonic()
        budget = suite.budget
        clock = budget.on_the_clock(budget.submission_seconds)
        limits = Limits(
            cpu_seconds=max(1.0, budget.submission_seconds - unit.used),
            wall_seconds=clock + GRACE,
            memory_mib=budget.memory_mib,
        )
        # Process 1 of a namespace cannot kill itself; elsewhere a learner's code may have done it.
        self.killed_from_outside = "pid-namespace" in server.protections
        self.lost: Lost | None = None
        self.done = False  # every test has its outcome
        self.ended = False  # the grader has gone on
        self.deadline = unit.started + clock + GRACE
        self.worker: WorkerProcess = server.spawn(limits)
        grader.begin(unit, self.worker)

    def read(self) -> bool:
        """Take in what the grader wrote. False when there is no more to come."""
        records = self.grader.records()
        for record in records or []:
            self.take(record)
        return records is not None and not self.ended

    def take(self, record: Record) -> None:
        unit = self.unit
        match record:
            case Judged(outcome):
                unit.outcomes.append(outcome)
            case Lost():
                self.lost = record
            case Unreadable(reason):
                unit.reason, self.done = reason, True
            case Trouble(text):
                unit.trouble = text
            case Saw(operator, exercise):
                self.review(
                    {"exercise": exercise, "kind": "operator-seen", "line": 0, "detail": operator}
                )
            case Done(launched):
                self.done, unit.launched = True, launched
            case End():
                self.ended = True
            case Read():
                unit.sha256, unit.code = record.sha256, record.code
                self.notice(record.notices)
                for entry in record.review:
                    self.review(entry)
            case Noticed(notices):
                self.notice(notices)

    def notice(self, notices: list[str]) -> None:
        """Keep what the learner is told beside the tests; a second try tells it again."""
        self.unit.notices += [n for n in notices if n not in self.unit.notices]

    def review(self, entry: dict[str, Any]) -> None:
        """Put an entry before a person."""
        if entry not in self.unit.review:  # a second try tells it again
            self.unit.review.append(entry)

    def end(self) -> bool:
        """End the worker. True when the unit is finished, False when more is to be run."""
        died = self.lost is not None and _has_ended(self.worker.pid)
        self.worker.sock.close()
        self.worker.kill()
        unit = self.unit
        unit.used += self.worker.exit().cpu_seconds
        if self.done:
            broken = any(o["verdict"] == Verdict.INTERNAL_ERROR for o in unit.outcomes)
            return True if not broken or unit.retried else self.retry()
        if self.lost is not None:
            return self.settle_loss(self.lost, died)
        # The grader itself failed, died or ran over: an internal error, tried once more.
        unit.trouble = unit.trouble or "the grading process ended early"
        unit.reason = None
        if unit.retried:
            unit.reason = "internal error: " + unit.trouble.strip().splitlines()[-1]
            return True
        return self.retry()

    def retry(self) -> bool:
        """Have the unit run once more from its start. Returns False."""
        self.unit.outcomes.clear()
        self.unit.lost.clear()
        self.unit.retried = True
        self.start_over()
        return False

    def start_over(self) -> None:
        """Give the unit all of its time again, from when it begins."""
        self.unit.started = self.unit.used = 0.0

    def settle_loss(self, lost: Lost, died: bool) -> bool:
        """Give the test that lost its worker its verdict, and go on after it.

        died: the worker had ended before the grader ended it.
        """
        unit = self.unit
        outcome = _loss(lost, self.worker)
        crashed = died and outcome.verdict == Verdict.CRASHED
        by_signal = crashed and self.worker.exit().signal
        if by_signal == signal.SIGKILL and not unit.retried:
            # No limit explains it: the machine was short of memory, or a person did it.
            return self.retry()
        if by_signal == signal.SIGKILL and self.killed_from_outside:
            unit.reason = "internal error: something killed its worker twice"
            return True
        if lost.starved and not unit.alone:
            unit.alone = True  # and stays so: no neighbour shall cost it a point
            self.start_over()
            return False
        budget = self.suite.budget
        clock = budget.on_the_clock(budget.submission_seconds)
        over = unit.used >= budget.submission_seconds or time.monotonic() > unit.started + clock
        if not lost.exercise:
            if unit.own_cells and not unit.outcomes and not over:
                # Perhaps what is at fault is no answer: try with nothing but what defines them.
                unit.own_cells = False
                unit.notices.append(
                    "Your own extra cells were left out, and so were the lines of your answers "
                    "that define nothing, because running the whole notebook ended in: "
                    f"{outcome.verdict}."
                )
                return False
            over = True
        else:
            unit.outcomes.append(outcome.as_dict())
            unit.lost.setdefault(lost.exercise, []).append(str(outcome.verdict))
        if over:
            left = len(self.suite.tests) - len(unit.outcomes)
            unit.outcomes += [outcome.as_dict()] * left
        return len(unit.outcomes) == len(self.suite.tests)


class _Advising:
    """A unit whose tests are done, while a GPU's compiler looks at its kernels: for no points.

    Whatever fails, the result stands without advice.
    """

    def __init__(self, suite: Suite, server: ForkServer, unit: Unit, grader: Grader) -> None:
        self.unit, self.grader, self.ended = unit, grader, False
        clock = suite.budget.on_the_clock(SECONDS)
        self.deadline = time.monotonic() + clock + GRACE
        limits = Limits(cpu_seconds=SECONDS, wall_seconds=clock + GRACE)
        self.workers = [server.spawn(limits)]
        self.workers.append(server.spawn(replace(limits, assembler=True)))
        grader.begin(unit, *self.workers)

    def read(self) -> bool:
        records = self.grader.records()
        for record in records or []:
            if isinstance(record, Noticed):
                self.unit.notices += record.notices
            self.ended |= isinstance(record, End)
        return records is not None and not self.ended

    def end(self) -> bool:
        for worker in self.workers:
            worker.sock.close()
            worker.kill()
        return True


_EXITING = 4  # a flag of the kernel's (PF_EXITING): set before a process's sockets are closed


def _has_ended(pid: int) -> bool:
    """Whether a process has ended by itself, or is about to. Needs /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return os.path.isdir("/proc/self")
    return fields[0] in "ZX" or bool(int(fields[6]) & _EXITING)


def _loss(lost: Lost, worker: WorkerProcess) -> Outcome:
    """The verdict for a worker that is gone, by how it ended."""
    if lost.said:
        return Outcome(Verdict(lost.verdict), lost.message)
    ended = worker.exit()
    name = lost.exercise or "your notebook"
    subject = f"`{lost.exercise}`" if lost.exercise else "Running your notebook"
    if ended.kind == "memory":
        return Outcome(Verdict.MEMORY, f"{subject} used more memory than the limit.")
    if ended.kind == "scratch":
        return Outcome(Verdict.OUTPUT_LIMIT, f"{subject} wrote more to files than the limit.")
    if ended.kind == "wall":
        return Outcome(Verdict.TIMEOUT, f"{subject} ran longer than the limit.")
    if ended.kind == "cpu":
        return Outcome(Verdict.TIMEOUT, f"{subject} used more CPU time than the limit.")
    if ended.kind == "signal":
        by = f" (signal {ended.signal})" if ended.signal in _FAULTS else ""
        return Outcome(Verdict.CRASHED, f"The Python process died{by} in {name}.")
    return Outcome(
        Verdict.CRASHED,
        f"The Python process ended itself in {name}. Does the code call exit?",
    )


class Slots:
    """Grades the units that come through the descriptor `units`, `jobs` at a time, until it closes.

    What is not finished then is given up: nobody is there to read its result.
    """

    def __init__(
        self,
        suite: Suite,
        server: ForkServer,
        jobs: int,
        write: Callable[[dict[str, Any]], None],
        units: int,
    ) -> None:
        self.suite, self.server, self.jobs, self.write = suite, server, jobs, write
        self.units = units
        self.selector = selectors.DefaultSelector()
        self.waiting: list[Unit] = []
        self.running: list[_Grading | _Advising] = []
        self.idle: list[Grader] = []
        self.compiler: ForkServer | None = None  # another server: this one interprets kernels

    def serve(self) -> None:
        try:
            self._serve()
        finally:
            for grader in [*self.idle, *(grading.grader for grading in self.running)]:
                grader.kill()
            if self.compiler:
                self.compiler.close()

    def _serve(self) -> None:
        self.selector.register(self.units, selectors.EVENT_READ, "input")
        open_input, pending = True, b""
        while open_input:
            while self.may_begin():
                self.begin(self.waiting.pop(0))
            for key, _ in self.selector.select(timeout=0.5):
                if key.data == "input":
                    data = os.read(self.units, 1 << 16)
                    open_input = bool(data)
                    *lines, pending = (pending + data).split(b"\n")
                    self.waiting += [Unit(**json.loads(line)) for line in lines]
                elif not key.data.read():
                    self.finish(key.data)
            for grading in [g for g in self.running if time.monotonic() > g.deadline]:
                self.finish(grading)

    def may_begin(self) -> bool:
        """Whether the first of those that wait may. One that is to be alone waits for the others
        to finish, and they wait for it."""
        if not self.waiting or len(self.running) >= self.jobs:
            return False
        alone = self.waiting[0].alone or any(grading.unit.alone for grading in self.running)
        return not (alone and self.running)

    def begin(self, unit: Unit) -> None:
        if self.suite.advice and self.compiler is None:  # loads while the first are graded
            weak = "pid-namespace" not in self.server.protections
            self.compiler = ForkServer(weak=weak, preload=("torch", "triton"), compiles=True)
        grader = self.idle.pop() if self.idle else Grader(self.suite)
        self.watch(_Grading(self.suite, self.server, unit, grader))

    def watch(self, grading: _Grading | _Advising) -> None:
        self.selector.register(grading.grader.sock, selectors.EVENT_READ, grading)
        self.running.append(grading)

    def advise(self, unit: Unit) -> bool:
        """Have the kernels of a graded unit looked at. False when there is nothing to look at."""
        if unit.advised or unit.reason or not unit.launched or self.compiler is None:
            return False
        unit.advised = True
        grader = self.idle.pop() if self.idle else Grader(self.suite)
        try:
            self.watch(_Advising(self.suite, self.compiler, unit, grader))
        except SandboxError as error:
            print(f"autograder: no advice on kernels: {error}", file=sys.stderr)
            grader.kill()
            return False
        return True

    def finish(self, grading: _Grading | _Advising) -> None:
        self.selector.unregister(grading.grader.sock)
        self.running.remove(grading)
        if grading.ended and grading.grader.graded < LIFETIME:
            self.idle.append(grading.grader)
        else:
            grading.grader.kill()
        if not grading.end():
            self.waiting.insert(0, grading.unit)
            return
        unit = grading.unit
        if self.advise(unit):
            return
        if unit.trouble:
            print(unit.trouble, file=sys.stderr, flush=True)
        self.write({"id": unit.id, "result": assemble(self.suite, unit)})
        for test, outcome in zip(self.suite.tests, unit.outcomes, strict=False):
            if outcome["verdict"] == Verdict.WRONG:
                self.suite.replays(test, unit.seed)  # once here, for graders forked later
