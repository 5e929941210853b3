"""The fork server's life: workers start, answer, end and leave nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autograder.sandbox import Exit, Limits, SandboxError, cgroup, ending, linux, watch
from autograder.sandbox.forkserver import ForkServer, WorkerProcess

STAND_IN = """
import json

def main(sock):
    for line in sock.makefile("r"):
        scope = {"result": None}
        exec(json.loads(line), scope)
        sock.sendall(json.dumps(scope["result"]).encode() + b"\\n")
"""
PROJECT = Path(__file__).resolve().parents[2]

linux_only = pytest.mark.skipif(not linux.LINUX, reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("stand-in")
    (folder / "serve.py").write_text(STAND_IN)
    return {"autograder.worker": str(folder)}


MODES = {
    "strong": {},
    "weak": {"weak": True},
    "fresh": {"fork": False},
}


@pytest.fixture(scope="module", params=MODES)
def server(request: pytest.FixtureRequest, packages: dict[str, str]) -> Iterator[ForkServer]:
    with ForkServer(preload=(), worker=packages, **MODES[request.param]) as server:
        yield server


def run(worker: WorkerProcess, source: str, timeout: float = 600.0) -> object:
    """What `source` leaves in `result`; None when the worker is gone."""
    worker.sock.settimeout(timeout)
    worker.sock.sendall(json.dumps(source).encode() + b"\n")
    line = worker.sock.makefile().readline()
    return json.loads(line) if line else None


def wait_for(condition: Callable[[], bool], seconds: float = 300.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def exists(pid: int) -> bool:
    """Whether it runs. One that has ended may wait as a zombie for an adoptive parent's notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def left_by(supervisor: int) -> set[str]:
    """Control groups and folders that one supervisor made and that are still there."""
    places = [p.folder for p in cgroup.hierarchies()] + [Path(tempfile.gettempdir())]
    return {str(f) for place in places for f in place.glob(f"autograder-{supervisor}-*")}


# -- one worker ------------------------------------------------------------------------------------


def test_a_worker_answers_until_it_is_killed(server: ForkServer) -> None:
    worker = server.spawn()
    assert run(worker, "result = 6 * 7") == 42
    worker.kill()
    assert worker.sock.recv(1) == b""
    assert (worker.exit().kind, worker.exit().signal) == ("signal", signal.SIGKILL)
    worker.kill()  # again: nothing happens
    worker.close()


def test_a_worker_ends_by_itself_when_its_socket_is_closed(server: ForkServer) -> None:
    worker = server.spawn()
    worker.sock.close()
    end = worker.exit(timeout=300)
    assert end == Exit(kind="exited", code=0, cpu_seconds=end.cpu_seconds)


@pytest.mark.parametrize(
    ("source", "kind", "code", "number"),
    [
        ("import os; os._exit(3)", "exited", 3, None),
        ("import sys; sys.exit(4)", "exited", 4, None),
        ("raise RuntimeError", "exited", 1, None),
        ("import ctypes; ctypes.string_at(0)", "signal", None, signal.SIGSEGV),
    ],
)
def test_how_a_worker_ended_is_told(
    server: ForkServer, source: str, kind: str, code: int | None, number: int | None
) -> None:
    with server.spawn() as worker:
        assert run(worker, source) is None
        end = worker.exit(timeout=300)
        assert (end.kind, end.code, end.signal) == (kind, code, number)


def test_abort_ends_a_worker(server: ForkServer) -> None:
    """As first process of a namespace it ignores SIGABRT; the C library then faults instead."""
    with server.spawn() as worker:
        assert run(worker, "import os; os.abort()") is None
        end = worker.exit(timeout=300)
        assert end.kind == "signal"
        assert end.signal in (signal.SIGABRT, signal.SIGSEGV, signal.SIGILL)


def test_exit_ends_a_worker_that_closed_its_socket_and_lives_on(server: ForkServer) -> None:
    with server.spawn() as worker:
        assert run(worker, "import os, time; os.close(3); time.sleep(60)") is None
        assert worker.exit(timeout=0.2).kind == "signal"


def test_every_worker_starts_from_the_same_state(server: ForkServer) -> None:
    with server.spawn() as worker:
        assert run(worker, "import json; json.loads = None; result = 1") == 1
    source = "import random; result = [random.random(), hash('x')]"
    with server.spawn() as one, server.spawn() as other:
        assert run(one, source)[1] == run(other, source)[1]


