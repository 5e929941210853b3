"""Landlock: a process gives up every file access but a short list, for itself and its children.

The second wall behind the private file system, and the first where namespaces are refused.
Copied into the sandbox.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence

from . import linux

_READ_FILE, _READ_DIR, _WRITE_FILE, _TRUNCATE = 1 << 2, 1 << 3, 1 << 1, 1 << 14
_EXECUTE, _REFER, _IOCTL_DEV = 1 << 0, 1 << 13, 1 << 15
_READ = _READ_FILE | _READ_DIR
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2


class _RulesetAttr(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("files", "net", "scoped")]


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def abi() -> int:
    """The Landlock version of this kernel, 0 when there is none."""
    if not linux.SUPPORTED:
        return 0
    try:
        return linux.syscall("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def _handled(version: int) -> int:
    rights = (1 << 13) - 1  # version 1: execute, read, write, make, remove
    rights |= _REFER if version >= 2 else 0
    rights |= _TRUNCATE if version >= 3 else 0
    rights |= _IOCTL_DEV if version >= 5 else 0
    return rights


def restrict(
    readable: Sequence[str],
    writable: Sequence[str],
    devices: Sequence[str],
    programs: Sequence[str] = (),
) -> bool:
    """Allow reading below `readable`, all but execute below `writable`, read-write on `devices`,
    and to run `programs`.

    Paths that do not exist are left out. Returns False where the kernel has no Landlock.
    Needs no_new_privs. Raises OSError when the kernel has it and refuses.
    """
    version = abi()
    if not version:
        return False
    handled = _handled(version)
    attr = _RulesetAttr(files=handled)
    size = 8
    if version >= 4:  # stops: TCP, should a socket ever be had
        attr.net, size = _BIND_TCP | _CONNECT_TCP, 16
    if version >= 6:  # stops: signals and abstract sockets that leave this worker
        attr.scoped, size = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL, 24
    ruleset = linux.syscall("landlock_create_ruleset", ctypes.byref(attr), size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ)
        for path in writable:  # stops: running a program that was written or brought along
            _allow(ruleset, path, handled & ~(_EXECUTE | _IOCTL_DEV))
        for path in devices:
            _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE) & handled)
        for path in programs:
            _allow(ruleset, path, _READ_FILE | _EXECUTE)
        linux.syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what cannot be opened stays forbidden
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        rule = _PathRule(rights=rights, parent=fd)
        linux.syscall("landlock_add_rule", ruleset, 1, ctypes.byref(rule), 0)
    finally:
        os.close(fd)
