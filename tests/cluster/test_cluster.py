"""Units on a Dask cluster: the same results as here, nothing lost, nothing forged.

Most tests run a real cluster of two processes whose suite runner is `FakeRunner`: what it does with
a notebook is written in the notebook.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import dask
import pytest
from distributed import Client, LocalCluster, WorkerPlugin
from pretended import SUITE, VERSION, result_of

from autograder import cluster, versions
from autograder.cluster import Cluster, dask_worker
from autograder.errors import EngineError
from autograder.grading import engine
from autograder.grading.engine import Submitted


class FakeRunner:
    """In place of engine.Runner on the workers; obeys the notebook."""

    protections = ("namespaces", "seccomp")
    version = VERSION

    def __init__(self, assignment: str, jobs: int, weak: bool) -> None:
        if assignment == "broken":
            raise EngineError("no assignment named 'broken'")
        self.hello = {
            "ready": True, "protections": list(self.protections), "suite_version": self.version,
            "max_score": 3.0, "exercises": SUITE["exercises"],
        }  # fmt: skip
        self.busy = False

    def put(self, number: int, path: Path, seed: int) -> None:
        assert not self.busy, "two units on one runner"
        self.busy, self.data = True, path.read_bytes()

    def get(self) -> tuple[int, dict] | None:
        order = json.loads(self.data)
        time.sleep(order.get("sleep", 0))
        self.busy = False
        marks = Path(order.get("marks", "/nowhere"))
        times = len(list(marks.glob("*"))) if marks.is_dir() else 0
        if times < order.get("times", 0):
            (marks / f"{os.getpid()}-{time.monotonic_ns()}").touch()
            match order["do"]:
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "die":
                    return None
                case "forge":
                    result = result_of(self.data, passed=False)
                    return 0, result | {"score": 3.0}
        return 0, result_of(self.data, order.get("passed", True))

    def close(self) -> None:
        pass


class Fake(WorkerPlugin):
    """Puts FakeRunner into each worker as it starts; some differ."""

    name = "fake"

    def __init__(self, **changes) -> None:
        self.changes = changes
        # Those here; the files may change while tests run.
        self.grader, self.software = dask_worker.VERSION, dask_worker.SOFTWARE

    def setup(self, worker) -> None:
        changes = dict(self.changes) if str(worker.name) == "1" else {}
        grader = changes.pop("grader", self.grader)
        dask_worker.VERSION = grader
        versions.grader = lambda: grader
        dask_worker.SOFTWARE = changes.pop("software", self.software)
        dask_worker._idle.clear()
        engine.Runner = type("FakeRunner", (FakeRunner,), changes)


# Dask takes a process that a busy machine lets wait for a lost one.
PATIENT = {
    "distributed.scheduler.allowed-failures": 1,
    "distributed.comm.timeouts.connect": "900s",
}  # fmt: skip


@contextlib.contextmanager
def two_workers():
    with (
        dask.config.set(PATIENT),
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, host="127.0.0.1",
            dashboard_address=":0", silence_logs=50,
        ) as local,
    ):  # fmt: skip
        yield local.scheduler_address


@pytest.fixture(scope="module")
def scheduler():
    with two_workers() as address:
        yield address


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(cluster, "REACH_SECONDS", 600.0)
    monkeypatch.setattr(cluster, "START_SECONDS", 1800.0)


def register(client: Client, plugin: Fake) -> None:
    for _ in range(100):
        client.wait_for_workers(2, timeout=600)  # an earlier test may have killed one
        with contextlib.suppress(OSError):  # which the scheduler has not seen yet
            return client.register_plugin(plugin)
        time.sleep(0.5)
    raise AssertionError("the workers never take the plugin")


@contextlib.contextmanager
def faked(address: str, **changes):
    """The workers run fakes; those of the second one differ by `changes`."""
    with Client(address, set_as_default=False) as client:
        register(client, Fake(**changes))
        try:
            yield client
        finally:
            client.unregister_worker_plugin("fake")


@pytest.fixture
def fakes(scheduler, monkeypatch):
    monkeypatch.setattr(cluster, "_describe_apart", lambda assignment: copy.deepcopy(SUITE))
    with faked(scheduler) as client:
        yield client


@pytest.fixture
def hand_in(tmp_path):
    """Write a submission that tells the fake runner what to do."""

    def hand_in(student: str, **order) -> tuple[Submitted, str]:
        path = tmp_path / f"{student}.ipynb"
        path.write_text(json.dumps(order))
        return Submitted(student, path), f"key of {student}"

    return hand_in


def grade(address: str, todo) -> dict[str, dict]:
    """student -> result; every unit exactly once, with its own key."""
    with contextlib.closing(Cluster("any", address, False)) as source:
        assert source.hello["max_score"] == 3.0
        results = list(source.results(todo, 1))
    assert sorted(item.student for item, _, _ in results) == sorted(i.student for i, _ in todo)
    assert {item.student: key for item, key, _ in results} == {i.student: k for i, k in todo}
    return {item.student: result for item, _, result in results}


# -- the work ----------------------------------------------------------------------------------


def test_every_unit_comes_back_with_the_result_of_its_own_bytes(fakes, scheduler, hand_in):
    todo = [hand_in(f"student{i:02}", passed=i % 3 > 0, sleep=0.01 * (i % 4)) for i in range(40)]
    results = grade(scheduler, todo)
    for item, _ in todo:
        data = item.path.read_bytes()
        assert results[item.student] == result_of(data, json.loads(data)["passed"])


def test_only_so_many_units_are_out_as_keep_the_workers_busy(fakes, scheduler, hand_in):
    todo = [hand_in(f"student{i:02}", sleep=0.02) for i in range(30)]
    with contextlib.closing(Cluster("any", scheduler, False)) as source:
        most = 0
        for _ in source.results(todo, 1):
            most = max(most, len(source._flying))
    assert 4 <= most <= 9  # two workers with two threads each


def test_a_notebook_that_cannot_be_sent_gets_the_reason_that_grading_here_gives(
    fakes, scheduler, hand_in, tmp_path
):
    big = tmp_path / "big.ipynb"
    with open(big, "wb") as file:
        file.truncate(21 << 20)
    os.mkfifo(tmp_path / "pipe.ipynb")
    todo = [hand_in("fine"), (Submitted("big", big), "b")]
    todo += [(Submitted(name, tmp_path / f"{name}.ipynb"), name) for name in ("pipe", "gone")]
    results = grade(scheduler, todo)
    assert results["fine"]["score"] == 3.0
    assert results["big"]["reason"].startswith("21 MB, more than the 20 MB allowed")
    assert results["pipe"]["reason"].startswith("not a plain file")
    assert results["gone"]["reason"].startswith("the file cannot be opened")
    assert all(results[name]["score"] is None for name in ("big", "pipe", "gone"))


def test_the_protections_are_those_that_every_worker_has(scheduler, monkeypatch):
    monkeypatch.setattr(cluster, "_describe_apart", lambda assignment: copy.deepcopy(SUITE))
    with (
        faked(scheduler, protections=("seccomp", "cgroup")),
        contextlib.closing(Cluster("any", scheduler, False)) as source,
    ):
        assert source.hello == {
            "suite_version": VERSION, "grader_version": dask_worker.VERSION, "max_score": 3.0,
            "exercises": ["one", "two"], "protections": ["seccomp"],
        }  # fmt: skip


# -- deaths ------------------------------------------------------------------------------------


def test_a_killed_worker_loses_nothing(fakes, scheduler, hand_in, tmp_path):
    (tmp_path / "marks").mkdir()
    todo = [hand_in(f"student{i:02}", sleep=0.02) for i in range(20)]
    todo.insert(3, hand_in("killer", do="kill", times=1, marks=str(tmp_path / "marks")))
    results = grade(scheduler, todo)
    assert {result["status"] for result in results.values()} == {"graded"}
    assert len(list((tmp_path / "marks").iterdir())) == 1


def test_a_unit_that_kills_every_worker_is_ungraded_and_costs_no_one_else(
    fakes, scheduler, hand_in, tmp_path
):
    (tmp_path / "marks").mkdir()
    todo = [hand_in(f"student{i}", sleep=0.02) for i in range(6)]
    todo.insert(2, hand_in("killer", do="kill", times=99, marks=str(tmp_path / "marks")))
    results = grade(scheduler, todo)
    killer = results.pop("killer")
    assert (killer["status"], killer["score"]) == ("ungraded", None)
    assert killer["reason"] == "internal error: the Dask workers died on it"
    assert {result["status"] for result in results.values()} == {"graded"}
    assert len(list((tmp_path / "marks").iterdir())) <= 4


def test_a_runner_that_dies_is_started_again_a_bounded_number_of_times(
    fakes, scheduler, hand_in, tmp_path
):
    for name in ("once", "always"):
        (tmp_path / name).mkdir()
    results = grade(
        scheduler,
        [
            hand_in("unlucky", do="die", times=1, marks=str(tmp_path / "once")),
            hand_in("deadly", do="die", times=99, marks=str(tmp_path / "always")),
        ],
    )
    assert results["unlucky"]["status"] == "graded"
    assert results["deadly"]["status"] == "ungraded"
    assert results["deadly"]["reason"].startswith("internal error: the worker tcp://127.0.0.1:")
    assert results["deadly"]["reason"].endswith("the suite runner died twice on it")
    assert len(list((tmp_path / "always").iterdir())) == 2 * cluster.MAX_TRIES


def test_a_scheduler_that_goes_away_ends_the_run_with_one_line(monkeypatch, hand_in):
    monkeypatch.setattr(cluster, "_describe_apart", lambda assignment: copy.deepcopy(SUITE))
    local = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address=":0", silence_logs=50,
    )  # fmt: skip
    monkeypatch.setattr(cluster, "REACH_SECONDS", 10.0)  # so long it is sought again
    with local:
        with Client(local.scheduler_address, set_as_default=False) as client:
            client.register_plugin(Fake())
        source = Cluster("any", local.scheduler_address, False)
        results = source.results([hand_in(f"student{i}", sleep=0.2) for i in range(20)], 1)
        assert next(results)[2]["status"] == "graded"
        local.close()
        with pytest.raises(EngineError, match=r"went away; results so far are kept"):
            list(results)
        source.close()


# -- workers that do not fit -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"version": "feedfacefeedface"}, "has suite version feedfacefeedface, this machine has"),
        ({"grader": "0.0.1+old"}, "has grader version 0.0.1+old, this machine has"),
        (
            {"grader": "0.0.1+old", "software": versions.software() | {"torch": "1.0\x1b[2J"}},
            f"has torch 1.0\ufffd[2J, this machine has {versions.software()['torch']}: install",
        ),
    ],
)
def test_a_worker_of_another_version_is_named_and_refused(
    scheduler, monkeypatch, changes, complaint
):
    monkeypatch.setattr(cluster, "_describe_apart", lambda assignment: copy.deepcopy(SUITE))
    with (
        faked(scheduler, **changes),
        contextlib.closing(Cluster("any", scheduler, False)) as source,
        pytest.raises(EngineError) as raised,
    ):
        _ = source.hello
    assert str(raised.value).startswith("the worker tcp://127.0.0.1:")
    assert complaint in str(raised.value) and "\n" not in str(raised.value)


def test_a_worker_that_cannot_start_its_runner_is_named(fakes, scheduler):
    with (
        contextlib.closing(Cluster("broken", scheduler, False)) as source,
        pytest.raises(EngineError, match="cannot grade: no assignment named 'broken'"),
    ):
        _ = source.hello


def test_a_forged_result_is_refused_and_the_unit_graded_elsewhere(
    fakes, scheduler, hand_in, tmp_path
):
    for name in ("once", "always"):
        (tmp_path / name).mkdir()
    results = grade(
        scheduler,
        [
            hand_in("lucky", do="forge", times=1, marks=str(tmp_path / "once")),
            hand_in("unlucky", do="forge", times=99, marks=str(tmp_path / "always")),
        ],
    )
    assert results["lucky"]["score"] == 3.0
    assert results["unlucky"]["status"] == "ungraded"
    assert results["unlucky"]["reason"].endswith("the score is 3.0, not 0.0")
    assert len(list((tmp_path / "always").iterdir())) == cluster.MAX_TRIES
    pids = {path.name.partition("-")[0] for path in (tmp_path / "always").iterdir()}
    assert len(pids) == 2  # it was tried on the other worker too


# -- addresses ---------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(cluster, "REACH_SECONDS", 1.0)


def complaint(address: str) -> str:
    with pytest.raises(EngineError) as raised:
        source = Cluster("any", address, False)
        with contextlib.closing(source):
            _ = source.hello
    assert str(raised.value).isprintable()
    return str(raised.value)


@pytest.mark.parametrize(
    "address",
    ["", "scheduler", "tcp://host", "http://host:80", "tcp://a b:1", "host:port", "\x1b:1"],
)
def test_what_is_no_address_is_said_so(address):
    assert complaint(address).endswith(
        "is no address of a Dask scheduler; give it as tcp://host:8786"
    )


def test_a_port_where_nothing_listens_is_one_line(soon):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    assert complaint(address) == (
        f"no Dask scheduler answers at tcp://{address}; start one there: python -m dask scheduler"
    )


def test_a_server_that_says_nothing_is_given_up(soon):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert complaint(address).startswith(f"no Dask scheduler answers at {address}")


def test_the_address_of_a_worker_is_recognised(fakes, scheduler):
    worker = next(iter(fakes.nthreads()))
    assert complaint(worker) == (
        f"what answers at {worker} is a Dask Worker; give the scheduler's address"
    )


def test_a_scheduler_without_workers_is_one_line(monkeypatch):
    monkeypatch.setattr(cluster, "REACH_SECONDS", 6.0)  # to answer, and then for workers
    with LocalCluster(
        n_workers=0, processes=False, host="127.0.0.1", protocol="tcp", dashboard_address=":0"
    ) as empty:
        address = empty.scheduler_address
        assert complaint(address).startswith(f"the Dask scheduler at {address} has no workers")


def test_a_machine_without_dask_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "python -m pip install -r requirements.txt" in complaint("tcp://127.0.0.1:1")


# -- the real thing ----------------------------------------------------------------------------

RIGHT = """
def layer_norm(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered * centered).mean(-1, keepdim=True)
    return centered / (variance + eps).sqrt() * weight + bias
