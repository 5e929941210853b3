"""Every wall of the sandbox and every limit, tried from inside a worker.

System calls have a file of their own, and the worker too: `stand_in.py`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from stand_in import NAMESPACES, SMALL, attempt, need, run

from autograder.protections import PROTECTIONS
from autograder.sandbox import available, cgroup, landlock, linux, rootfs, watch
from autograder.sandbox.forkserver import ForkServer

pytestmark = pytest.mark.skipif(not linux.SUPPORTED, reason="the walls are Linux's")


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
    assert ("cpu-share" in strong & weak) == ("cpu" in groups)
    if os.geteuid() == 0 and strong >= NAMESPACES and rootfs.readable_by_everyone():
        assert "separate-user" in strong or not watch.is_mapped(64000, "uid")


# -- what a worker may see -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        __file__,
        str(rootfs.PROJECT / "pyproject.toml"),
        str(rootfs.PROJECT / "autograder" / "sandbox" / "forkserver.py"),
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
    strong: ForkServer, packages: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Path(os.__file__).parent / "ensurepip"
    monkeypatch.setattr(rootfs, "PROJECT", inside)
    with ForkServer(preload=(), worker=packages) as server:
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
            time.sleep(600)
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
        time.sleep(600)
    os._exit(0)
os.wait()
"""
    with strong.spawn(SMALL) as worker:
        run(worker, source)
        family = list(watch.family(worker.pid))
        assert len(family) >= 2
        worker.kill()
        assert gone(family)


def test_a_worker_that_exits_takes_its_children_along(strong: ForkServer) -> None:
    with strong.spawn(SMALL) as worker:
        run(worker, "import os, time; os.fork() or time.sleep(600)")
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
        time.sleep(600)
x = bytearray(120 << 20)
time.sleep(600)
"""


@pytest.mark.parametrize("cgroups", [True, False], ids=["cgroup", "memory-watch"])
def test_processes_that_take_too_much_memory_together_are_killed(
    strong: ForkServer, packages: dict[str, str], cgroups: bool
) -> None:
    if cgroups:
        need(strong, "cgroup")
    with ForkServer(preload=(), worker=packages, cgroups=cgroups) as server:
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
    with server.spawn(replace(SMALL, cpu_seconds=1, wall_seconds=600)) as worker:
        assert run(worker, "while True: pass", timeout=600) is None
        assert worker.exit().kind == "cpu"
        assert worker.exit().cpu_seconds == pytest.approx(1, abs=0.6)


BURN = """
import os, time
for _ in range({count}):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
time.sleep({seconds})
"""


@pytest.mark.parametrize("cgroups", [True, False], ids=["cgroup", "proc"])
def test_processor_time_is_that_of_all_processes_together(
    strong: ForkServer, packages: dict[str, str], cgroups: bool
) -> None:
    """Each of them is far below the limit."""
    if cgroups:
        need(strong, "cpu-share")
    limits = replace(SMALL, cpu_seconds=2, wall_seconds=600)
    with ForkServer(preload=(), worker=packages, cgroups=cgroups) as server:
        assert ("cpu-share" in server.protections) == cgroups
        with server.spawn(limits) as worker:
            assert run(worker, BURN.format(count=8, seconds=600), timeout=600) is None
            assert worker.exit().kind == "cpu"
            assert 2 <= worker.exit().cpu_seconds < 20


def test_the_grader_can_read_what_a_worker_has_used(server: ForkServer) -> None:
    source = """
import time, threading
def burn():
    while time.thread_time() < 0.2:
        pass
threads = [threading.Thread(target=burn) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    with server.spawn(SMALL) as worker:
        before, waited = worker.family.used(), worker.family.waited()
        run(worker, source)
        assert 0.5 < worker.family.used() - before < 2
        assert waited is None or worker.family.waited() > waited
        before = worker.family.used()
        run(worker, "import time; time.sleep(0.5)")
        assert worker.family.used() - before < 0.2


def test_a_worker_of_many_processes_has_no_more_than_about_one_core(strong: ForkServer) -> None:
    need(strong, "cpu-share")
    with strong.spawn(SMALL) as worker:
        run(worker, BURN.format(count=8, seconds=0))
        began, used = time.monotonic(), worker.family.used()
        time.sleep(1)
        used, took = worker.family.used() - used, time.monotonic() - began
        assert used < (cgroup.CORES + 0.2) * took


def test_endless_waiting_is_ended(server: ForkServer) -> None:
    with server.spawn(replace(SMALL, wall_seconds=0.3)) as worker:
        source = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
        assert run(worker, source, timeout=600) is None
        assert worker.exit().kind == "wall"


def test_a_file_and_the_scratch_folder_cannot_grow_without_end(server: ForkServer) -> None:
    reply = attempt(server, "open('big', 'wb').write(b'x' * (5 << 20))")
    assert reply["errno"] == 27  # EFBIG
    source = """
for i in range(40):
    with open(f"f{i}", "wb") as f:
        f.write(b"x" * (1 << 20))
import time; time.sleep(600)
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
    assert set(found) == set(PROTECTIONS)
    for name in NAMESPACES:
        assert (found[name].on, found[name].why) == (False, "asked for")
    for name in ("seccomp", "rlimits"):
        assert (found[name].on, found[name].why) == (True, "verified in a worker")


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
    assert places == [cgroup.Hierarchy(2, ("memory", "pids", "cpu"), tmp_path / "user")]
