"""The few Linux calls that Python has no name for: namespaces, mounts, capabilities.

Copied into the sandbox, so it imports the standard library only. Importing it works on every
system; calling it needs Linux on x86_64 or aarch64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

LINUX = sys.platform == "linux"
MACHINE = {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine(), platform.machine())
SUPPORTED = LINUX and MACHINE in ("x86_64", "aarch64") and sys.maxsize > 2**32

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_THREAD = 0x00010000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x2, 0x4, 0x8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_HUGE, _MADV_COLLAPSE = 2**21, 25
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 0x1, 0x2, 0x4

# Numbers that differ between the two machines; the newer calls share theirs.
NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "seccomp": 317},
    "aarch64": {"pivot_root": 41, "capset": 91, "seccomp": 277},
}.get(MACHINE, {})
NUMBERS |= {"mount_setattr": 442, "landlock_create_ruleset": 444}
NUMBERS |= {"landlock_add_rule": 445, "landlock_restrict_self": 446}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(name: str, *arguments: object) -> int:
    """Make the call `name` of NUMBERS; integers are passed as 64-bit. Raises OSError."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_libc.syscall(ctypes.c_long(NUMBERS[name]), *words), name)


def unshare(flags: int) -> None:
    """Move this process (for NEWPID: its next child) into new namespaces. Raises OSError."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that `fd` refers to. Raises OSError."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def prctl(option: int, argument: int = 0) -> None:
    """prctl(2) with one argument. Raises OSError."""
    words = [ctypes.c_ulong(w) for w in (argument, 0, 0, 0)]
    _check(_libc.prctl(ctypes.c_int(option), *words), f"prctl {option}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError naming the target."""
    words = [os.fsencode(w) if w else None for w in (source, target, kind)]
    options = os.fsencode(data) if data else None
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options), f"mount {kind} on {target}")


def unmount(target: str) -> None:
    """Detach what is mounted on `target`. Raises OSError."""
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(MNT_DETACH)), f"umount {target}")


def collapse_memory() -> None:
    """Back this process's private memory by huge pages, where the kernel can (Linux 6.1).

    A fork then copies one entry for 2 MiB in place of 512. Nothing else changes.
    """
    with open("/proc/self/maps") as maps:
        areas = [line.split() for line in maps]
    for span, access, _, _, _, *name in areas:
        if access == "rw-p" and name in ([], ["[heap]"]):
            first, last = (int(address, 16) for address in span.split("-"))
            first, last = -(-first // _HUGE) * _HUGE, last // _HUGE * _HUGE
            if first < last:
                _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_COLLAPSE)


def close_gaps() -> None:
    """Take the gaps in the C library's heap, so that what comes after a fork lies together.

    A fork copies every page that it writes to, and small gaps are strewn over hundreds of pages.
    Does nothing where the C library is not glibc, or older than 2.33.
    """
    if not hasattr(_libc, "mallinfo2"):
        return
    _libc.mallinfo2.restype = _HeapInfo
    _libc.malloc.restype = _libc.sbrk.restype = ctypes.c_void_p
    top = _libc.sbrk(0) - _libc.mallinfo2().keepcost  # from here on all is free
    for size in (*range(1 << 16, 1 << 10, -(1 << 11)), *range(1 << 10, 8, -16)):
        while (found := _libc.malloc(ctypes.c_size_t(size)) or 0) and found < top:
            pass
        _libc.free(ctypes.c_void_p(found))


class _HeapInfo(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(9)] + [("keepcost", ctypes.c_size_t)]


class _MountAttr(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("set", "clear", "propagation", "userns")]


def make_read_only(target: str, *, devices: bool = False) -> None:
    """Make the whole mount tree at `target` read-only, nosuid and (unless `devices`) nodev."""
    bits = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | (0 if devices else _MOUNT_ATTR_NODEV)
    attr = _MountAttr(set=bits)
    path = ctypes.c_char_p(os.fsencode(target))
    size = ctypes.sizeof(attr)
    syscall("mount_setattr", _AT_FDCWD, path, _AT_RECURSIVE, ctypes.byref(attr), size)


def pivot_root(new_root: str) -> None:
    """Make `new_root` (a mount point) the root and let go of the old one. Raises OSError."""
    os.chdir(new_root)
    dot = ctypes.c_char_p(b".")
    syscall("pivot_root", dot, dot)  # the old root is now stacked on the new one
    unmount(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability, for good once no_new_privs is set. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    syscall("capset", ctypes.byref(header), ctypes.byref(data))
