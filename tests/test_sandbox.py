"""Every wall of the sandbox and every limit, tried from inside a worker.

The worker here is a stand-in that runs whatever source it is sent, as a hostile learner would.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.sandbox import (
    STOPS,
    Limits,
    available,
    cgroup,
    landlock,
    linux,
    rootfs,
    seccomp,
    watch,
)
from autograder.sandbox.forkserver import ForkServer, WorkerProcess

STAND_IN = """
import json

def main(sock):
    stream = sock.makefile("rw")
    scope = {}
    for line in stream:
        try:
            scope["result"] = None
            exec(json.loads(line), scope)
            reply = scope["result"]
        except BaseException as error:
            reply = {"raised": type(error).__name__, "errno": getattr(error, "errno", None)}
        stream.write(json.dumps(reply) + "\\n")
        stream.flush()
"""
SMALL = Limits(
    cpu_seconds=10, wall_seconds=20, memory_mib=200, processes=12, open_files=40, file_mib=4,
    scratch_mib=8,
)  # fmt: skip
NAMESPACES = {f"{n}-namespace" for n in watch.NAMESPACES.values()}

pytestmark = pytest.mark.skipif(not linux.SUPPORTED, reason="the walls are Linux's")


@pytest.fixture(scope="module")
def worker_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stand-in") / "worker.py"
    path.write_text(STAND_IN)
    return path


@pytest.fixture(scope="module")
def modes(worker_file: Path) -> Iterator[dict[str, ForkServer]]:
    os.environ["GRADER_SECRET"] = "hunter2"
    servers = {
        name: ForkServer(weak=name == "weak", preload=(), worker=[worker_file])
        for name in ("strong", "weak")
    }
    yield servers
    for server in servers.values():
        server.close()
    del os.environ["GRADER_SECRET"]


@pytest.fixture
def strong(modes: dict[str, ForkServer]) -> ForkServer:
    missing = NAMESPACES - set(modes["strong"].protections)
    if missing:
        pytest.skip(f"this machine refuses namespaces: {modes['strong'].reasons}")
    return modes["strong"]


@pytest.fixture
def weak(modes: dict[str, ForkServer]) -> ForkServer:
    return modes["weak"]


@pytest.fixture(params=["strong", "weak"])
def server(request: pytest.FixtureRequest) -> ForkServer:
    return request.getfixturevalue(request.param)


def need(server: ForkServer, name: str) -> None:
    if name not in server.protections:
        pytest.skip(f"no {name} here: {server.reasons.get(name)}")


def run(worker: WorkerProcess, source: str, timeout: float = 20.0) -> object:
    """What `source` leaves in `result`, or what it raised; None when the worker is gone."""
    worker.sock.settimeout(timeout)
    worker.sock.sendall(json.dumps(source).encode() + b"\n")
    line = worker.sock.makefile().readline()
    return json.loads(line) if line else None


def attempt(server: ForkServer, source: str, limits: Limits = SMALL) -> object:
    """run() in a worker of its own."""
    with server.spawn(limits) as worker:
        return run(worker, source)


def gone(pids: list[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def allowed(flags: int) -> bool:
    """Whether this user may make such namespaces at all, tried in a child."""
    child = os.fork()
    if child == 0:
        try:
            linux.unshare(flags)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def test_every_wall_that_this_machine_can_have_is_up(modes: dict[str, ForkServer]) -> None:
    """Else the tests below would be skipped, and a lost wall would go unnoticed."""
    strong, weak = set(modes["strong"].protections), set(modes["weak"].protections)
    assert {"seccomp", "rlimits"} <= strong & weak
    assert not NAMESPACES & weak
    if landlock.abi():
        assert "landlock" in strong & weak
    if allowed(linux.CLONE_NEWUSER | linux.CLONE_NEWNET | linux.CLONE_NEWPID):
        assert strong >= NAMESPACES
    groups = {c for place in cgroup.hierarchies() for c in place.controllers}
    assert ("cgroup" if "memory" in groups else "memory-watch") in strong & weak
    if os.geteuid() == 0 and strong >= NAMESPACES and rootfs.readable_by_everyone():
        assert "separate-user" in strong or not watch.is_mapped(64000, "uid")


# -- what a worker may see -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        __file__,
        str(rootfs.PROJECT / "pyproject.toml"),
        str(rootfs.PROJECT / "autograder" / "forkserver.py"),
        "/etc/shadow",
        "/etc/hostname",
        "/proc/sys/kernel/hostname",
        "/sys/kernel/notes",
    ],
)
def test_files_outside_python_cannot_be_read(server: ForkServer, path: str) -> None:
    need(server, "landlock")
    reply = attempt(server, f"open({path!r}, 'rb').read()")
    assert reply["raised"] in ("FileNotFoundError", "PermissionError"), reply


@pytest.mark.parametrize("path", ["/", "/home", "/root", "/tmp", "/dev/shm", str(rootfs.PROJECT)])
def test_folders_outside_python_cannot_be_listed(server: ForkServer, path: str) -> None:
    need(server, "landlock")
    reply = attempt(server, f"import os; result = os.listdir({path!r})")
    assert reply["raised"] in ("FileNotFoundError", "PermissionError"), reply


def test_python_itself_can_be_read_but_not_changed(server: ForkServer) -> None:
    reply = attempt(server, "import this, statistics; result = statistics.mean([1, 2, 3])")
    assert reply == 2
    reply = attempt(server, "import os; open(os.__file__, 'a')")
    assert reply["errno"] in (13, 30), reply  # EACCES, EROFS
    reply = attempt(server, "import os; os.remove(os.__file__)")
    assert reply["errno"] in (13, 30), reply


def test_the_project_is_hidden_even_inside_a_folder_python_needs(
    strong: ForkServer, worker_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Path(os.__file__).parent / "ensurepip"
    monkeypatch.setattr(rootfs, "PROJECT", inside)
    with ForkServer(preload=(), worker=[worker_file]) as server:
        assert attempt(server, f"import os; result = os.listdir({str(inside)!r})") == []


def test_links_from_site_packages_to_the_project_are_blank(strong: ForkServer) -> None:
    links = [str(p) for s in rootfs.site_folders() for p in Path(s).glob("*.pth")]
    if not links:
        pytest.skip("no .pth file among the site packages")
    source = f"result = [open(p).read() for p in {links!r}]"
    assert attempt(strong, source) == [""] * len(links)


def test_the_environment_holds_nothing_of_the_grader(server: ForkServer) -> None:
    reply = attempt(server, "import os; result = dict(os.environ)")
    assert "hunter2" not in json.dumps(reply)
    assert set(reply) <= {
        "HOME", "TMPDIR", "PATH", "LANG", "USER", "LOGNAME", "PYTHONHASHSEED", "OMP_NUM_THREADS",
        "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MPLBACKEND", "MPLCONFIGDIR",
        "TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES",
    }  # fmt: skip


def test_nothing_is_open_but_stdio_and_its_own_socket(server: ForkServer) -> None:
    source = """
