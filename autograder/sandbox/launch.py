"""Start the sandbox server: enter namespaces, build its file system, drop rights, exec Python.

Everything here runs before any untrusted code exists, in children of the supervisor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys

from . import linux, rootfs, server
from .channel import Channel, pair

FIRST_UID = 64000
_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
_PR_SET_DUMPABLE = 4
_START = "import sys; sys.path.insert(0, {!r}); from autograder.server import main; main()"


class WallsError(Exception):
    """A sandbox of this kind cannot be had on this machine."""


def environment(scratch: str) -> dict[str, str]:
    """All that the server and its workers find in their environment."""
    # stops: reading tokens and paths that the grader was started with
    return {
        "HOME": scratch, "TMPDIR": scratch, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
        "USER": "nobody", "LOGNAME": "nobody", "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "Agg", "MPLCONFIGDIR": scratch, "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip


# How the sandbox is entered, strongest first.
PRIVILEGED = "root mounts, then drops to an unprivileged user in a user namespace"
UNPRIVILEGED = "a user namespace first, mounts in it"
WEAK = "no namespaces"


def start(base: str, plan: dict, way: str, user: int | None) -> tuple[Channel, int]:
    """Start a server in the folder `base`; returns the channel to it and its process id.

    `way`: PRIVILEGED, UNPRIVILEGED or WEAK. `user`: the user and group id it drops to, None to
    keep this one's. What goes wrong before
    Python runs arrives on the channel as {"error": ..., "walls": true}.
    """
    ours, theirs = pair()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become_server(theirs, tell, base, plan, way, user)
        except BaseException as error:
            with contextlib.suppress(BaseException):
                theirs.send({"error": f"{type(error).__name__}: {error}", "walls": True})
        finally:
            os._exit(1)
    theirs.close()
    os.close(tell)
    pid = int(os.read(told, 32) or b"0") or child
    os.close(told)
    if pid != child:
        os.waitpid(child, 0)
    return ours, pid


def _become_server(
    channel: Channel, tell: int, base: str, plan: dict, way: str, user: int | None
) -> None:
    os.umask(0o022)
    home, scratch, pid_namespace = base, base, None
    if way == WEAK:
        _drop_to(user)
    else:
        proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
        (_privileged if way == PRIVILEGED else _unprivileged)(proc, tell, base, plan, user)
        pid_namespace = os.open("self/ns/pid", os.O_RDONLY, dir_fd=proc)
        home, scratch = "", server.SCRATCH
    os.chdir(scratch)
    _place_descriptors(channel.sock, pid_namespace)
    # Not -I: it would ignore PYTHONHASHSEED, and sets must be in one order for the whole class.
    # With an environment of ours, -P (no current folder) and -s (no user folder) are the rest.
    flags = ["-P", "-s", "-S", "-B", "-u"]
    code = _START.format(f"{home}/server")
    os.execve(plan["python"], [plan["python"], *flags, "-c", code], environment(scratch))


def _unprivileged(proc: int, tell: int, base: str, plan: dict, _: int | None) -> None:
    """Return in the first process of the new namespaces, its file system built."""
    _enter_user_namespace(proc)
    linux.unshare(_NAMESPACES | linux.CLONE_NEWPID)
    child = os.fork()
    if child:
        os.write(tell, str(child).encode())
        os._exit(0)
    rootfs.build(base, plan)
    rootfs.mount_proc(base)
    linux.pivot_root(base)


def _privileged(proc: int, tell: int, base: str, plan: dict, user: int | None) -> None:
    """As _unprivileged, but root mounts, so Python may lie where only root can go.

    The server's user namespace must own its pid namespace, or it could not give each worker one;
    so the server is made before its /proc, which this process then mounts for it.
    """
    linux.unshare(_NAMESPACES)
    rootfs.build(base, plan)
    linux.pivot_root(base)
    pid_out, pid_in = os.pipe()
    go_out, go_in = os.pipe()
    if os.fork() == 0:
        _drop_to(user)
        _enter_user_namespace(proc)
        linux.unshare(linux.CLONE_NEWPID)
        child = os.fork()
        if child:
            os.write(pid_in, str(child).encode())
            os._exit(0)
        os.close(go_in)
        if os.read(go_out, 1) != b"1":
            os._exit(1)
        return
    os.wait()
    os.close(pid_in)
    child_pid = os.read(pid_out, 32).decode()
    linux.setns(os.open(f"{child_pid}/ns/pid", os.O_RDONLY, dir_fd=proc), linux.CLONE_NEWPID)
    rootfs.mount_proc("/")
    os.write(tell, child_pid.encode())
    os.write(go_in, b"1")
    os._exit(0)


def _drop_to(user: int | None) -> None:
    if user is not None:  # stops: acting with the rights of the grader's own user
        os.setgroups([])
        os.setregid(user, user)
        os.setreuid(user, user)  # from root: the saved one too
        if linux.LINUX:
            linux.prctl(_PR_SET_DUMPABLE, 1)  # or its own /proc files would belong to root


def _enter_user_namespace(proc: int) -> None:
    """Become root of a new user namespace in which no other user exists. Raises OSError.

    `proc`: a descriptor of /proc, which may be out of sight.
    """
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER)
    lines = {"setgroups": "deny", "uid_map": f"0 {uid} 1", "gid_map": f"0 {gid} 1"}
    for name, line in lines.items():
        fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
        os.write(fd, line.encode())
        os.close(fd)


def _place_descriptors(control: socket.socket, pid_namespace: int | None) -> None:
    """Keep 0 to 2 (/dev/null), 3 (the channel) and 4 (the pid namespace); close the rest."""
    null = os.open("/dev/null", os.O_RDWR)
    last = null if pid_namespace is None else pid_namespace
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (null, null, null, control.fileno(), last)]
    for target, fd in enumerate(high):
        os.dup2(fd, target)
    os.closerange(5, max(high) + 1)
    os.closerange(max(high) + 1, server.highest_descriptor())
    sys.stdout = sys.stderr = None