def test_several_workers_run_at_once(server: ForkServer) -> None:
    workers = [server.spawn() for _ in range(5)]
    assert [run(w, f"result = {i}") for i, w in enumerate(workers)] == list(range(5))
    workers[2].kill()
    assert [run(w, "result = 1") for i, w in enumerate(workers) if i != 2] == [1] * 4
    for worker in workers:
        worker.close()


@linux_only
def test_a_dropped_worker_is_ended(server: ForkServer) -> None:
    worker = server.spawn()
    pid = worker.pid
    del worker
    assert wait_for(lambda: not exists(pid))


@linux_only
def test_a_process_forked_from_the_grader_uses_the_same_server(server: ForkServer) -> None:
    assert server.protections
    out, out_in = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with server.spawn() as worker:
                os.write(out_in, str(run(worker, "result = 5")).encode())
            server.close()  # closes this process's handle only
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(out, 10) == b"5"
    os.close(out)
    os.close(out_in)
    with server.spawn() as worker:
        assert run(worker, "result = 6") == 6


# -- the whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_closing_ends_everything(mode: str, packages: dict[str, str]) -> None:
    with ForkServer(preload=(), worker=packages, **MODES[mode]) as server:
        workers = [server.spawn() for _ in range(3)]
        assert left_by(server._process.pid) or "cgroup" not in server.protections
    assert not any(exists(w.pid) for w in workers)
    assert left_by(server._process.pid) == set()
    with pytest.raises(SandboxError, match=r"closed|gone|died"):
        workers[0].exit()
    with pytest.raises(SandboxError, match="gone"):
        server.spawn()


GRADER = """
import sys, time
sys.path.insert(0, {project!r})
from autograder.sandbox.forkserver import ForkServer
server = ForkServer(preload=(), worker={worker!r}, **{options})
workers = [server.spawn() for _ in range(2)]
print(server._process.pid, *[w.pid for w in workers], flush=True)
time.sleep(3600)
"""


@linux_only
@pytest.mark.parametrize("mode", MODES)
def test_when_the_grader_is_killed_nothing_is_left(mode: str, packages: dict[str, str]) -> None:
    source = GRADER.format(project=str(PROJECT), worker=packages, options=MODES[mode])
    grader = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    pids = [int(p) for p in grader.stdout.readline().split()]
    assert len(pids) == 3
    grader.kill()
    grader.communicate()
    assert wait_for(lambda: not any(map(exists, pids)))
    assert wait_for(lambda: not left_by(pids[0]))


@linux_only
def test_when_the_grader_is_killed_during_the_start_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text("import time; time.sleep(3600)")
    packages = {"autograder.worker": str(tmp_path)}
    source = GRADER.format(project=str(PROJECT), worker=packages, options={})
    source = source.replace("workers =", "print(server._process.pid, flush=True)\nworkers =")
    grader = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    supervisor = int(grader.stdout.readline())
    assert wait_for(lambda: len(list(watch.family(supervisor))) > 1)
    family = list(watch.family(supervisor))
    grader.kill()
    grader.communicate()
    assert wait_for(lambda: not any(map(exists, family)))
    assert wait_for(lambda: not left_by(supervisor))


@linux_only
@pytest.mark.parametrize("mode", MODES)
def test_when_the_supervisor_is_killed_the_workers_end_and_it_is_said(
    mode: str, packages: dict[str, str]
) -> None:
    with ForkServer(preload=(), worker=packages, **MODES[mode]) as server:
        worker = server.spawn()
        server._process.kill()
        with pytest.raises(SandboxError, match="supervisor died"):
            worker.exit()
        assert wait_for(lambda: not exists(worker.pid))
        with pytest.raises(SandboxError):
            server.spawn()
    with ForkServer(preload=(), worker=packages, **MODES[mode]) as following:  # cleans up
        assert following.protections
        assert left_by(following._process.pid) or mode == "strong"
    assert left_by(server._process.pid) == set()