import fcntl, os
result = []
for fd in range(4096):
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
        result.append(fd)
    except OSError:
        pass
"""
    assert attempt(server, source) == [0, 1, 2, 3]
    assert attempt(server, "import sys; result = sys.stdin.read()") == ""


def test_other_processes_are_not_in_proc(strong: ForkServer) -> None:
    with strong.spawn(SMALL), strong.spawn(SMALL) as worker:
        source = "import os; result = [n for n in os.listdir('/proc') if n.isdigit()]"
        assert run(worker, source) in (["1"], [])


def test_proc_cannot_be_read_without_a_namespace(weak: ForkServer) -> None:
    need(weak, "landlock")
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/cmdline", "/proc/self/maps"):
        assert attempt(weak, f"open({path!r})")["raised"] == "PermissionError"


def test_a_worker_sees_nothing_of_another(server: ForkServer) -> None:
    need(server, "landlock")
    with server.spawn(SMALL) as one, server.spawn(SMALL) as other:
        where = run(one, "import os; open('mine', 'w').write('x'); result = os.getcwd()")
        reply = run(other, f"result = open({where + '/mine'!r}).read()")
        assert reply["raised"] in ("FileNotFoundError", "PermissionError")
        assert run(other, "import os; result = os.listdir('.')") == []


# -- what a worker may do --------------------------------------------------------------------------

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


def test_a_worker_has_no_rights_and_its_own_namespaces(strong: ForkServer) -> None:
    with strong.spawn(SMALL) as worker:
        seen = watch.status(worker.pid)
        assert seen["CapEff"] == seen["CapPrm"] == "0000000000000000"
        assert (seen["NoNewPrivs"], seen["Seccomp"]) == ("1", "2")
        assert watch.own_namespaces(worker.pid) == set(watch.NAMESPACES.values())
        if os.geteuid() == 0 and "separate-user" in strong.protections:
            assert int(seen["Uid"].split()[0]) >= 64000
        assert run(worker, "import os; result = [os.getpid(), os.getuid()]") == [1, 65534]
        with strong.spawn(SMALL) as other:
            for kind in watch.NAMESPACES:
                here, there = (f"/proc/{w.pid}/ns/{kind}" for w in (worker, other))
                assert os.readlink(here) != os.readlink(there)


def test_everything_but_scratch_is_mounted_read_only(strong: ForkServer) -> None:
    with strong.spawn(SMALL) as worker:
        lines = Path(f"/proc/{worker.pid}/mountinfo").read_text().splitlines()
    mounts = [(line.split()[4], set(line.split()[5].split(","))) for line in lines]
    writable = {point for point, options in mounts if "ro" not in options}
    assert writable <= {"/scratch", "/proc", *(f"/dev/{n}" for n in rootfs._DEVICES)}
    assert all("nosuid" in o for p, o in mounts if not p.startswith("/dev/"))
    assert not any("shm" in p or str(rootfs.PROJECT) == p for p, _ in mounts)


@pytest.mark.parametrize("number", [0, signal.SIGKILL])
def test_signals_reach_nobody_else(server: ForkServer, number: int) -> None:
    need(server, "seccomp")
    with server.spawn(SMALL) as bystander, server.spawn(SMALL) as worker:
        parent = int(watch.status(worker.pid)["PPid"])
        for target in (bystander.pid, parent, os.getpid()):
            reply = run(worker, f"import os; os.kill({target}, {number})")
            assert reply["raised"] in ("PermissionError", "ProcessLookupError")
        run(worker, f"import os; os.kill(-1, {number})")
        assert run(bystander, "result = 1") == 1
    assert attempt(server, "result = 2") == 2


def test_the_server_cannot_be_written_to(server: ForkServer) -> None:
    need(server, "landlock")
    with server.spawn(SMALL) as worker:
        parent = int(watch.status(worker.pid)["PPid"])
        for target in (parent, 1, "self"):
            reply = run(worker, f"open('/proc/{target}/mem', 'r+b')")
            assert reply["raised"] in ("FileNotFoundError", "PermissionError")
        for target in (parent, 1):
            reply = run(worker, f"import os; result = os.listdir('/proc/{target}/fd')")
            assert isinstance(reply, dict) or target == 1  # 1 is itself, in a namespace
    assert attempt(server, "result = 2") == 2


# -- limits ----------------------------------------------------------------------------------------


def test_a_fork_bomb_stays_small_and_ends_with_its_worker(strong: ForkServer) -> None:
    source = """
