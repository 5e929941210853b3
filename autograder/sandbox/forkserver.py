"""The grader's handle on the sandbox: one call starts a confined worker, one ends it.

    with ForkServer() as server:
        worker = server.spawn(Limits(wall_seconds=20))
        ...                                  # talk over worker.sock
        worker.kill()
        print(worker.exit().kind)

No thread is started, and a process forked from this one may use the same server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import rootfs
from .channel import Channel, Closed, pair
from .family import Family
from .limits import Exit, Limits, SandboxError

_HERE = Path(__file__).resolve().parent
_SERVER_FILES = ("server.py", "channel.py", "linux.py", "landlock.py", "seccomp.py")
# Package name -> folder: all of its files are copied into the sandbox.
WORKER = {
    "autograder.worker": _HERE.parent / "worker",
    "kernel_sanitizer": _HERE.parents[1] / "kernel_sanitizer",
}
_SUPERVISOR = (
    "import sys; sys.path.insert(0, {!r}); from autograder.sandbox.supervisor import main; main({})"
)
# Long: a machine may be busy, and nothing that works waits for their end.
_START_SECONDS = 900.0
_SPAWN_SECONDS = 300.0
_END_SECONDS = 120.0


class WorkerProcess:
    """A running worker. Leaving it to the garbage collector ends it too."""

    def __init__(self, sock: socket.socket, status: Channel, family: Family) -> None:
        self.sock = sock
        self.family = family
        self.pid = family.pid
        self._status = status
        self._exit: Exit | None = None

    def kill(self) -> None:
        """End the worker and all it started; they are gone on return. Raises SandboxError."""
        if self._exit is None:
            with contextlib.suppress(Closed):
                self._status.send({"kill": True})
            self._wait(_END_SECONDS)

    def exit(self, timeout: float = 2.0) -> Exit:
        """How the worker ended; one that has not ended within `timeout` seconds is killed."""
        if self._exit is None:
            try:
                self._wait(timeout)
            except TimeoutError:
                self.kill()
        assert self._exit is not None
        return self._exit

    def close(self) -> None:
        """kill(), and close the socket."""
        self.kill()
        self.sock.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, timeout: float) -> None:
        self._status.sock.settimeout(timeout)
        try:
            message, _ = self._status.receive()
        except Closed:
            message = {"error": "the sandbox's supervisor died"}
        if "error" in message:
            raise SandboxError(message["error"])
        self._exit = Exit(**message["exit"])
        self._status.close()


class ForkServer:
    """An untrusted server process with torch loaded, in a sandbox; it forks the workers.

    `preload`: modules that workers find imported. `worker`: folders copied into the sandbox as
    packages; `autograder.worker.serve` has `main(sock)`, which runs in each worker. `compiles`:
    Triton kernels are compiled there for a GPU, instead of interpreted. `deny`: the sets of
    autograder/worker/deny.py that its assignment picks. The rest makes do without something, as on
    machines that lack it: `weak` namespaces, `fork` forking (each worker is started afresh),
    `cgroups` control groups. The start goes on in the background.
    """

    def __init__(
        self,
        *,
        weak: bool = False,
        fork: bool = True,
        cgroups: bool = True,
        preload: Sequence[str] = ("torch", "matplotlib"),
        compiles: bool = False,
        deny: Sequence[str] = (),
        worker: Mapping[str, str | Path] | None = WORKER,
    ) -> None:
        ours, theirs = pair()
        command = _SUPERVISOR.format(str(_HERE.parents[1]), theirs.fileno())
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", command],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        self._control = ours
        self._ready: dict | None = None
        files = {f"autograder/{name}": _HERE / name for name in _SERVER_FILES}
        for package, folder in (worker or {}).items():
            place = package.replace(".", "/")
            files |= {f"{place}/{file.name}": file for file in sorted(Path(folder).glob("*.py"))}
        config: dict[str, Any] = {"weak": weak or not fork, "fork": fork, "cgroups": cgroups}
        config |= {"preload": list(preload), "worker": worker is not None, "compiles": compiles}
        config["deny"] = list(deny)
        self._send(config | {"plan": rootfs.plan(files)})

    @property
    def protections(self) -> tuple[str, ...]:
        """The walls that hold, each verified in a worker. Waits for the server."""
        return tuple(self._wait_until_ready()["protections"])

    @property
    def reasons(self) -> dict[str, str]:
        """Why the others do not."""
        return dict(self._wait_until_ready()["reasons"])

    def spawn(self, limits: Limits | None = None) -> WorkerProcess:
        """Start a confined worker; every wall stands on return. Raises SandboxError."""
        self._wait_until_ready()
        ours, theirs = socket.socketpair()
        status, far = pair()
        wanted = dataclasses.asdict(limits or Limits())
        try:
            self._send({"spawn": wanted}, [theirs.fileno(), far.fileno()])
            theirs.close()
            far.close()
            status.sock.settimeout(_SPAWN_SECONDS)
            message, _ = status.receive()
            if "error" in message:
                raise SandboxError(message["error"])
        except (Closed, TimeoutError) as error:
            raise SandboxError(f"the sandbox did not start a worker: {error}") from None
        except BaseException:
            ours.close()
            status.close()
            raise
        finally:
            theirs.close()
            far.close()
        return WorkerProcess(ours, status, Family(message["started"], message["usage"]))

    def close(self) -> None:
        """End the server and every worker; they are gone on return."""
        if os.getpid() == self._owner and self._process.returncode is None:
            with contextlib.suppress(Closed):
                self._control.send({"close": True})
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._control.close()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, message: dict, fds: Sequence[int] = ()) -> None:
        try:
            self._control.send(message, fds)
        except Closed:
            raise SandboxError("the sandbox's supervisor is gone") from None

    def _wait_until_ready(self) -> dict:
        if self._ready is None:
            self._control.sock.settimeout(_START_SECONDS)
            try:
                message, _ = self._control.receive()
            except (Closed, TimeoutError) as error:
                raise SandboxError(f"the sandbox did not start: {error}") from None
            finally:
                self._control.sock.settimeout(None)
            if "error" in message:
                raise SandboxError(f"the sandbox did not start: {message['error']}")
            self._ready = message["ready"]
        return self._ready
