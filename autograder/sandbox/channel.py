"""Short JSON messages, with file descriptors, between the grader's own processes.

One message is one line of JSON; the descriptors travel beside it (SCM_RIGHTS). A worker never
holds an end of such a channel. Copied into the sandbox.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence

_MAX_MESSAGE = 65536
_MAX_FDS = 16


class Closed(Exception):
    """The other end is gone."""


class Channel:
    """A stream socket that carries whole messages."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._text = b""
        self._fds: list[int] = []

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: dict, fds: Sequence[int] = ()) -> None:
        """Send one message with `fds`, which stay open here. Raises Closed."""
        line = json.dumps(message | {"fds": len(fds)}).encode() + b"\n"
        try:
            sent = socket.send_fds(self.sock, [line], list(fds)) if fds else self.sock.send(line)
            if sent < len(line):
                self.sock.sendall(line[sent:])
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self) -> tuple[dict, list[int]]:
        """Wait for one message and its descriptors. Raises Closed, TimeoutError."""
        while b"\n" not in self._text:
            self._fill()
        line, _, self._text = self._text.partition(b"\n")
        message = json.loads(line)
        count = message.pop("fds")
        fds, self._fds = self._fds[:count], self._fds[count:]
        return message, fds

    def pending(self) -> bool:
        """True when a whole message is already here: poll would not report it."""
        return b"\n" in self._text

    def _fill(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self.sock, _MAX_MESSAGE, _MAX_FDS)
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed(str(error)) from None
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds += fds
        if not data:
            raise Closed("end of stream")
        self._text += data
        if len(self._text) > _MAX_MESSAGE:
            raise Closed("message too long")

    def close(self) -> None:
        self.sock.close()
        for fd in self._fds:
            os.close(fd)
        self._fds = []


def pair() -> tuple[Channel, Channel]:
    """Two connected channels."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(left), Channel(right)
