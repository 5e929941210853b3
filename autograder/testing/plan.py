"""Hidden tests worked out ahead: what one asks and expects, once for all submissions.

A test's inputs, and what it expects of each reply, depend on the seed alone. So a test is run once
with replies that are not known yet (`later`). What it asked and expected is its plan, to be
followed with every submission. A test that asks or expects something else after one reply than
after another has no plan, and is run itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
import torch

from ..worker import protocol
from .compare import planning, recording
from .later import Later, NotYet, Replies, once_known, unknown
from .student import Link, Student
from .verdict import LearnerError


@dataclass(frozen=True)
class Call:
    """A question to the learner's code, ready to be sent."""

    name: str
    frame: protocol.Frame
    shapes: tuple[tuple[int, ...], ...] = ()  # of the tensors among its arguments


@dataclass(frozen=True)
class Judgement:
    """A call of `expect`, or of a function that leads to some, with replies among the arguments."""

    function: Callable[..., None]
    args: Callable[[Replies], tuple]
    kwargs: Callable[[Replies], dict[str, Any]]


Plan = list[Call | Judgement]


class _Planner:
    """The link of a student who only takes notes."""

    def __init__(self, frame: Callable[[str, str, Mapping[str, Any]], protocol.Frame]) -> None:
        self.frame = frame
        self.steps: Plan = []
        self.calls = 0

    def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
        self.steps.append(Call(name, self.frame(name, op, request), shapes_of(request)))
        number = self.calls
        self.calls += 1
        return Later(lambda replies: replies[number])

    def judge(self, function: Callable[..., None], args: tuple, kwargs: dict[str, Any]) -> None:
        if not (unknown(args) or unknown(kwargs)):
            with planning(None):
                function(*args, **kwargs)  # raises where only an error of the learner's is right
        self.steps.append(Judgement(function, once_known(args), once_known(kwargs)))


def make(
    run: Callable[[Student], None],
    frame: Callable[[str, str, Mapping[str, Any]], protocol.Frame],
) -> Plan | None:
    """The plan of a test, or None when it has to know its replies.

    run: runs the test on a student.
    frame: the frame of a question, by name, op and request.
    """
    planner = _Planner(frame)
    try:
        with planning(planner.judge):
            run(Student(planner))
    except (NotYet, pytest.skip.Exception, Exception):  # the test itself shall raise it
        return None
    return planner.steps


class AskedLink(Link, Protocol):
    """The learner's code, for a plan and for a test."""

    def asking(self, calls: Sequence[Call]) -> contextlib.AbstractContextManager[None]:
        """In its body these questions are asked, in this order, or the first of them."""

    def ask(self, call: Call) -> Any:
        """The reply to a question of a plan."""


def run(steps: Plan | None, link: AskedLink, test: Callable[[Student], None]) -> None:
    """Judge by a plan. Where there is none, or it ends in an error of the learner's, by the test.

    A test may expect an error, and a plan cannot. Raises what the link and `test` raise.
    """
    failed: LearnerError | None = None
    if steps is not None:
        try:
            calls = [step for step in steps if isinstance(step, Call)]
            with recording(judging=True), link.asking(calls):
                return _follow(steps, link.ask)
        except LearnerError as error:
            failed = error
    counting = _CountsErrors(link)
    with recording(judging=True):
        test(Student(counting))
    if failed and not counting.errors:
        raise failed  # code that fails the first time only is not right


class _CountsErrors:
    """A link, and how many errors of the learner's came over it."""

    def __init__(self, link: Link) -> None:
        self.link, self.errors = link, 0

    def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
        try:
            return self.link.perform(name, op, request)
        except LearnerError:
            self.errors += 1
            raise


def _follow(steps: Plan, ask: Callable[[Call], Any]) -> None:
    replies = Replies()
    for step in steps:
        if isinstance(step, Call):
            replies.append(ask(step))
        else:
            step.function(*step.args(replies), **step.kwargs(replies))


def shapes_of(request: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The shapes of the tensors among the arguments."""
    args = request.get("args", [])
    return tuple(tuple(a.shape) for a in args if isinstance(a, torch.Tensor))
