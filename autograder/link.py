"""The trusted end of the connection to a worker: to each question one answer, in time."""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import kernel_reply, plan, protocol
from .suite import Suite
from .verdict import LearnerError, Verdict, WorkerLost

REPLY_KEYS = frozenset({"call", "error", "seen"})

Reply = tuple[dict[str, Any], Any]  # header and value


class RemoteLink:
    """Calls to a worker. A number ties each reply to its question."""

    def __init__(self, sock: socket.socket, suite: Suite, until: float) -> None:
        self._sock, self._suite, self._until = sock, suite, until
        self._call = 0
        self._sent: deque[plan.Call] = deque()  # those without a reply
        self._replies: deque[Reply] = deque()  # those that nobody has asked for
        self._rest = bytearray()  # what has been read of further replies
        self.seen: set[str] = set()
        # The learner's, and their parameters. None: there are none, and no fault of one.
        self.kernels: Mapping[str, tuple[str, ...]] | None = None

    def start(self, cells: list[Any], seed: int) -> list[dict[str, Any]]:
        """Have the worker execute the cells. Returns the cells that failed."""
        request = {
            "cells": [{"index": c.index, "source": c.source} for c in cells],
            "seed": seed,
        }
        frame = self._suite.frame("your notebook", "start", request)
        seconds = self._suite.budget.start_seconds
        call = plan.Call("your notebook", frame)
        self.send([call])
        failures = self._value(call, *self._receive(seconds))
        self.seen.clear()
        return failures if isinstance(failures, list) else []

    def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
        frame = self._suite.frame(name, op, request)
        call = plan.Call(name, frame, plan.shapes_of(request))
        while self._sent:  # other replies come before this one
            self._replies.append(self._receive(needed=False))
        self.send([call])
        return self._value(call, *self._receive())

    def ask(self, call: plan.Call) -> Any:
        """The value of the reply. Raises LearnerError, or WorkerLost when no more can follow."""
        if not self.waiting:
            self.send([call])
        reply = self._replies.popleft() if self._replies else self._receive()
        return self._value(call, *reply)

    @property
    def waiting(self) -> int:
        """How many replies are there, or to come, that were not asked for."""
        return len(self._replies) + len(self._sent)

    def skip(self, waiting: int) -> None:
        """Drop replies that nobody will ask for, until so many wait."""
        while self.waiting > waiting:
            if not self._replies:
                self._receive(needed=False)
            else:
                self._replies.popleft()

    def send(self, calls: Sequence[plan.Call]) -> None:
        """Send questions, many at once. `ask` takes their replies, in the same order."""
        seconds = self._suite.budget.call_seconds
        with _losses(calls[0], seconds, unsure=len(calls) > 1):
            self._sock.settimeout(seconds)
            protocol.send_calls(self._sock, self._call + 1, [call.frame for call in calls])
        self._call += len(calls)
        self._sent.extend(calls)

    def _receive(self, seconds: float | None = None, needed: bool = True) -> Reply:
        """The reply to the first question that has none. needed: whether its test waits for it."""
        seconds = self._suite.budget.call_seconds if seconds is None else seconds
        deadline = min(time.monotonic() + seconds, self._until)
        number = self._call - len(self._sent) + 1
        # A worker keeps replies for a moment: it may have been lost in a later question.
        with _losses(self._sent[0], seconds, unsure=len(self._sent) > 1 or not needed):
            header, value = protocol.receive(self._sock, REPLY_KEYS, deadline, rest=self._rest)
            if header["call"] != number:
                raise protocol.ProtocolError("it belongs to no question")
            self._sent.popleft()
            if not self._sent and self._rest:
                raise protocol.ProtocolError("more than a frame")
        return header, value

    def _value(self, call: plan.Call, header: dict[str, Any], value: Any) -> Any:
        self._note(header["seen"])
        if header["error"] is not None:
            raise learner_error(header["error"], call.name, self.kernels)
        return value

    def _note(self, seen: Any) -> None:
        if isinstance(seen, list):
            self.seen |= {s for s in seen if isinstance(s, str) and s in self._suite.watched}


@contextlib.contextmanager
def _losses(call: plan.Call, seconds: float, unsure: bool) -> Iterator[None]:
    """What ends the connection, as WorkerLost."""
    try:
        yield
    except TimeoutError as error:
        shapes = ", ".join(map(str, call.shapes))
        shapes = f" on inputs of shape {shapes}" if shapes else ""
        text = (
            f"`{call.name}` was still running after {seconds:g} s{shapes}. "
            "Is there an endless loop?"
        )
        raise WorkerLost(Verdict.TIMEOUT, text, unsure) from error
    except (protocol.Closed, ConnectionError) as error:
        raise WorkerLost(Verdict.CRASHED, call.name, unsure) from error
    except protocol.ProtocolError as error:
        text = "The reply was not a reply: " + str(error)
        raise WorkerLost(Verdict.CRASHED, text, unsure) from error


def learner_error(
    error: Any, name: str, kernels: Mapping[str, tuple[str, ...]] | None = None
) -> Exception:
    """The exception that a reply's `error` tells of."""
    known = {"type": str, "cell": int, "line": int}
    kinds = {k: type(v) for k, v in error.items()} if type(error) is dict else {}
    if kinds != known and kinds != known | {"fault": dict}:
        return WorkerLost(Verdict.CRASHED, "The reply was not a reply.")
    fault = None if kernels is None else kernel_reply.checked(error.get("fault"), kernels)
    return LearnerError(error["type"], error["cell"], error["line"], name, fault)
