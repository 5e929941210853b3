"""A fork of the suite runner that grades one submission after another.

It is trusted code in a process of its own: a submission that breaks it costs itself alone. A fork
for each submission would be simpler, but copying pages after a fork costs more than the tests do.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict

import torch

from ..sandbox.family import Family
from ..sandbox.forkserver import WorkerProcess
from ..testing.suite import Suite
from . import grader_memory, records
from .one_submission import OneSubmission
from .records import End, Record, Trouble
from .result import Unit

# Submissions after which a grader is replaced, so that nothing can pile up in one.
LIFETIME = 200


class Grader:
    """The runner's end: give it a unit and a worker's socket, read records until `end`."""

    def __init__(self, suite: Suite) -> None:
        self.sock, theirs = socket.socketpair()
        self.graded = 0
        self._buffer = b""
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                _close_all_but(theirs.fileno())
                grader_memory.limit()
                _serve(suite, theirs)
            os._exit(0)
        theirs.close()

    def begin(self, unit: Unit, *workers: WorkerProcess) -> None:
        """Have it grade `unit` with a worker, or with two ask for advice on its kernels."""
        self.graded += 1
        families = [(worker.family.pid, worker.family.usage) for worker in workers]
        order = {"unit": asdict(unit), "families": families}
        with contextlib.suppress(OSError):  # a grader that has died is found out by `records`
            socket.send_fds(self.sock, [b"\n"], [worker.sock.fileno() for worker in workers])
            self.sock.sendall(json.dumps(order).encode() + b"\n")

    def records(self) -> list[Record] | None:
        """What it has written since; None when it has died."""
        try:
            data = self.sock.recv(1 << 20)
        except ConnectionError:
            data = b""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [records.decode(line) for line in lines] if data else None

    def kill(self) -> None:
        self.sock.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def _serve(suite: Suite, sock: socket.socket) -> None:
    torch.set_num_threads(1)
    pending = b""
    while True:
        start, fds, _, _ = socket.recv_fds(sock, 1, 2)
        if not start:
            return
        while b"\n" not in pending:
            part = sock.recv(1 << 20)
            if not part:
                return
            pending += part
        line, _, pending = pending.partition(b"\n")
        with contextlib.ExitStack() as open_until_done:
            workers = [open_until_done.enter_context(socket.socket(fileno=fd)) for fd in fds]
            order = json.loads(line)
            families = [Family(*family) for family in order["families"]]
            one = OneSubmission(suite, Unit(**order["unit"]), workers[0], families[0])
            try:
                one.run() if len(workers) == 1 else one.advise(workers[1])
            except Exception as error:
                one.tell(Trouble(grader_memory.trouble(error)))
        one.tell(End())
        sock.sendall(b"".join(map(records.encode, one.records)))


def _close_all_but(kept: int) -> None:
    """Close what the fork inherited: other workers, other graders, the line to the sandbox."""
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