import os, time
result = 0
for _ in range(60):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        result += 1
    except OSError:
        break
"""
    with strong.spawn(SMALL) as worker:
        count = run(worker, source)
        assert 1 <= count < SMALL.processes
        family = list(watch.family(worker.pid))
        assert len(family) == count + 1
        worker.kill()
        assert gone(family)


def test_without_a_pid_namespace_nothing_can_be_forked(weak: ForkServer) -> None:
    need(weak, "seccomp")
    assert attempt(weak, "import os; os.fork()")["raised"] == "PermissionError"


def test_a_process_that_detaches_itself_ends_with_its_worker(strong: ForkServer) -> None:
    source = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(60)
    os._exit(0)
time.sleep(0.2)
"""
    with strong.spawn(SMALL) as worker:
        run(worker, source)
        family = list(watch.family(worker.pid))
        assert len(family) >= 2
        worker.kill()
        assert gone(family)


def test_a_worker_that_exits_takes_its_children_along(strong: ForkServer) -> None:
    with strong.spawn(SMALL) as worker:
        run(worker, "import os, time; os.fork() or time.sleep(60)")
        family = list(watch.family(worker.pid))
        assert len(family) == 2
        worker.sock.sendall(json.dumps("import os; os._exit(7)").encode() + b"\n")
        assert (worker.exit().kind, worker.exit().code) == ("exited", 7)
        assert gone(family)


def test_one_process_that_takes_too_much_memory_gets_a_memory_error(server: ForkServer) -> None:
    source = "x = bytearray(400 << 20)"
    assert attempt(server, source)["raised"] == "MemoryError"
    assert attempt(server, "result = len(bytearray(100 << 20))") == 100 << 20


MEMORY_BOMB = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        x = bytearray(120 << 20)
        time.sleep(60)
