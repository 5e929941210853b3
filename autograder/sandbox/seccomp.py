"""seccomp: the system calls that a worker may not make, as a filter the kernel runs.

A list of what is denied, not of what is allowed: torch and its threads may use whatever computes.
Calls newer than the list are denied as well. Copied into the sandbox.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import struct

from . import linux

# attack it stops -> calls, each `name x86_64 aarch64` (- where the machine lacks it)
DENIED = {
    "reading or steering another process": """
        ptrace 101 117; process_vm_readv 310 270; process_vm_writev 311 271; kcmp 312 272;
        pidfd_open 434 434; pidfd_getfd 438 438; pidfd_send_signal 424 424; tkill 200 130;
        process_madvise 440 440; process_mrelease 448 448; move_pages 279 239;
        migrate_pages 256 238; setpriority 141 140; sched_setparam 142 118;
        sched_setscheduler 144 119; sched_setattr 314 274; ioprio_set 251 30""",
    "an end that looks as if the machine had brought it about": "setrlimit 160 164",
    "changing the file system it sees": """
        mount 165 40; umount2 166 39; pivot_root 155 41; chroot 161 51; fsopen 430 430;
        fsconfig 431 431; fsmount 432 432; fspick 433 433; open_tree 428 428; move_mount 429 429;
        mount_setattr 442 442; statmount 457 457; listmount 458 458; name_to_handle_at 303 264;
        open_by_handle_at 304 265; quotactl 179 60; quotactl_fd 443 443; swapon 167 224;
        swapoff 168 225; mknod 133 -; mknodat 259 33""",
    "watching which files the grader opens": """
        inotify_init 253 -; inotify_init1 294 26; inotify_add_watch 254 27;
        fanotify_init 300 262; fanotify_mark 301 263; cachestat 451 451""",
    "making others wait: for shared files, the disk, memory, what the machine has few of": """
        flock 73 32; sync 162 81; syncfs 306 267; fadvise64 221 223; mlock 149 228;
        mlock2 325 284; mlockall 151 230; io_setup 206 0""",
    "a namespace in which it would be root": "unshare 272 97; setns 308 268",
    "network, and host services on local sockets": """
        socket 41 198; connect 42 203; bind 49 200; listen 50 201; accept 43 202;
        accept4 288 242""",
    "starting another program (setuid ones, compilers, shells)": """
        execve 59 221; execveat 322 281; uselib 134 -""",
    "memory that outlives it or escapes its limits": """
        shmget 29 194; shmat 30 196; shmctl 31 195; semget 64 190; semop 65 193; semctl 66 191;
        semtimedop 220 192; msgget 68 186; msgsnd 69 189; msgrcv 70 188; msgctl 71 187;
        mq_open 240 180; mq_unlink 241 181; memfd_create 319 279; memfd_secret 447 447;
        add_key 248 217; request_key 249 218; keyctl 250 219""",
    "large kernel interfaces with a history of holes": """
        bpf 321 280; perf_event_open 298 241; userfaultfd 323 282; io_uring_setup 425 425;
        io_uring_enter 426 426; io_uring_register 427 427;
        lookup_dcookie 212 18; modify_ldt 154 -; personality 135 92; nfsservctl 180 42""",
    "changing the machine": """
        init_module 175 105; finit_module 313 273; delete_module 176 106; kexec_load 246 104;
        kexec_file_load 320 294; reboot 169 142; syslog 103 116; acct 163 89;
        settimeofday 164 170; clock_settime 227 112; adjtimex 159 171; clock_adjtime 305 266;
        sethostname 170 161; setdomainname 171 162; vhangup 153 58; iopl 172 -; ioperm 173 -""",
}
# Denied as well where there is no mount namespace: Landlock has no right for these.
DENIED_AMONG_OTHERS_FILES = {
    "changing dates, modes and owners of the grader's files": """
        chmod 90 -; fchmod 91 52; fchmodat 268 53; fchmodat2 452 452; chown 92 -; fchown 93 55;
        lchown 94 -; fchownat 260 54; utime 132 -; utimes 235 -; futimesat 261 -;
        utimensat 280 88; setxattr 188 5; lsetxattr 189 6; fsetxattr 190 7; removexattr 197 14;
        lremovexattr 198 15; fremovexattr 199 16""",
}
# Looked into further: allowed with some arguments only.
_CHECKED = {
    "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "clone3": (435, 435),
    "kill": (62, 129), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "prlimit64": (302, 261), "sched_setaffinity": (203, 122),
    "sendto": (44, 206), "socketpair": (53, 199), "fcntl": (72, 25), "ioctl": (16, 29),
}  # fmt: skip
# Of the two calls that have hundreds of commands a worker needs these: copies and flags of a
# descriptor, whether it is a terminal and how wide, how much there is to read.
_FCNTL = (0, 1, 2, 3, 4, 1030, 1032)  # F_DUPFD to F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
_IOCTL = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# ^ TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_NEWEST_KNOWN = 462
_NEW_NAMESPACES = (
    linux.CLONE_NEWNS | linux.CLONE_NEWCGROUP | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER | linux.CLONE_NEWPID | linux.CLONE_NEWNET
)  # fmt: skip

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _AND, _RET = 0x20, 0x54, 0x06
_JEQ, _JGE, _JGT, _JSET = 0x15, 0x35, 0x25, 0x45
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DENY = _ERRNO | errno.EPERM
_ABSENT = _ERRNO | errno.ENOSYS

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def _ret(value: int) -> Instruction:
    return (_RET, 0, 0, value)


def _load_argument(index: int, *, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index + (4 if high else 0))


def _only(index: int, *values: int) -> list[Instruction]:
    """Allow the call when the low word of argument `index` is one of `values`, or deny it."""
    allowed = [one for value in values for one in ((_JEQ, 0, 1, value), _ret(_ALLOW))]
    return [_load_argument(index), *allowed, _ret(_DENY)]


def _checks(own_pid: int | None) -> dict[str, list[Instruction]]:
    """What is done for each call of _CHECKED; every list ends in a verdict."""
    clone = [_load_argument(0), (_JSET, 0, 1, _NEW_NAMESPACES), _ret(_DENY)]
    if own_pid is None:
        clone += [_ret(_ALLOW)]
    else:  # stops, where that is asked for: processes that outlive the worker
        clone += [(_JSET, 0, 1, linux.CLONE_THREAD), _ret(_ALLOW), _ret(_DENY)]
    # its flags lie in memory, out of a filter's sight; absent makes the C library use clone
    checks = {"clone": clone, "clone3": [_ret(_ABSENT)]}
    # stops: processors of other processes
    checks["sched_setaffinity"] = _only(0, 0)
    # stops: watching folders (F_NOTIFY), locks and leases on files that others use, and signals to
    # other processes by way of a descriptor's owner (F_SETOWN, F_SETSIG; FIOSETOWN, SIOCSPGRP)
    checks["fcntl"], checks["ioctl"] = _only(1, *_FCNTL), _only(1, *_IOCTL)
    # stops: limits of other processes, and new ones of its own: the kernel would keep them
    checks["prlimit64"] = [
        _load_argument(0), (_JEQ, 0, 5, 0), _load_argument(2), (_JEQ, 0, 3, 0),
        _load_argument(2, high=True), (_JEQ, 0, 1, 0), _ret(_ALLOW), _ret(_DENY),
    ]  # fmt: skip
    # stops: a datagram pair, which could send to any local socket by its address
    checks["sendto"] = [
        _load_argument(4), (_JEQ, 0, 3, 0),
        _load_argument(4, high=True), (_JEQ, 0, 1, 0), _ret(_ALLOW), _ret(_DENY),
    ]  # fmt: skip
    checks["socketpair"] = [
        _load_argument(0), (_JEQ, 0, 4, 1),
        _load_argument(1), (_AND, 0, 0, 0xF), (_JEQ, 0, 1, 1), _ret(_ALLOW), _ret(_DENY),
    ]  # fmt: skip
    if own_pid is not None:
        checks["fork"] = checks["vfork"] = [_ret(_DENY)]
        # stops, without a pid namespace: signals to the server, other workers, the grader
        for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            checks[name] = _only(0, own_pid)
    return checks


def _denied_numbers(own_pid: int | None, may_run: bool = False) -> list[int]:
    column = 1 if linux.MACHINE == "x86_64" else 2
    denied = DENIED if own_pid is None else DENIED | DENIED_AMONG_OTHERS_FILES
    entries = [e.split() for text in denied.values() for e in text.split(";")]
    allowed = {"execve"} if may_run else set()
    return [int(e[column]) for e in entries if e[column] != "-" and e[0] not in allowed]


def program(own_pid: int | None, may_run: bool = False) -> list[Instruction]:
    """The filter. `own_pid` None: in a pid namespace of its own it may fork and send signals.

    `may_run`: programs may be started, which Landlock then names.
    """
    code = [(_LOAD, 0, 0, 4), (_JEQ, 1, 0, _ARCH[linux.MACHINE]), _ret(_KILL), (_LOAD, 0, 0, 0)]
    if linux.MACHINE == "x86_64":  # stops: the same calls under their 32-bit (x32) numbers
        code += [(_JGE, 0, 1, 0x40000000), _ret(_KILL)]
    code += [(_JGT, 0, 1, _NEWEST_KNOWN), _ret(_ABSENT)]
    for number in _denied_numbers(own_pid, may_run):
        code += [(_JEQ, 0, 1, number), _ret(_DENY)]
    for name, block in _checks(own_pid).items():
        checked = _CHECKED[name][0 if linux.MACHINE == "x86_64" else 1]
        if checked is not None:
            code += [(_JEQ, 0, len(block), checked), *block]
    return [*code, _ret(_ALLOW)]


@functools.lru_cache(maxsize=2)
def packed(own_pid: int | None, may_run: bool = False) -> bytes:
    """`program` as the kernel reads it; 8 bytes an instruction."""
    code = program(own_pid, may_run)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(own_pid: int | None, *, may_run: bool = False) -> None:
    """Put the filter on this process for good. Needs no_new_privs. Raises OSError."""
    code = packed(own_pid, True) if may_run else packed(own_pid)
    buffer = ctypes.create_string_buffer(code, len(code))
    prog = _Program(length=len(code) // 8, filter=ctypes.cast(buffer, ctypes.c_char_p))
    linux.syscall("seccomp", 1, 0, ctypes.byref(prog))
