"""The filter on system calls: what it refuses, tried in a worker, and what it lets pass."""

from __future__ import annotations

import os
import signal
import socket
import sys

import pytest
from stand_in import SMALL, attempt, need, run

from autograder.sandbox import linux, seccomp
from autograder.sandbox.forkserver import ForkServer

pytestmark = pytest.mark.skipif(not linux.SUPPORTED, reason="the walls are Linux's")

CALLS = [
    ("ptrace", (16, 1)), ("process_vm_readv", (1,)), ("unshare", (linux.CLONE_NEWUSER,)),
    ("setns", (0, 0)), ("mount", (0, 0, 0, 0, 0)), ("umount2", (0, 0)), ("pivot_root", (0, 0)),
    ("open_by_handle_at", (0, 0, 0)), ("keyctl", (0, 0)), ("bpf", (0, 0, 0)),
    ("perf_event_open", (0, 0, -1, -1, 0)), ("userfaultfd", (0,)), ("io_uring_setup", (1, 0)),
    ("init_module", (0, 0, 0)), ("kexec_load", (0, 0, 0, 0)), ("reboot", (0, 0, 0)),
    ("swapon", (0, 0)), ("socket", (1, 1, 0)), ("connect", (3, 0, 0)), ("bind", (3, 0, 0)),
    ("memfd_create", (0, 0)), ("shmget", (0, 4096, 0o1600)), ("pidfd_open", (1, 0)),
    ("execve", (0, 0, 0)), ("clone", (linux.CLONE_NEWUSER | 17, 0, 0, 0, 0)),
    ("clone", (linux.CLONE_NEWNET | 17, 0, 0, 0, 0)), ("prlimit64", (4242, 7, 0, 0)),
    ("prlimit64", (0, 0, 1, 0)), ("setrlimit", (0, 1)),
    ("flock", (3, 2)), ("sync", ()), ("syncfs", (3,)), ("fadvise64", (3, 0, 0, 4)),
    ("mlock", (0, 4096)), ("mlock2", (0, 4096, 0)), ("mlockall", (1,)), ("io_setup", (1, 0)),
    ("fanotify_init", (0, 0)), ("inotify_init1", (0,)), ("cachestat", (3, 0, 0, 0)),
    ("setpriority", (0, 0, 0)), ("ioprio_set", (1, 0, 0)), ("sched_setaffinity", (1, 8, 0)),
]  # fmt: skip


def call(name: str, arguments: tuple[int, ...]) -> str:
    column = 0 if linux.MACHINE == "x86_64" else 1
    table = {e.split()[0]: e.split()[1:] for t in seccomp.DENIED.values() for e in t.split(";")}
    table |= {k: [str(n) for n in v] for k, v in seccomp._CHECKED.items()}
    words = ", ".join(f"ctypes.c_long({a})" for a in (table[name][column], *arguments))
    return f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
value = libc.syscall({words})
result = [value, ctypes.get_errno()]
"""


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{c[0]}{c[1]}" for c in CALLS])
def test_dangerous_calls_are_refused_by_the_filter(
    server: ForkServer, name: str, arguments: tuple[int, ...]
) -> None:
    need(server, "seccomp")
    assert attempt(server, call(name, arguments)) == [-1, 1]  # EPERM


def test_calls_whose_arguments_cannot_be_seen_and_newer_calls_do_not_exist(
    server: ForkServer,
) -> None:
    need(server, "seccomp")
    assert attempt(server, call("clone3", (0, 0))) == [-1, 38]  # ENOSYS
    source = call("clone3", (0, 0)).replace("c_long(435)", "c_long(1000)")
    assert attempt(server, source) == [-1, 38]


@pytest.mark.skipif(linux.MACHINE != "x86_64", reason="only x86_64 has a second numbering")
def test_the_second_numbering_of_calls_kills(server: ForkServer) -> None:
    need(server, "seccomp")
    with server.spawn(SMALL) as worker:
        source = f"import ctypes; ctypes.CDLL(None).syscall({0x40000000 + 39})"
        assert run(worker, source) is None
        assert (worker.exit().kind, worker.exit().signal) == ("signal", signal.SIGSYS)


# On a folder or a file that others use: to watch it, to lock it, to hold up who opens it, and to
# have signals sent to others. Numbers of Linux, as fcntl(2) and ioctl(2) tell them.
FCNTL = {
    "F_NOTIFY": 1026, "F_SETLK": 6, "F_SETLKW": 7, "F_OFD_SETLK": 37, "F_OFD_SETLKW": 38,
    "F_SETLEASE": 1024, "F_SETOWN": 8, "F_SETOWN_EX": 15, "F_SETSIG": 10, "F_SETPIPE_SZ": 1031,
}  # fmt: skip
IOCTL = {
    "FIOSETOWN": 0x8901,
    "SIOCSPGRP": 0x8902,
    "FIOASYNC": 0x5452,
    "FS_IOC_SETFLAGS": 0x40086602,
}


@pytest.mark.parametrize("name", [*FCNTL, *IOCTL])
def test_commands_that_reach_others_by_a_descriptor_are_refused(
    server: ForkServer, name: str
) -> None:
    need(server, "seccomp")
    source = f"""
