"""A worker that runs whatever source it is sent, as a hostile learner would, with all walls."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from autograder.sandbox import Limits, watch
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
    cpu_seconds=10, wall_seconds=600, memory_mib=200, processes=12, open_files=40, file_mib=4,
    scratch_mib=8,
)  # fmt: skip
NAMESPACES = {f"{n}-namespace" for n in watch.NAMESPACES.values()}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("stand-in")
    (folder / "serve.py").write_text(STAND_IN)
    return {"autograder.worker": str(folder)}


@pytest.fixture(scope="module")
def modes(packages: dict[str, str]) -> Iterator[dict[str, ForkServer]]:
    os.environ["GRADER_SECRET"] = "hunter2"
    servers = {
        name: ForkServer(weak=name == "weak", preload=(), worker=packages)
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


def run(worker: WorkerProcess, source: str, timeout: float = 600.0) -> object:
    """What `source` leaves in `result`, or what it raised; None when the worker is gone."""
    worker.sock.settimeout(timeout)
    worker.sock.sendall(json.dumps(source).encode() + b"\n")
    line = worker.sock.makefile().readline()
    return json.loads(line) if line else None


def attempt(server: ForkServer, source: str, limits: Limits = SMALL) -> object:
    """run() in a worker of its own."""
    with server.spawn(limits) as worker:
        return run(worker, source)