x = bytearray(120 << 20)
time.sleep(60)
"""


@pytest.mark.parametrize("cgroups", [True, False], ids=["cgroup", "memory-watch"])
def test_processes_that_take_too_much_memory_together_are_killed(
    strong: ForkServer, worker_file: Path, cgroups: bool
) -> None:
    if cgroups:
        need(strong, "cgroup")
    with ForkServer(preload=(), worker=[worker_file], cgroups=cgroups) as server:
        assert ("cgroup" if cgroups else "memory-watch") in server.protections
        with server.spawn(SMALL) as worker, server.spawn(SMALL) as bystander:
            family_before = worker.pid
            assert run(worker, MEMORY_BOMB) is None
            assert worker.exit().kind == "memory"
            assert gone([family_before])
            assert run(bystander, "result = 1") == 1


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_printed_goes_nowhere_however_much_it_is(server: ForkServer, number: int) -> None:
    source = f"""
import os, stat
for _ in range(1 << 14):
    os.write({number}, b"x" * (1 << 16))  # 1 GiB in all
found = os.fstat({number})
result = [stat.S_ISCHR(found.st_mode), os.major(found.st_rdev), os.minor(found.st_rdev)]
"""
    with server.spawn(SMALL) as worker:
        assert run(worker, source) == [True, 1, 3]  # /dev/null: nobody has to read it
        assert run(worker, "print('more'); result = 1") == 1


def test_endless_computation_is_ended(server: ForkServer) -> None:
    with server.spawn(replace(SMALL, cpu_seconds=1)) as worker:
        start = time.monotonic()
        assert run(worker, "while True: pass") is None
        assert worker.exit().kind == "cpu"
        assert worker.exit().cpu_seconds == pytest.approx(1, abs=0.6)
        assert time.monotonic() - start < SMALL.wall_seconds


def test_endless_waiting_is_ended(server: ForkServer) -> None:
    with server.spawn(replace(SMALL, wall_seconds=0.3)) as worker:
        start = time.monotonic()
        source = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
        assert run(worker, source) is None
        assert worker.exit().kind == "wall"
        assert 0.2 < time.monotonic() - start < 5


def test_a_file_and_the_scratch_folder_cannot_grow_without_end(server: ForkServer) -> None:
    reply = attempt(server, "open('big', 'wb').write(b'x' * (5 << 20))")
    assert reply["errno"] == 27  # EFBIG
    source = """
for i in range(40):
    with open(f"f{i}", "wb") as f:
        f.write(b"x" * (1 << 20))
import time; time.sleep(5)
"""
    with server.spawn(SMALL) as worker:
        reply = run(worker, source)
        if "mount-namespace" in server.protections:
            assert reply["errno"] == 28  # ENOSPC
        else:
            assert (reply, worker.exit().kind) == (None, "scratch")


def test_files_without_number_are_refused(strong: ForkServer) -> None:
    source = "for i in range(20000): open(f'f{i}', 'w').close()"
    assert attempt(strong, source)["errno"] == 28


def test_descriptors_run_out(server: ForkServer) -> None:
    source = "import os\nfds = []\nwhile True: fds.append(os.dup(0))"
    assert attempt(server, source)["errno"] == 24  # EMFILE
    source = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (999, 999))"
    assert attempt(server, source)["raised"] in ("ValueError", "PermissionError")


def test_no_core_is_dumped(server: ForkServer) -> None:
    source = "import resource; result = resource.getrlimit(resource.RLIMIT_CORE)"
    assert attempt(server, source) == [0, 0]


# -- what is said about it -------------------------------------------------------------------------


def test_doctor_lists_every_wall_with_what_it_stops() -> None:
    found = {p.name: p for p in available(weak=True)}
    assert set(found) == set(STOPS)
    for name in NAMESPACES:
        assert (found[name].on, found[name].why) == (False, "asked for")
    for name in ("seccomp", "rlimits"):
        assert (found[name].on, found[name].why) == (True, "verified in a worker")


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


def test_groups_are_found_for_version_2_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group with processes cannot pass controllers on, so the place is beside it."""
    own = tmp_path / "user" / "session"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("")
    (tmp_path / "user" / "cgroup.subtree_control").write_text("cpu memory pids\n")
    files = {
        "/proc/self/cgroup": "0::/user/session\n",
        "/proc/self/mountinfo": f"30 24 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n",
    }
    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda p, **k: files.get(str(p)) or real(p, **k))
    places = cgroup._candidates()
    assert places == [cgroup.Hierarchy(2, ("memory", "pids"), tmp_path / "user")]
