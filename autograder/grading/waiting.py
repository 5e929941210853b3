"""The wait for one reply: ended by the worker's processor time, or by the clock much later.

A neighbour, or whatever else the machine does, makes code slower on the clock and uses none of its
processor time. The clock is there for code that sleeps or waits.
"""

from __future__ import annotations

import select
import socket
import time

from ..sandbox.family import Family
from ..testing.allowance import Budget

LOOK = 0.2  # seconds until processor time is looked at, and between two looks


class Wait:
    """Begins now, for a question that may take `seconds` of processor time.

    until: the moment when the time on the clock of the whole submission ends.
    family: the worker's processes; without them the clock alone decides.
    """

    def __init__(self, seconds: float, budget: Budget, until: float, family: Family | None) -> None:
        self._seconds, self._clock = seconds, budget.on_the_clock(seconds)
        self.end = min(time.monotonic() + self._clock, until)
        self._over = self.end == until  # whether the submission's time is the shorter
        self._family = family
        self._first: tuple[float, float, float | None] | None = None  # moment, used, waited
        self._computed = False  # for as long as it may

    def left(self) -> float:
        """Seconds until the clock ends it; more than 0, for sockets take that for no limit."""
        return max(1e-3, self.end - time.monotonic())

    def until_readable(self, sock: socket.socket) -> None:
        """Wait until there is something to read on `sock`. Raises TimeoutError."""
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        while not poll.poll(1000 * min(LOOK, self.left())):
            self._look()

    def _look(self) -> None:
        used = self._family.used() if self._family else None
        if self._family and used is not None:
            if self._first is None:  # most replies come before
                self._first = (time.monotonic(), used, self._family.waited())
            elif used - self._first[1] >= self._seconds:
                self._computed = True
                raise TimeoutError
        if time.monotonic() >= self.end:
            raise TimeoutError

    def starved(self) -> bool:
        """Whether, so far, others ran most of the time in which the worker was ready to run."""
        if self._family is None or self._first is None or self._computed:
            return False
        began, used, waited = self._first
        took = time.monotonic() - began
        now_used = self._family.used()
        if now_used is None or now_used - used > took / 2:
            return False
        now = self._family.waited()
        return waited is None or now is None or now - waited > took / 10

    def told(self, name: str, shapes: str) -> str:
        """What the learner is told of its end. shapes: of the inputs, as the end of a clause."""
        if self._computed:
            limit = f"{self._seconds:g} s of computing"
            return f"`{name}` was still running after {limit}{shapes}. Is there an endless loop?"
        if self._over:
            return f"`{name}` was still running when the time of the whole notebook was over."
        return (
            f"`{name}` was still running after {self._clock:g} s{shapes}. "
            "Is there an endless loop, or does it wait for something?"
        )
