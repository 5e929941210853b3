"""The trusted end of the connection to a worker: to each question one answer, in time."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
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
        self._replies: deque[Reply] = deque()
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
        failures = self._value(call, *self._exchange([call], seconds)[0])
        self.seen.clear()
        return failures if isinstance(failures, list) else []

    def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
        frame = self._suite.frame(name, op, request)
        call = plan.Call(name, frame, plan.shapes_of(request))
        return self._value(call, *self._exchange([call])[0])

    def ahead(self, calls: Sequence[plan.Call]) -> None:
        """Ask many questions at once; `ask` will give their replies, one after another.

        Raises WorkerLost, perhaps for a later call than the one at fault.
        """
        self._replies += self._exchange(calls)

    def ask(self, call: plan.Call) -> Any:
        """The value of the reply. Raises LearnerError, or WorkerLost when no more can follow."""
        reply = self._replies.popleft() if self._replies else self._exchange([call])[0]
        return self._value(call, *reply)

    @property
    def waiting(self) -> int:
        """How many replies there are that were not asked for yet."""
        return len(self._replies)

    def skip(self, waiting: int) -> None:
        """Drop replies that nobody will ask for, until so many wait."""
        while len(self._replies) > waiting:
            self._replies.popleft()

    def _exchange(self, calls: Sequence[plan.Call], seconds: float | None = None) -> list[Reply]:
        """Send the questions, and receive a reply to each."""
        seconds = self._suite.budget.call_seconds if seconds is None else seconds
        replies: list[Reply] = []
        rest = bytearray()
        try:
            self._sock.settimeout(seconds)
            protocol.send_calls(self._sock, self._call + 1, [call.frame for call in calls])
            for _ in calls:
                self._call += 1
                deadline = min(time.monotonic() + seconds, self._until)
                header, value = protocol.receive(self._sock, REPLY_KEYS, deadline, rest=rest)
                if header["call"] != self._call:
                    raise WorkerLost(Verdict.CRASHED, "The reply belongs to no question.")
                replies.append((header, value))
            if rest:
                raise protocol.ProtocolError("more than a frame")
        except TimeoutError as error:
            call = calls[len(replies)]
            name = call.name
            shapes = ", ".join(map(str, call.shapes))
            shapes = f" on inputs of shape {shapes}" if shapes else ""
            text = (
                f"`{name}` was still running after {seconds:g} s{shapes}. Is there an endless loop?"
            )
            raise WorkerLost(Verdict.TIMEOUT, text) from error
        except (protocol.Closed, ConnectionError) as error:
            raise WorkerLost(Verdict.CRASHED, calls[0].name) from error
        except protocol.ProtocolError as error:
            raise WorkerLost(Verdict.CRASHED, "The reply was not a reply: " + str(error)) from error
        return replies

    def _value(self, call: plan.Call, header: dict[str, Any], value: Any) -> Any:
        self._note(header["seen"])
        if header["error"] is not None:
            raise learner_error(header["error"], call.name, self.kernels)
        return value

    def _note(self, seen: Any) -> None:
        if isinstance(seen, list):
            self.seen |= {s for s in seen if isinstance(s, str) and s in self._suite.watched}


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