"""


def test_the_results_are_those_of_grading_here(tmp_path):
    """Real runners and sandboxes on two workers, against one runner on this machine."""
    crash = "\n\nimport os\n\ndef layer_norm_backward(*arguments):\n    os._exit(0)"
    sources = {
        "right": RIGHT + crash,
        "biased": RIGHT.replace("(centered * centered).mean(", "centered.var("),
    }
    for student, source in sources.items():
        cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
        tree = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (tmp_path / f"{student}.ipynb").write_text(json.dumps(tree))
    (tmp_path / "junk.ipynb").write_text("no JSON")
    todo = [(Submitted(path.stem, path), path.stem) for path in sorted(tmp_path.iterdir())]
    found = []
    with two_workers() as scheduler:  # others than those with fakes
        for make in (
            lambda: engine._Local("layernorm", 1, False),
            lambda: Cluster("layernorm", scheduler, False),
        ):
            with contextlib.closing(make()) as source:
                hello = {key: source.hello[key] for key in dask_worker._HELLO}
                results = {item.student: result for item, _, result in source.results(todo, 7)}
            for result in results.values():
                result.pop("seconds")
            found.append((hello, results))
    assert found[0] == found[1]
    results = found[1][1]
    assert [results[name]["status"] for name in ("right", "junk")] == ["graded", "ungraded"]
    assert results["right"]["score"] > results["biased"]["score"] > 0


def test_a_notebook_lies_in_the_folder_that_dask_cleans_up(monkeypatch, tmp_path):
    """A Dask worker that is killed cannot remove what it wrote."""
    worker = SimpleNamespace(local_directory=str(tmp_path))
    monkeypatch.setattr(dask_worker, "get_worker", lambda: worker)
    seen = []
    runner = SimpleNamespace(put=lambda number, path, seed: seen.append(path), get=lambda: (0, {}))
    assert dask_worker._grade(runner, b"{}", 1) == {}
    assert seen[0].is_relative_to(tmp_path) and not list(tmp_path.iterdir())