@linux_only
def test_a_folder_in_use_and_those_of_others_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "autograder-notes-mine").mkdir()
    (tmp_path / f"autograder-{2**22}-notes").mkdir()  # a person's own
    nobody = 2**22  # no process has so high a number
    (tmp_path / f"autograder-{nobody}-pointing").symlink_to(tmp_path / "autograder-notes-mine")
    gone, held = (tmp_path / f"autograder-{nobody + i}-leftover" for i in range(2))
    gone.mkdir()
    held.mkdir()
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder, own_lock = ending.own_folder()
    second, other_lock = ending.own_folder()
    assert not gone.exists() and held.is_dir()
    assert Path(folder).is_dir() and Path(second).is_dir()
    for descriptor in (lock, own_lock, other_lock):
        os.close(descriptor)
    assert (tmp_path / "autograder-notes-mine").is_dir()
    assert (tmp_path / f"autograder-{2**22}-notes").is_dir()


@linux_only
def test_when_the_server_is_killed_it_is_said(packages: dict[str, str]) -> None:
    with ForkServer(preload=(), worker=packages, weak=True) as server:
        worker = server.spawn()
        os.kill(int(watch.status(worker.pid)["PPid"]), signal.SIGKILL)
        with pytest.raises(SandboxError, match="server died"):
            worker.exit(timeout=300)
        assert wait_for(lambda: not exists(worker.pid))


def test_a_module_that_cannot_be_preloaded_is_named(packages: dict[str, str]) -> None:
    with (
        ForkServer(preload=("no_such_module",), worker=packages) as server,
        pytest.raises(SandboxError, match="no_such_module"),
    ):
        server.spawn()


def open_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def leaks(server: ForkServer, times: int) -> dict[str, tuple[float, float]]:
    """Before and after `times` workers: descriptors, processes, groups, mounts, memory in KiB."""

    def measure() -> dict[str, float]:
        supervisor = server._process.pid
        family = list(watch.family(supervisor))
        return {
            "descriptors of the grader": open_descriptors(os.getpid()),
            "descriptors beside it": sum(map(open_descriptors, family)),
            "processes": len(family),
            "groups and folders": len(left_by(supervisor)),
            "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
            "KiB": sum(int(watch.status(p)["VmRSS"].split()[0]) for p in family),
        }

    def work(count: int) -> None:
        for i in range(count):
            with server.spawn(Limits()) as worker:
                source = ("result = 1", "print('x' * 9999)", "import os; os._exit(1)")[i % 3]
                run(worker, source)

    work(10)
    time.sleep(0.2)
    before = measure()
    work(times)
    # The supervisor closes its end after telling us.
    wait_for(lambda: all(after <= before[k] for k, after in measure().items() if k != "KiB"), 60)
    after = measure()
    return {k: (before[k], after[k]) for k in before}


@linux_only
@pytest.mark.parametrize(
    "times", [30, pytest.param(300, marks=pytest.mark.soak)], ids=["30", "300"]
)
def test_nothing_leaks(packages: dict[str, str], times: int) -> None:
    for options in ({}, {"weak": True}):
        with ForkServer(preload=(), worker=packages, **options) as server:
            found = leaks(server, times)
        before, after = found.pop("KiB")
        assert after < before + 1500, found
        assert all(a <= b for b, a in found.values()), found


def test_torch_is_loaded_and_computes_in_a_worker(packages: dict[str, str]) -> None:
    pytest.importorskip("torch")
    import torch

    source = """
import sys, time
loaded = "torch" in sys.modules and "matplotlib.pyplot" in sys.modules
import torch, matplotlib, matplotlib.pyplot as plt
start = time.process_time()
x = torch.randn(512, 2048, generator=torch.Generator().manual_seed(0), requires_grad=True)
y = torch.nn.functional.layer_norm(x, (2048,))
(y @ y.T).sum().backward()
seconds = time.process_time() - start
figure, axes = plt.subplots()
axes.plot([1, 2, 3])
figure.savefig("figure.png")
result = [loaded, torch.get_num_threads(), float(x.grad.abs().sum()), seconds,
          torch.backends.cpu.get_cpu_capability(), matplotlib.get_backend().lower()]
"""
    with ForkServer(worker=packages) as server, server.spawn() as worker:
        loaded, threads, total, seconds, capability, backend = run(worker, source, 60)
    x = torch.randn(512, 2048, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.nn.functional.layer_norm(x, (2048,))
    (y @ y.T).sum().backward()
    assert (loaded, threads, backend) == (True, 1, "agg")
    assert total == pytest.approx(float(x.grad.abs().sum()), rel=1e-3)
    assert capability == torch.backends.cpu.get_cpu_capability()
    assert seconds < 5
