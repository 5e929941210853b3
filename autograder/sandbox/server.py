"""The sandbox server: loads torch once, then forks one confined worker per request.

It runs inside the sandbox and holds no secret: it knows only limits. Learner code runs in its
forks, never in it, and a fork keeps none of its descriptors. Copied into the sandbox.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import glob
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Callable

from . import landlock, linux, seccomp
from .channel import Channel, Closed

CONTROL_FD, PID_NAMESPACE_FD = 3, 4
SCRATCH = "/scratch"
_MANY = 24  # workers after which it pays to make forks cheaper: that costs some 0.3 s, once
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def main() -> None:
    """Serve until the supervisor closes the channel."""
    channel = Channel(socket.socket(fileno=CONTROL_FD))
    config, _ = channel.receive()
    try:
        _preload(config)
        channel.send({"ready": True})
    except BaseException as error:
        channel.send({"error": f"{type(error).__name__}: {error}"})
        return
    with contextlib.suppress(Closed):
        if config["once"]:  # where forking is unsafe: this process becomes the one worker
            request, fds = channel.receive()
            _be_worker(config, request, fds, os.dup(channel.fileno()))
        try:
            _Server(channel, config).serve()
        except Exception as error:
            channel.send({"died": 0, "why": f"{type(error).__name__}: {error}"})
            raise


def _preload(config: dict) -> None:
    gc.disable()  # imports leave little to collect, and to look for it takes long
    sys.path += config["site"]
    if config["compiles"]:
        os.environ.pop("TRITON_INTERPRET")
    for name in config["preload"]:
        importlib.import_module(name)
    if "torch" in sys.modules:
        # A thread pool does not survive fork: a child would wait for it for ever.
        sys.modules["torch"].set_num_threads(1)
        # Chosen once, by files that a worker cannot read; else it falls back to the slowest.
        sys.modules["torch"].backends.cpu.get_cpu_capability()
    if "matplotlib" in sys.modules:
        sys.modules["matplotlib"].use("Agg")
        importlib.import_module("matplotlib.pyplot")
    if config["worker"]:
        worker = importlib.import_module("autograder.worker.serve")
        getattr(worker, "warm_up", tuple)(
            config["deny"]
        )  # what need not be done again in every fork
    if linux.SUPPORTED:
        seccomp.packed(None)
    _settle()


def _settle() -> None:
    """Leave memory such that the forks share it with this process as long as they can."""
    gc.freeze()  # collections in the forks leave these pages alone
    gc.enable()
    linux.close_gaps()


def _preload_late() -> None:
    gc.disable()
    for name in getattr(sys.modules.get("autograder.worker.serve"), "LATE", ()):
        with contextlib.suppress(ImportError):  # of another torch
            importlib.import_module(name)
    _settle()


class _Server:
    """Forks workers, and tells the supervisor how each one ended."""

    def __init__(self, channel: Channel, config: dict) -> None:
        self.channel = channel
        self.config = config
        self.running: dict[int, int] = {}  # pid -> id of the request
        self.started = 0
        # after so many workers
        self.improvements = [(1, _preload_late), (_MANY, linux.collapse_memory)]
        self.selector = selectors.DefaultSelector()
        self.selector.register(channel, selectors.EVENT_READ)
        wake, self.wake = socket.socketpair()
        wake.setblocking(False)
        self.wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._waker = wake
        self.selector.register(self.wake, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.channel:
                    self._read_requests()
                else:
                    with contextlib.suppress(BlockingIOError):
                        self.wake.recv(4096)
            self._reap()

    def _read_requests(self) -> None:
        while True:
            request, fds = self.channel.receive()
            self._start(request, fds)
            for fd in fds:
                os.close(fd)
            self._improve()
            if not self.channel.pending():
                return

    def _reap(self) -> None:
        while self.running:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            request = self.running.pop(pid, None)
            if request is not None:
                cpu = usage.ru_utime + usage.ru_stime
                self.channel.send({"ended": request, "status": status, "cpu": cpu})

    def _start(self, request: dict, fds: list[int]) -> None:
        identity, strong = request["id"], self.config["strong"]
        gate, gate_in = os.pipe()
        try:
            if strong:  # stops: seeing or signalling others; its end is the end of all it started
                linux.unshare(linux.CLONE_NEWPID)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _be_worker(self.config, request, fds, gate_in)
            os.close(gate_in)
            gate_in = -1
            failure = os.read(gate, 4096)  # nothing: every wall stands
            if failure:
                os.waitpid(pid, 0)
                self.channel.send(json.loads(failure))
                return
            self.running[pid] = identity
            pidfd = os.pidfd_open(pid)
            self.channel.send({"started": identity}, [pidfd])
            os.close(pidfd)
            self.started += not request["probe"]
        except OSError as error:
            self.channel.send({"failed": identity, "why": f"no worker process: {error}"})
        finally:
            if strong:
                linux.setns(PID_NAMESPACE_FD, linux.CLONE_NEWPID)
            os.close(gate)
            if gate_in >= 0:
                os.close(gate_in)

    def _improve(self) -> None:
        """Do what takes long and makes later workers cheaper, now that a worker runs."""
        while self.improvements and self.started >= self.improvements[0][0]:
            _, improve = self.improvements.pop(0)
            with contextlib.suppress(OSError):
                improve()


def _be_worker(config: dict, request: dict, fds: list[int], gate: int) -> None:
    """Confine this process and run the worker in it. Never returns.

    A failure to confine is written to `gate`, which is closed as soon as every wall stands.
    """
    code = 1
    try:
        try:
            for fd in fds[1:]:  # stops: memory and process bombs, counted over all it starts
                os.write(fd, b"0")
            sock, gate = _keep_only(fds[0], gate)
            _confine(config, request)
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"[:2000]
            os.write(gate, json.dumps({"failed": request["id"], "why": why, "fds": 0}).encode())
            os.write(gate, b"\n")
            os._exit(1)
        os.close(gate)
        if request["probe"]:
            sock.sendall(json.dumps(_probe()).encode() + b"\n")
            sock.recv(1)
        else:
            sys.modules["autograder.worker.serve"].main(sock)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _keep_only(sock_fd: int, gate: int) -> tuple[socket.socket, int]:
    """Keep 0, 1 and 2 (/dev/null), 3 (the worker's socket), 4 (the gate).

    Nothing that is printed is kept, so a flood costs nobody but the worker, in its own time.
    """
    # stops: reaching the control channel and the descriptors of other workers
    null = os.open("/dev/null", os.O_RDWR)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (null, null, null, sock_fd, gate)]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target < 3)
    os.closerange(5, max(high) + 1)
    os.closerange(max(high) + 1, highest_descriptor())
    return socket.socket(fileno=3), 4


def highest_descriptor() -> int:
    """Where to stop closing. Elsewhere than on Linux each number costs a call."""
    return os.sysconf("SC_OPEN_MAX") if linux.LINUX else 4096


def _confine(config: dict, request: dict) -> None:
    """Put up every wall, outermost first. Raises OSError when one cannot stand."""
    scratch = request["scratch"] or SCRATCH
    if config["strong"]:
        _enter_namespaces(request)
    elif linux.LINUX:  # stops: outliving the server
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(scratch)
    for name, value in request["rlimits"].items():  # stops: bombs of every kind, a process each
        kind = getattr(resource, name)
        hardest = resource.getrlimit(kind)[1]
        value = value if hardest == resource.RLIM_INFINITY else min(value, hardest)
        resource.setrlimit(kind, (value, value))
    if not linux.SUPPORTED:
        return
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)  # stops: setuid programs
    linux.drop_capabilities()  # stops: everything a root of its own namespace could do
    readable = [*config["readable"], *(["/proc"] if config["strong"] else [])]
    programs = _assembler() if request["assembler"] else []
    # stops: reading beyond Python's files, and other programs where one may be run
    named = landlock.restrict(readable, [scratch], DEVICES, programs)
    seccomp.install(os.getpid() if request["alone"] else None, may_run=bool(programs and named))


def _assembler() -> list[str]:
    """The program that makes machine code of a compiled kernel, and what the kernel loads it by."""
    folder = os.path.dirname(str(sys.modules["triton"].__file__))
    loaders = glob.glob("/lib*/ld-linux*.so*")
    return [os.path.join(folder, "backends", "nvidia", "bin", "ptxas"), *loaders]


def _enter_namespaces(request: dict) -> None:
    # stops: traces left for the next worker, network, shared memory and abstract sockets
    kinds = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWCGROUP
    linux.unshare(kinds)
    flags = linux.MS_NOSUID | linux.MS_NODEV
    # stops: filling a disk, with bytes or with names
    size = f"size={request['scratch_bytes']},nr_inodes=8192,mode=0700"
    linux.mount("tmpfs", SCRATCH, "tmpfs", flags, size)
    try:  # stops: seeing the server and its neighbours, and the kernel's settings, in /proc
        linux.mount("proc", "/proc", "proc", flags | linux.MS_NOEXEC, "subset=pid")
    except OSError:
        linux.mount("tmpfs", "/proc", "tmpfs", flags, "size=4k,mode=0555")
    # stops: undoing the mounts above. No uid is mapped, so it is nobody and cannot nest another.
    linux.unshare(linux.CLONE_NEWUSER)


def _probe() -> dict:
    """What holds, tried from inside a worker before any learner code is run."""

    def denied(action: Callable[[], object]) -> bool:
        try:
            action()
        except PermissionError:
            return True
        except OSError:
            return False
        return False

    return {
        "seccomp": denied(lambda: socket.socket(socket.AF_UNIX)),
        "landlock": denied(lambda: os.listdir("/")),
        "rlimits": resource.getrlimit(resource.RLIMIT_CORE) == (0, 0),
    }