import fcntl, os
fd = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
fcntl.{"fcntl" if name in FCNTL else "ioctl"}(fd, {FCNTL.get(name) or IOCTL[name]}, 0)
"""
    assert attempt(server, source)["errno"] == 1  # EPERM: the filter's, not the file's


def test_ordinary_commands_of_descriptors_are_allowed(server: ForkServer) -> None:
    source = """
import fcntl, os, socket, sys
copy = os.dup(0)
os.set_inheritable(copy, True)
os.set_blocking(copy, False)
left, right = socket.socketpair()
left.settimeout(1)
right.sendall(b"xyz")
count = bytearray(4)
fcntl.ioctl(left.fileno(), 0x541B, count)  # FIONREAD
try:
    size = os.get_terminal_size(1)
except OSError as error:
    size = error.errno
result = [os.get_blocking(copy), os.get_inheritable(copy), sys.stdout.isatty(), count[0], size]
"""
    assert attempt(server, source) == [False, True, False, 3, 25]  # ENOTTY


def test_ordinary_computing_is_allowed(server: ForkServer) -> None:
    source = """
import concurrent.futures, os, random, signal, socket, tempfile, threading, time
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    total = sum(pool.map(abs, range(-5, 5)))
with tempfile.NamedTemporaryFile("w+") as file:
    file.write("kept"); file.flush(); file.seek(0)
    text = file.read()
left, right = socket.socketpair()
left.sendall(b"x")
caught = []
signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.05)
os.urandom(4), random.random(), open("/dev/null").read()
result = [total, text, right.recv(1).decode(), caught]
"""
    assert attempt(server, source) == [25, "kept", "x", [1]]


def test_no_program_can_be_started(server: ForkServer) -> None:
    for path in ("/bin/true", sys.executable, "/usr/bin/sudo"):
        reply = attempt(server, f"import os; os.execv({path!r}, ['x'])")
        assert reply["raised"] in ("FileNotFoundError", "PermissionError")
    source = "import subprocess; subprocess.run(['/bin/true'])"
    assert attempt(server, source)["raised"] in (
        "FileNotFoundError", "PermissionError", "BlockingIOError",
    )  # fmt: skip


def test_there_is_no_network_and_no_way_to_a_local_service(server: ForkServer) -> None:
    need(server, "seccomp")
    name = f"\0autograder-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(name)
        service.setblocking(False)
        for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"):
            reply = attempt(server, f"import socket; socket.socket(socket.{family})")
            assert reply["raised"] == "PermissionError"
        source = f"""
import socket
pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
pair[0].sendto(b"out", {name!r})
"""
        assert attempt(server, source)["raised"] == "PermissionError"
        source = f"""
