"""Run a command with nothing of this machine in sight: what an attack on a peer is locked into.

    python peer_box.py CASE SHOWN... -- COMMAND...

CASE is the one folder that may be written, seen as /tmp/attack-peer; each SHOWN is a folder that
may be read, under its own path. To be started below `unshare` (see `command`), in namespaces of its
own. The graders that are tried have no walls of their own, so the walls around them are ours: no
network but its own loopback, a root of a few read-only folders, no capability, limits of memory,
processes, file size and processor time. Linux only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

SEEN_AS = "/tmp/attack-peer"
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ssl", "/etc/fonts")
FILES = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/hosts")
DEVICES = ("null", "zero", "full", "random", "urandom")
GIB = 2**30
LIMITS = {
    "RLIMIT_AS": 8 * GIB, "RLIMIT_NPROC": 400, "RLIMIT_FSIZE": GIB, "RLIMIT_CPU": 600,
    "RLIMIT_CORE": 0, "RLIMIT_NOFILE": 1024,
}  # fmt: skip
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18
_NOSUID, _NODEV, _RDONLY = 2, 4, 1
_AT_RECURSIVE, _MOUNT_SETATTR = 0x8000, 442
_libc = ctypes.CDLL(None, use_errno=True)


def command(case: Path, shown: Sequence[Path], inner: Sequence[str]) -> list[str]:
    """The whole command line that runs `inner` in the box."""
    spaces = ["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts"]
    box = [sys.executable, "-I", str(Path(__file__).resolve()), str(case), *map(str, shown)]
    return ["unshare", *spaces, "--fork", "--kill-child", *box, "--", *inner]


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    text = [s.encode() if s is not None else None for s in (source, target, kind, data)]
    if _libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {target}: {os.strerror(number)}")


def _read_only(target: str) -> None:
    attributes = struct.pack("=QQQQ", _RDONLY | _NOSUID, 0, 0, 0)
    code = _libc.syscall(
        _MOUNT_SETATTR, -100, target.encode(), _AT_RECURSIVE, attributes, len(attributes)
    )
    if code != 0:
        raise OSError(ctypes.get_errno(), f"cannot make {target} read-only")


def _show(root: str, path: str) -> None:
    """Bind `path` under its own name; a link (as /lib often is) becomes the same link."""
    if not os.path.lexists(path):
        return
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        open(target, "w").close()
    _mount(path, target, None, _BIND | _REC)
    _read_only(target)


def _build(root: str, case: str, shown: Sequence[str]) -> None:
    _mount("none", "/", None, _PRIVATE | _REC)
    _mount("tmpfs", root, "tmpfs", _NOSUID, "size=16m,mode=755")
    for name in ("tmp", "home", "var/tmp", "run", "proc", "dev/shm"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    for name in ("tmp", "home", "var/tmp", "run", "dev/shm"):
        _mount("tmpfs", f"{root}/{name}", "tmpfs", _NOSUID | _NODEV, "size=1g,mode=1777")
    for path in (*SYSTEM, *FILES, *shown):
        _show(root, path)
    for name in DEVICES:
        open(f"{root}/dev/{name}", "w").close()
        _mount(f"/dev/{name}", f"{root}/dev/{name}", None, _BIND)
    _mount("proc", f"{root}/proc", "proc", _NOSUID | _NODEV)
    os.makedirs(root + SEEN_AS)
    _mount(case, root + SEEN_AS, None, _BIND)


def _loopback() -> None:
    """A Jupyter kernel is spoken to on 127.0.0.1."""
    with socket.socket() as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh14s", b"lo", 1, b""))  # SIOCSIFFLAGS, IFF_UP


def main(arguments: Sequence[str]) -> None:
    split = arguments.index("--")
    case, *shown = arguments[:split]
    inner = arguments[split + 1 :]
    root = f"{case}.root"
    os.makedirs(root, exist_ok=True)
    _loopback()
    _build(root, case, shown)
    os.chroot(root)
    os.chdir(SEEN_AS)
    for name, value in LIMITS.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    for capability in range(64):
        _libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP: the next exec has none
    _libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    os.makedirs("/home/grader", exist_ok=True)
    environment = {
        "HOME": "/home/grader", "PATH": f"{Path(inner[0]).parent}:/usr/bin:/bin",
        "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "TMPDIR": "/tmp",
    }  # fmt: skip
    os.execve(inner[0], list(inner), environment)


if __name__ == "__main__":
    main(sys.argv[1:])
