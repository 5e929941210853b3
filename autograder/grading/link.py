"""The trusted end of the connection to a worker: to each question one answer, in time."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..sandbox.family import Family
from ..testing import kernel_reply, plan
from ..testing.suite import Suite
from ..testing.verdict import LearnerError, Refused, Verdict, WorkerLost
from ..worker import deny, protocol
from .waiting import Wait

REPLY_KEYS = frozenset({"call", "error", "seen"})

# What the replies to one test may hold together: so much, and so many times its questions. Replies
# are as large as their questions, and the largest of our suites has 0.2 MiB.
REPLY_BYTES, REPLY_TIMES = 4 << 20, 8
TOGETHER_BYTES = 1 << 16  # of the questions of one test


class RemoteLink:
    """Calls to a worker. A number ties each reply to its question.

    until: the moment when the time of the whole submission is over.
    family: the worker's processes, whose processor time counts.
    """

    def __init__(
        self, sock: socket.socket, suite: Suite, until: float, family: Family | None = None
    ) -> None:
        self._sock, self._suite, self._until, self._family = sock, suite, until, family
        self._call = 0
        self._sent: deque[plan.Call] = deque()  # those without a reply
        self._begins = True  # whether a test begins with the next question
        self._rest = bytearray()  # what has been read of further replies
        self._allowance = protocol.Allowance(REPLY_BYTES)
        self.seen: set[str] = set()
        # The learner's, and their parameters. None: there are none, and no fault of one.
        self.kernels: Mapping[str, tuple[str, ...]] | None = None

    def start(
        self, cells: list[Any], seed: int, only_definitions: bool = False
    ) -> list[dict[str, Any]]:
        """Have the worker execute the cells. Returns its records, see `cells`."""
        budget = self._suite.budget
        seconds = budget.start_seconds
        request = {
            "cells": [{"index": c.index, "source": c.source} for c in cells],
            "seed": seed, "only_definitions": only_definitions,
            "cell_seconds": budget.cell_seconds, "seconds": seconds,
            "wall": budget.on_the_clock(seconds), "warn": self._suite.policy == "warn",
        }  # fmt: skip
        frame = self._suite.frame("your notebook", "start", request)
        records = self._ask(plan.Call("your notebook", frame), seconds)
        self.seen.clear()
        return records if isinstance(records, list) else []

    def begin_test(self) -> None:
        """Another test: torch is set back, and what earlier replies held counts no more."""
        self._allowance.left = REPLY_BYTES
        self._begins = True

    def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
        frame = self._suite.frame(name, op, request)
        return self.ask(plan.Call(name, frame, plan.shapes_of(request)))

    def ask(self, call: plan.Call) -> Any:
        """The value of the reply. Raises LearnerError, or WorkerLost when no more can follow."""
        return self._ask(call, self._suite.budget.call_seconds)

    def _ask(self, call: plan.Call, seconds: float) -> Any:
        if not self._sent:
            self._send([call])
        header, value = self._reply(seconds)
        self._note(header["seen"])
        if header["error"] is not None:
            raise self._raised(header["error"], call.name)
        return value

    @contextlib.contextmanager
    def asking(self, calls: Sequence[plan.Call]) -> Iterator[None]:
        """Send the questions of one test together: two processes that take turns cost time.

        What is small fits into the socket, so nobody waits for ever. A loss costs the one test.
        """
        size = sum(len(call.frame.header) + len(call.frame.body) for call in calls)
        if len(calls) > 1 and size <= TOGETHER_BYTES:
            self._send(calls)
        try:
            yield
        except WorkerLost:
            self._sent.clear()
            raise
        finally:
            while self._sent:  # after a failure nobody asks for the rest
                self._reply(self._suite.budget.call_seconds)

    def _send(self, calls: Sequence[plan.Call]) -> None:
        """Send questions. `_reply` takes their replies, in the same order."""
        self._sent.extend(calls)
        self._allowance.left += REPLY_TIMES * sum(len(call.frame.body) for call in calls)
        wait = Wait(self._suite.budget.call_seconds, self._suite.budget, self._until, self._family)
        with _losses(calls[0], wait):
            self._sock.settimeout(wait.left())
            frames = [call.frame for call in calls]
            protocol.send_calls(self._sock, self._call + 1, frames, self._begins)
        self._call += len(calls)
        self._begins = False

    def _reply(self, seconds: float) -> tuple[dict[str, Any], Any]:
        """Header and value of the reply to the first question that has none. Or WorkerLost."""
        number = self._call - len(self._sent) + 1
        call = self._sent.popleft()
        wait = Wait(seconds, self._suite.budget, self._until, self._family)
        with _losses(call, wait):
            if not self._rest:
                wait.until_readable(self._sock)
            header, value = self._receive(wait.end)
            if header["call"] != number:
                raise protocol.ProtocolError("it belongs to no question")
            if self._rest and not self._sent:
                raise protocol.ProtocolError("more than a frame")
        return header, value

    def _receive(self, deadline: float) -> tuple[dict[str, Any], Any]:
        try:
            return protocol.receive(
                self._sock, REPLY_KEYS, deadline, allowance=self._allowance, rest=self._rest
            )
        except protocol.TooMuch as reply:
            error = {"type": "TooLarge", "cell": 0, "line": 0}
            return reply.header | {"error": error}, None

    def _raised(self, error: Any, name: str) -> Exception:
        """What a call raised, by the reply's `error`."""
        found, suite = learner_error(error, name, self.kernels), self._suite
        if isinstance(found, LearnerError) and error.get("denied") in suite.refusable:
            asks = deny.asked(suite.by_hand.get(name, ()), error["denied"])
            return Refused(error["denied"], asks, found.cell, found.line, name)
        return found

    def _note(self, seen: Any) -> None:
        if isinstance(seen, list):
            self.seen |= {s for s in seen if isinstance(s, str) and s in self._suite.refusable}


@contextlib.contextmanager
def _losses(call: plan.Call, wait: Wait) -> Iterator[None]:
    """What ends the connection, as WorkerLost."""
    try:
        yield
    except TimeoutError as error:
        shapes = ", ".join(map(str, call.shapes))
        shapes = f" on inputs of shape {shapes}" if shapes else ""
        text = wait.told(call.name, shapes)
        raise WorkerLost(Verdict.TIMEOUT, text, starved=wait.starved()) from error
    except (protocol.Closed, ConnectionError) as error:
        raise WorkerLost(Verdict.CRASHED, call.name, said=False) from error
    except protocol.ProtocolError as error:
        # Not why: who forges replies would choose it.
        raise WorkerLost(Verdict.CRASHED, "The reply was not a reply.") from error


def learner_error(
    error: Any, name: str, kernels: Mapping[str, tuple[str, ...]] | None = None
) -> Exception:
    """The exception that a reply's `error` tells of."""
    known = {"type": str, "cell": int, "line": int}
    more = {"fault": dict, "denied": str, "returned": str}
    kinds = {k: type(v) for k, v in error.items()} if type(error) is dict else {}
    if known | {k: more[k] for k in kinds if k in more} != kinds:
        return WorkerLost(Verdict.CRASHED, "The reply was not a reply.")
    fault = None if kernels is None else kernel_reply.checked(error.get("fault"), kernels)
    returned = error.get("returned", "")
    return LearnerError(error["type"], error["cell"], error["line"], name, fault, returned)
