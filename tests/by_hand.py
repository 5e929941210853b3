"""What becomes of a cell that does not do what its exercise asks to do by hand.

A worker like those of the sandbox, but for its walls, runs the given cells of the released notebook
and one cell more, in a process of its own, and is asked to call what that cell defines.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from in_process import load

from autograder import forbidden
from autograder.grading.link import RemoteLink
from autograder.reading.submission import Cell
from autograder.testing.verdict import LearnerError, Refused, WorkerLost
from autograder.worker import deny, serve

SECONDS = 120.0  # some of these cells wait for ever


@dataclass(frozen=True)
class Outcome:
    """What a call gave: `refused` and `error` are None where it gave a value.

    refused: what was reached and may not be. error: another exception's type, or what became of
    the worker. shown: what a person is shown of it.
    """

    value: Any = None
    refused: str | None = None
    error: str | None = None
    shown: list[str] = field(default_factory=list)

    @property
    def quiet(self) -> bool:
        """Whether nobody minded."""
        return not (self.refused or self.error or self.shown)

    @property
    def noticed(self) -> bool:
        """Whether it earned nothing because of what it reached, or a person sees its line."""
        return self.refused is not None or (self.error is None and self.shown != [])


def outcome(assignment: str, exercise: str, source: str, *args: Any) -> Outcome:
    """What becomes of `exercise(*args)`, with `source` as its cell."""
    (found,) = outcomes(assignment, exercise, source, [args])
    return found


def outcomes(
    assignment: str, exercise: str, source: str, calls: Sequence[Sequence[Any]]
) -> list[Outcome]:
    """As `outcome`, one call after another by the same worker."""
    suite = load(assignment)
    deny.prepare(frozenset().union(*suite.by_hand.values()))
    own = Cell(0, "solution", exercise, source)
    shown = [f.detail for f in forbidden.find([own], suite.exercises, suite.one_loop)]
    with _worker() as sock:
        link = RemoteLink(sock, suite, time.monotonic() + SECONDS)
        link.start([*_given(assignment), own], seed=1)
        link.begin_test()
        return [_called(link, exercise, args, shown) for args in calls]


def _called(link: RemoteLink, name: str, args: Sequence[Any], shown: list[str]) -> Outcome:
    said: dict[str, Any] = {}
    link.seen.clear()
    request = {"name": name, "args": list(args), "kwargs": {}}
    try:
        said["value"] = link.perform(name, "call", request)
    except Refused as refused:
        said["refused"] = refused.what
    except LearnerError as error:
        said["error"] = error.kind
    except WorkerLost as lost:
        said["error"] = str(lost.verdict)
    return Outcome(**said, shown=[*shown, *sorted(link.seen)])


@cache
def _given(assignment: str) -> list[Cell]:
    released = load(assignment).released
    return [
        Cell(-1 - number, "given", None, cell.source)
        for number, cell in enumerate(released.cells)
        if cell.kind == "given"
    ]


@contextlib.contextmanager
def _worker() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            ours.close()
            serve.main(theirs)
        os._exit(0)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
        os.waitpid(pid, 0)
