"""The trusted process beside the sandbox: starts it, limits every worker, ends it, cleans up.

    grader  <- control ->  supervisor  <- channel ->  server (in the sandbox)  -> workers

It outlives neither: when the grader is gone, all of this is gone. It never runs learner code and
never reads what a worker sends or prints.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from . import cgroup, launch, linux, probe, rootfs, watch
from .channel import Channel, Closed
from .ending import Worker, how_it_ended, own_folder, remove, wait_for_end
from .family import Family
from .launch import WallsError

_MIB = 2**20
_TICK = 0.03  # between two looks at what no kernel limit covers
_USERS = 1000


class Supervisor:
    """Serves one grader process (and its forks) until the control channel closes."""

    def __init__(self, control: Channel) -> None:
        self.control = control
        self.config, _ = control.receive()
        self.plan = self.config["plan"]
        self.base, self.lock = own_folder()
        os.chmod(self.base, 0o711)
        forks = linux.SUPPORTED and hasattr(os, "pidfd_open") and self.config["fork"]
        self.once = not forks  # a fresh process for each worker, which becomes that worker
        self.places = cgroup.hierarchies() if linux.LINUX and self.config["cgroups"] else []
        cgroup.sweep(self.places)
        self.limited = {c for p in self.places for c in p.controllers}
        self.selector = selectors.DefaultSelector()
        self.workers: dict[int, Worker] = {}
        self.waiting: list[tuple[Worker, int]] = []  # with the worker's socket
        self.count = 0
        self.way = launch.WEAK
        self.user: int | None = None
        self._server: Channel | None = None
        self.server_pid = 0
        self.ready = False
        self.inherited = 0
        self.space = 0
        self.protections: list[str] = []
        self.reasons: dict[str, str] = {}

    # -- the server ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the strongest sandbox this machine allows. Raises WallsError, RuntimeError."""
        ways = [launch.PRIVILEGED] if os.geteuid() == 0 else []
        ways += [launch.UNPRIVILEGED, launch.WEAK]
        if self.config["weak"] or self.once:
            ways = [launch.WEAK]
        refused = "asked for" if self.config["weak"] else "not on this system"
        for self.way in ways:
            self.user = self._user_to_drop_to()
            try:
                self._start_server()
                self._wait_for_server_or_grader()
                self._wait_until_ready()
                self.protections, self.reasons = probe.look(self)
            except WallsError as error:
                refused = str(error)
                self._stop_server()
                if self.way == launch.WEAK:
                    raise
                continue
            break
        if self.way == launch.WEAK:
            for name in watch.NAMESPACES.values():
                self.reasons[f"{name}-namespace"] = refused
        else:
            with contextlib.suppress(FileNotFoundError):  # by a cleaner of temporary files
                os.rmdir(self.base)  # was only where to mount; the sandbox has left it

    @property
    def server(self) -> Channel:
        """The channel to the server that runs."""
        assert self._server is not None
        return self._server

    def _user_to_drop_to(self) -> int | None:
        if os.geteuid() != 0 or self.way == launch.UNPRIVILEGED:
            self.reasons["separate-user"] = "needs root"
            return None
        fit = self.plan["reachable" if self.way == launch.WEAK else "for_everyone"]
        if not fit:
            self.reasons["separate-user"] = "this Python is readable by its own user only"
            return None
        user = launch.FIRST_UID + os.getpid() % _USERS
        if linux.LINUX and not (watch.is_mapped(user, "uid") and watch.is_mapped(user, "gid")):
            self.reasons["separate-user"] = "this container knows too few users"
            return None
        return user

    def _start_server(self) -> None:
        if self.way == launch.WEAK:
            shutil.rmtree(os.path.join(self.base, "server"), ignore_errors=True)
            rootfs.copy_sources(Path(self.base), self.plan["sources"])
        self._server, self.server_pid = launch.start(self.base, self.plan, self.way, self.user)
        self.ready = False
        readable = self.plan["readable"]
        strong = self.way != launch.WEAK
        config = {
            "strong": strong,
            "once": self.once,
            "preload": self.config["preload"],
            "compiles": self.config["compiles"],
            "deny": self.config["deny"],
            "worker": self.config["worker"],
            "site": self.plan["site"],
            "readable": readable if strong else [*readable, f"{self.base}/server"],
        }
        with contextlib.suppress(Closed):  # why it is gone already is there to be read
            self.server.send(config)

    def _wait_for_server_or_grader(self) -> None:
        """Before it hears that all is ready the grader says nothing but that it is gone."""
        with selectors.DefaultSelector() as either:
            either.register(self.server, selectors.EVENT_READ)
            either.register(self.control, selectors.EVENT_READ)
            if self.control in [key.fileobj for key, _ in either.select()]:
                raise Closed("the grader is gone")

    def _wait_until_ready(self) -> None:
        try:
            message, _ = self.server.receive()
        except Closed:
            raise WallsError("the server ended before it was ready") from None
        if "error" in message:
            kind = WallsError if message.get("walls") else RuntimeError
            raise kind(message["error"])
        self._server_is_ready()

    def _server_is_ready(self) -> None:
        self.ready = True
        if linux.LINUX:
            self.space = watch.address_space(self.server_pid)
            self.inherited = watch.private_bytes(self.server_pid)
        self.selector.register(self.server, selectors.EVENT_READ, self._on_server)
        while self.waiting and self.ready:
            self._request(*self.waiting.pop(0))

    def _stop_server(self) -> None:
        if self._server is None:
            return
        with contextlib.suppress(KeyError):
            self.selector.unregister(self.server)
        self.server.close()
        self._server = None
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.server_pid, signal.SIGKILL)
            os.waitpid(self.server_pid, 0)

    # -- workers -------------------------------------------------------------------------------

    def spawn(self, limits: dict, sock: int, client: Channel, *, probe: bool = False) -> Worker:
        """Ask the server for a worker; the client hears when it runs. Raises OSError."""
        self.count += 1
        group, scratch = None, ""
        if self.places:
            memory = (limits["memory_mib"] + limits["scratch_mib"] + 32) * _MIB
            name = f"autograder-{os.getpid()}-{self.count}"
            group = cgroup.Group(self.places, name, memory, limits["processes"])
        if self.way == launch.WEAK:
            scratch = os.path.join(self.base, f"scratch{self.count}")
            os.mkdir(scratch, 0o700)
            if self.user is not None:
                os.chown(scratch, self.user, self.user)
        worker = Worker(self.count, limits | {"probe": probe}, client, group, scratch)
        self.workers[worker.id] = worker
        self.selector.register(client, selectors.EVENT_READ, lambda: self._on_client(worker))
        if self.ready:
            self._request(worker, sock)
        else:
            self.waiting.append((worker, sock))
        return worker

    def _request(self, worker: Worker, sock: int) -> None:
        limits, group = worker.limits, worker.group
        request = {
            "id": worker.id,
            "probe": limits["probe"],
            "alone": not self._may_fork(),
            "assembler": limits.get("assembler", False),
            "scratch": worker.scratch,
            "scratch_bytes": limits["scratch_mib"] * _MIB,
            "rlimits": self._rlimits(limits),
        }
        try:
            self.server.send(request, [sock, *(group.fds if group else [])])
        except Closed:
            self._finish(worker, {"error": "the sandbox server is gone"})
        finally:
            os.close(sock)
        if self.once:  # that server is now this worker: have the next one ready
            self.selector.unregister(self.server)
            link = worker.link = self.server
            worker.pid = self.server_pid
            self.selector.register(link, selectors.EVENT_READ, lambda: self._on_link(worker, link))
            self._start_server()
            self.selector.register(self.server, selectors.EVENT_READ, self._on_spare)

    def _may_fork(self) -> bool:
        """Only where all children end with their worker and something limits their number."""
        counted = "pids" in self.limited or self.user is not None or os.geteuid() != 0
        return self.way != launch.WEAK and counted  # the kernel exempts root from RLIMIT_NPROC

    def _rlimits(self, limits: dict) -> dict[str, int]:
        values = {
            "RLIMIT_CORE": 0,
            "RLIMIT_CPU": max(1, math.ceil(limits["cpu_seconds"])),
            "RLIMIT_NOFILE": limits["open_files"],
            "RLIMIT_FSIZE": limits["file_mib"] * _MIB,
        }
        if linux.LINUX:
            # Twice: threads and libraries reserve addresses that they never use.
            values["RLIMIT_AS"] = self.space + 2 * limits["memory_mib"] * _MIB
        else:  # stops: any child process; threads do not count there
            values["RLIMIT_NPROC"] = 1
        if self.way != launch.WEAK:  # counted for each worker's own user namespace
            values["RLIMIT_NPROC"] = limits["processes"]
        return values

    def _kill(self, worker: Worker, reason: str = "") -> None:
        worker.reason = worker.reason or reason
        worker.killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if worker.pidfd >= 0:
                signal.pidfd_send_signal(worker.pidfd, signal.SIGKILL)
            elif worker.pid:
                os.kill(worker.pid, signal.SIGKILL)

    def _finish(self, worker: Worker, report: dict) -> None:
        """Clean up after a worker that is gone, then tell the grader."""
        if self.workers.pop(worker.id, None) is None:
            return
        if "error" in report:
            self._kill(worker)
            wait_for_end(worker)
        with contextlib.suppress(KeyError):  # asked to kill it before
            self.selector.unregister(worker.client)
        if worker.pidfd >= 0:
            os.close(worker.pidfd)
        if worker.link is not None:
            with contextlib.suppress(KeyError):
                self.selector.unregister(worker.link)
            worker.link.close()
        if "status" in report:
            used = worker.family.used() if worker.family else None
            cpu = max(report["cpu"], used or 0.0)
            report = {"exit": how_it_ended(worker, report["status"], cpu)}
        if worker.group is not None:
            worker.group.remove()
        if worker.scratch:
            remove(worker.scratch)
        with contextlib.suppress(Closed):
            worker.client.send(report)
        worker.client.close()

    # -- events --------------------------------------------------------------------------------

    def serve(self) -> None:
        """Handle events until the grader is gone. Raises Closed."""
        self.selector.register(self.control, selectors.EVENT_READ, self._on_control)
        while True:
            for key, _ in self.selector.select(self._patience()):
                if self.selector.get_map().get(key.fd) is key:  # not ended by an earlier event
                    key.data()
            self.look_after(time.monotonic())

    def _patience(self) -> float | None:
        if not self.workers:
            return None
        if self.once or self.way == launch.WEAK or "memory" not in self.limited:
            return _TICK
        moments = [min(w.deadline, w.look) for w in self.workers.values() if w.family]
        rest = min(moments, default=math.inf) - time.monotonic()
        return min(max(0.0, rest) + 0.001, 3600.0)

    def _on_control(self) -> None:
        while True:
            message, fds = self.control.receive()
            if "spawn" not in message:
                raise Closed("closed by the grader")
            client = Channel(socket.socket(fileno=fds[1]))
            try:
                self.spawn(message["spawn"], fds[0], client)
            except OSError as error:
                client.send({"error": f"cannot prepare a worker: {error}"})
                client.close()
                os.close(fds[0])
            if not self.control.pending():
                return

    def _on_server(self) -> None:
        while True:
            try:
                message, fds = self.server.receive()
            except Closed:
                message, fds = {"died": 0, "why": "killed"}, []
            if "died" in message:
                why = f"the sandbox server died: {message['why']}"
                for worker in list(self.workers.values()):
                    self._finish(worker, {"error": why})
                raise Closed(why)
            self._on_reply(message, fds)
            if not self.server.pending():
                return

    def _on_reply(self, message: dict, fds: list[int]) -> None:
        if "started" in message:
            worker = self.workers[message["started"]]
            worker.pidfd = fds[0]
            worker.pid = watch.pid_of(fds[0])
            self._is_running(worker)
        elif "failed" in message:
            self._finish(self.workers[message["failed"]], {"error": message["why"]})
        else:
            self._finish(self.workers[message["ended"]], message)

    def _is_running(self, worker: Worker) -> None:
        worker.deadline = time.monotonic() + worker.limits["wall_seconds"]
        usage = worker.group.usage if worker.group else None
        worker.family = Family(worker.pid, usage)
        with contextlib.suppress(Closed):
            worker.client.send({"started": worker.pid, "usage": usage})
        if worker.killed:  # asked for before there was anything to kill
            self._kill(worker)

    def _on_link(self, worker: Worker, link: Channel) -> None:
        try:
            message, _ = link.receive()
            self._finish(worker, {"error": message["why"]})
        except Closed:  # its walls stand
            self.selector.unregister(link)
            self._is_running(worker)

    def _on_spare(self) -> None:
        self.selector.unregister(self.server)
        self._wait_until_ready()

    def _on_client(self, worker: Worker) -> None:
        with contextlib.suppress(Closed):
            worker.client.receive()
        self.selector.unregister(worker.client)
        self._kill(worker)

    def look_after(self, now: float) -> None:
        """What no descriptor tells: time, memory without a group, disk without a quota."""
        for worker in list(self.workers.values()):
            if now >= worker.deadline and not worker.reason:
                self._kill(worker, "wall")  # stops: waiting, sleeping, a lock never released
            if worker.family and now >= worker.look and not worker.reason:
                self._count_seconds(worker, now)
            if worker.pid and linux.LINUX and "memory" not in self.limited:
                limit = (worker.limits["memory_mib"] + worker.limits["scratch_mib"]) * _MIB
                if watch.memory(worker.pid, self.inherited) > limit:
                    self._kill(worker, "memory")  # stops: memory bombs of many processes
            if worker.scratch and not worker.reason:
                size = watch.folder_bytes(worker.scratch)
                if size > worker.limits["scratch_mib"] * _MIB:
                    self._kill(worker, "scratch")  # stops: filling the disk
            if worker.link is not None:
                pid, status, usage = os.wait4(worker.pid, os.WNOHANG)
                if pid:
                    cpu = usage.ru_utime + usage.ru_stime
                    self._finish(worker, {"status": status, "cpu": cpu})

    def _count_seconds(self, worker: Worker, now: float) -> None:
        family = worker.family
        used = family.used() if family else None
        if family is None or used is None:  # RLIMIT_CPU is left, for each process
            worker.look = math.inf
            return
        rest = worker.limits["cpu_seconds"] - used
        if rest <= 0:
            self._kill(worker, "cpu")  # stops: endless computation, by many processes too
        at_once = cgroup.CORES if "cpu" in self.limited else os.cpu_count() or 1
        # Where /proc is added up, often: it does not tell of those that have ended.
        worker.look = now + (max(_TICK, rest / at_once) if family.usage else _TICK)

    def close(self) -> None:
        """End everything that was started, and leave nothing behind."""
        self._stop_server()  # process 1 of the sandbox: all workers end with it
        for worker in list(self.workers.values()):
            self._finish(worker, {"error": "the sandbox was closed"})
        remove(self.base)
        os.close(self.lock)


def main(fd: int) -> None:
    """Serve on the control channel `fd` until the grader closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader, whose end ends this
    if linux.LINUX:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    control = Channel(socket.socket(fileno=fd))
    with contextlib.suppress(Closed):
        supervisor = Supervisor(control)
        try:
            supervisor.start()
            state = {"protections": supervisor.protections, "reasons": supervisor.reasons}
            control.send({"ready": state | {"way": supervisor.way}})
            supervisor.serve()
        except (WallsError, RuntimeError) as error:
            control.send({"error": str(error)})
        finally:
            supervisor.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