import socket
pair = socket.socketpair()
pair[0].sendto(b"out", {name!r})
"""
        assert attempt(server, source)["raised"] == "PermissionError"
        with pytest.raises(BlockingIOError):
            service.recv(10)


def test_the_filter_knows_each_call_once() -> None:
    denied = seccomp.DENIED | seccomp.DENIED_AMONG_OTHERS_FILES
    entries = [e.split() for text in denied.values() for e in text.split(";")]
    names = [e[0] for e in entries] + list(seccomp._CHECKED)
    assert len(names) == len(set(names))
    for column in (1, 2):
        numbers = [e[column] for e in entries if e[column] != "-"]
        assert len(numbers) == len(set(numbers))


def verdict(program: list[seccomp.Instruction], number: int, *arguments: int) -> int:
    """What the kernel would answer: runs the filter on one call."""
    words = [number, seccomp._ARCH[linux.MACHINE], 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        words += [argument & 0xFFFFFFFF, argument >> 32]
    at, value = 0, 0
    while True:
        code, yes, no, operand = program[at]
        at += 1
        match code:
            case seccomp._LOAD:
                value = words[operand // 4]
            case seccomp._AND:
                value &= operand
            case seccomp._RET:
                return operand
            case seccomp._JEQ:
                at += yes if value == operand else no
            case seccomp._JGE:
                at += yes if value >= operand else no
            case seccomp._JGT:
                at += yes if value > operand else no
            case seccomp._JSET:
                at += yes if value & operand else no


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides_by_the_arguments(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "MACHINE", machine)
    column = 0 if machine == "x86_64" else 1
    nr = {name: numbers[column] for name, numbers in seccomp._CHECKED.items()}
    inside, alone = seccomp.program(None), seccomp.program(own_pid=77)
    allow, deny = seccomp._ALLOW, seccomp._DENY
    thread = linux.CLONE_THREAD | 0xF00
    for name, arguments, in_namespace, without in [
        ("kill", (77, 9), allow, allow),
        ("kill", (78, 9), allow, deny),
        ("kill", ((1 << 64) - 1, 9), allow, deny),
        ("tgkill", (78, 78, 9), allow, deny),
        ("rt_sigqueueinfo", (78, 9, 0), allow, deny),
        ("clone", (17,), allow, deny),
        ("clone", (thread,), allow, allow),
        ("clone", (thread | linux.CLONE_NEWUSER,), deny, deny),
        ("clone", (17 | linux.CLONE_NEWNET,), deny, deny),
        ("clone3", (), seccomp._ABSENT, seccomp._ABSENT),
        ("prlimit64", (0, 7, 0), allow, allow),
        ("prlimit64", (0, 7, 0x1000), deny, deny),
        ("prlimit64", (0, 7, 1 << 32), deny, deny),
        ("prlimit64", (78, 7), deny, deny),
        ("fcntl", (3, 1), allow, allow),
        ("fcntl", (3, 1026), deny, deny),
        ("ioctl", (3, 0x5401), allow, allow),
        ("ioctl", (3, 0x5412), deny, deny),
        ("ioctl", (3, 0x8901), deny, deny),
        ("sendto", (3, 0, 1, 0, 0, 0), allow, allow),
        ("sendto", (3, 0, 1, 0, 0x1000, 8), deny, deny),
        ("sendto", (3, 0, 1, 0, 1 << 32, 8), deny, deny),
        ("socketpair", (1, 1, 0), allow, allow),
        ("socketpair", (1, 1 | 0o2000000, 0), allow, allow),  # SOCK_CLOEXEC
        ("socketpair", (1, 2, 0), deny, deny),
        ("socketpair", (2, 1, 0), deny, deny),
    ]:
        assert verdict(inside, nr[name], *arguments) == in_namespace, (name, arguments)
        assert verdict(alone, nr[name], *arguments) == without, (name, arguments)
    for number in seccomp._denied_numbers(None):
        assert verdict(inside, number) == verdict(alone, number) == deny
    # Where a worker sees the grader's files, their dates and modes are out of reach too.
    utimensat = {"x86_64": 280, "aarch64": 88}[machine]
    assert (verdict(inside, utimensat), verdict(alone, utimensat)) == (allow, deny)
    read = 0 if machine == "x86_64" else 63
    assert verdict(alone, read) == allow
    assert verdict(alone, seccomp._NEWEST_KNOWN + 1) == seccomp._ABSENT
