"""Grade on many machines: the engine's work units handed to Dask distributed.

A unit carries the notebook's bytes, for the machines share no files. Each worker grades in its own
sandbox and answers in JSON (dask_worker.py). What comes back is checked against the suite of this
machine (reply.py): every key and type, the points of every test, the versions of suite and grader.
A worker that does not fit is named, a result that cannot be is refused and tried elsewhere, and so
is a unit whose worker dies.

The checks are against mistakes and damage. Dask runs what its clients send and unpickles what its
workers send, so whoever reaches the scheduler can act as this user: keep it on a closed network or
use tls:// with Dask's own certificates.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..course import ROOT
from ..errors import EngineError
from ..grading import engine
from ..grading.engine import Submitted
from ..reading.notebook import MAX_BYTES, Unreadable, load, one_line
from .dask_worker import SOFTWARE, VERSION, task
from .reply import Refused, check, decode

REACH_SECONDS = 15.0  # for a scheduler to answer, and for it to have a worker
START_SECONDS = 180.0  # for a worker's suite runner: torch from a cold or shared disk
LOST_SECONDS = 60.0  # without any worker before grading is given up
MAX_TRIES = 3  # of a unit whose results are refused


def describe(assignment: str) -> dict[str, Any]:
    """What the suite of this machine gives: its version, exercises, tests and their points.

    Raises suite.SuiteError.
    """
    from ..testing.suite import load as load_suite  # loads torch

    suite = load_suite(assignment)
    tests = [
        {"exercise": t.exercise, "name": t.name, "title": t.title, "max_points": t.points}
        for t in suite.tests
    ]
    return {
        "suite_version": suite.version, "max_score": suite.max_score,
        "exercises": suite.exercises, "tests": tests,
    }  # fmt: skip


def _describe_apart(assignment: str) -> dict[str, Any]:
    """`describe` in a process of its own: this one stays light. Raises EngineError."""
    run = subprocess.run(
        [sys.executable, "-m", "autograder.cluster", assignment],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if run.returncode != 0:
        last = run.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise EngineError(f"the suite of {assignment} cannot be read: {one_line(last[0], 300)}")
    return json.loads(run.stdout)


@dataclass
class _Unit:
    """One submission on its way."""

    item: Submitted
    key: str
    sha256: str = ""
    tries: int = 0  # results that were refused
    avoid: set[str] = field(default_factory=set)  # workers that sent them
    alone: bool = False  # workers have died on it, or beside it


class Cluster:
    """Units graded by the workers of a Dask scheduler; the same interface as the local runner.

    address: as tcp://host:8786. weak: let the workers do without namespaces.
    Raises EngineError with one line that says what to do.
    """

    def __init__(self, assignment: str, address: str, weak: bool) -> None:
        self._assignment, self._weak = assignment, weak
        self._address = _checked_address(address)
        try:
            import distributed
        except ImportError:
            raise EngineError(
                "Dask is not installed; run: python -m pip install -r requirements.txt"
            ) from None
        self._dask = distributed
        # Its warnings about lost connections would hide the one line that says what to do.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        _probe(self._address)
        try:
            self._client = distributed.Client(
                self._address, timeout=REACH_SECONDS, set_as_default=False
            )
        except Exception as error:
            reason = f"cannot talk to Dask at {self._address}: {_brief(error)}"
            raise EngineError(reason) from None
        self._flying: dict[Any, _Unit] = {}
        self._suite: dict[str, Any] = {}
        self._hello: dict[str, Any] | None = None
        self._workers_seen = time.monotonic()

    @property
    def hello(self) -> dict[str, Any]:
        """What all workers agree on; "protections" are those that every one of them has.

        Raises EngineError: no worker, or one of another version, which is named.
        """
        if self._hello is None:
            self._wait_for_workers()
            self._suite = _describe_apart(self._assignment)
            answers = self._ask_workers()
            shared = [
                name
                for name in answers[0]["protections"]
                if all(name in answer["protections"] for answer in answers)
            ]
            keys = ("suite_version", "max_score", "exercises")
            self._hello = {key: self._suite[key] for key in keys}
            self._hello |= {"grader_version": VERSION, "protections": shared}
        return self._hello

    def results(
        self, todo: Sequence[tuple[Submitted, str]], seed: int
    ) -> Iterator[tuple[Submitted, str, dict[str, Any]]]:
        """Results as they come. Only so many units are out as keep every worker busy.

        Raises EngineError when no worker is left, or one that does not fit has joined.
        """
        _ = self.hello
        waiting = deque(_Unit(item, key) for item, key in todo)
        alone: deque[_Unit] = deque()  # for the end, one at a time
        while waiting or alone or self._flying:
            window = 2 * sum(self._workers().values()) + 1
            while queue := waiting or alone:
                if len(self._flying) >= (window if waiting else 1):
                    break
                unit = queue.popleft()
                try:
                    self._launch(unit, seed)
                except Unreadable as error:
                    yield unit.item, unit.key, self._ungraded(str(error))
            for future in self._wait(self._flying):
                unit = self._flying.pop(future)
                result = self._outcome(future, unit)
                if result is None:
                    (alone if unit.alone else waiting).append(unit)
                else:
                    yield unit.item, unit.key, result

    def close(self) -> None:
        """Take back what is out, and have the workers end their suite runners."""
        with contextlib.suppress(Exception):
            self._client.cancel(list(self._flying), force=True)
            asked = [self._submit({"close": True}, worker) for worker in self._workers()]
            self._dask.wait(asked, timeout=5)
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)

    # -- asking the workers --------------------------------------------------------------------

    def _wait_for_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=REACH_SECONDS)
        except Exception:
            raise EngineError(
                f"the Dask scheduler at {self._address} has no workers; start some, each in a "
                f"copy of the course's folder: python -m dask worker {self._address}"
            ) from None

    def _ask_workers(self) -> list[dict[str, Any]]:
        """Have every worker start a suite runner and say what it is."""
        order = self._order(None, 0)
        asked = {self._submit(order, worker): worker for worker in self._workers()}
        deadline = time.monotonic() + START_SECONDS
        while not all(future.done() for future in asked):
            self._wait(asked)
            there = self._workers()
            asked = {f: worker for f, worker in asked.items() if f.done() or worker in there}
            if time.monotonic() > deadline:
                late = next(worker for future, worker in asked.items() if not future.done())
                raise EngineError(f"the worker {late} was not ready after {START_SECONDS:.0f} s")
        if not asked:
            raise EngineError(f"the workers of {self._address} left while they were starting")
        return [self._answer(future, worker) for future, worker in asked.items()]

    def _answer(self, future: Any, worker: str) -> dict[str, Any]:
        """What a worker says. Raises EngineError, naming it, when it cannot be used."""
        try:
            answer = decode(future.result(timeout=REACH_SECONDS))
        except Exception as error:
            raise EngineError(
                f"the worker {worker} cannot do its work ({_brief(error)}); are its Python "
                f"{sys.version_info.major}.{sys.version_info.minor} and its Dask "
                f"{self._dask.__version__}, as here?"
            ) from None
        if "error" in answer:
            raise EngineError(f"the worker {worker} cannot grade: {_brief(answer['error'])}")
        self._fits(answer, worker)
        return answer

    def _fits(self, answer: dict[str, Any], worker: str) -> None:
        """Raises EngineError unless the worker runs what this machine would run, as safely."""
        software = answer.get("software")
        for name, wanted in SOFTWARE.items():
            got = software.get(name) if type(software) is dict else wanted
            if got != wanted:
                raise EngineError(
                    f"the worker {worker} has {name} {_brief(got)}, this machine has {wanted}: "
                    "install the same there (`make setup` in the course's folder) and start the "
                    "worker again"
                )
        versions = {"grader": VERSION, "suite": self._suite["suite_version"]}
        for what, wanted in versions.items():
            got = answer.get(f"{what}_version")
            if got != wanted:
                raise EngineError(
                    f"the worker {worker} has {what} version {_brief(got)}, this machine has "
                    f"{wanted}: copy the course's folder there and start the worker again"
                )
        names = answer.get("protections")
        if type(names) is not list or not all(type(n) is str and n.isprintable() for n in names):
            raise EngineError(f"the worker {worker} does not say how it is protected")
        missing = set(self._hello["protections"] if self._hello else ()) - set(names)
        if missing:
            raise EngineError(
                f"the worker {worker} has joined and lacks {', '.join(sorted(missing))}, which the "
                "report says all have: stop it, or run the same command again"
            )

    # -- units ---------------------------------------------------------------------------------

    def _launch(self, unit: _Unit, seed: int) -> None:
        """Send a unit off. Raises Unreadable when its file cannot be."""
        assert unit.item.path is not None  # what has none is no unit
        data = _content(unit.item.path)
        unit.sha256 = hashlib.sha256(data).hexdigest()
        others = [worker for worker in self._workers() if worker not in unit.avoid]
        future = self._submit(self._order(data, seed), *(others if unit.avoid else ()))
        self._flying[future] = unit

    def _order(self, data: bytes | None, seed: int) -> dict[str, Any]:
        return {
            "assignment": self._assignment, "weak": self._weak, "data": data, "seed": seed,
            "suite_version": self._suite["suite_version"],
        }  # fmt: skip

    def _submit(self, order: dict[str, Any], *workers: str) -> Any:
        # Loose, or a unit would wait for ever for a worker that has gone.
        where = {"workers": list(workers), "allow_other_workers": True} if workers else {}
        return self._client.submit(task(), order, pure=False, **where)

    def _outcome(self, future: Any, unit: _Unit) -> dict[str, Any] | None:
        """The result of a unit, or None when it is to be tried again."""
        try:
            reply = future.result(timeout=REACH_SECONDS)
        except self._dask.KilledWorker:
            # Several workers have died on it, but perhaps another unit beside it was at fault.
            if unit.alone:
                return self._ungraded("internal error: the Dask workers died on it")
            unit.alone = True
            return None
        except Exception as error:
            if future.cancelled() or self._client.status != "running":
                raise EngineError(self._gone()) from None
            return self._refuse(unit, _brief(error), None)
        worker = self._holder(future)
        try:
            answer = decode(reply)
            if "error" in answer:
                raise Refused(f"cannot grade it: {_brief(answer['error'])}")
            self._fits(answer, worker)
            return check(answer.get("result"), self._suite, unit.sha256)
        except Refused as refusal:
            return self._refuse(unit, f"the worker {worker}: {refusal}", worker)

    def _refuse(self, unit: _Unit, reason: str, worker: str | None) -> dict[str, Any] | None:
        unit.tries += 1
        if worker is not None:
            unit.avoid.add(worker)
        return self._ungraded(f"internal error: {reason}") if unit.tries >= MAX_TRIES else None

    def _ungraded(self, reason: str) -> dict[str, Any]:
        return engine.unreadable(one_line(reason, 300), self._suite["max_score"])

    # -- the scheduler -------------------------------------------------------------------------

    def _workers(self) -> dict[str, int]:
        """Address -> threads. Raises EngineError when the scheduler, or all workers, are gone."""
        try:
            workers = dict(self._client.nthreads())
        except Exception:
            raise EngineError(self._gone()) from None
        now = time.monotonic()
        if workers:
            self._workers_seen = now
        elif now - self._workers_seen > LOST_SECONDS:
            raise EngineError(
                f"the Dask scheduler at {self._address} has had no worker for "
                f"{LOST_SECONDS:.0f} s; results so far are kept: run the same command to go on"
            )
        return workers

    def _wait(self, futures: dict[Any, Any]) -> list[Any]:
        """Those that are done, after waiting some seconds at most for one to be."""
        with contextlib.suppress(Exception):  # a time-out, or some were cancelled
            self._dask.wait(list(futures), timeout=2, return_when="FIRST_COMPLETED")
        return [future for future in futures if future.done()]

    def _holder(self, future: Any) -> str:
        with contextlib.suppress(Exception):
            return next(iter(self._client.who_has([future]).values()))[0]
        return "that answered"

    def _gone(self) -> str:
        return (
            f"the Dask scheduler at {self._address} went away; results so far are kept: "
            "run the same command to go on"
        )


def _content(path: Path) -> bytes:
    """The bytes to send. Raises Unreadable with the reason that grading here would give."""
    try:
        with open(path, "rb", opener=_without_blocking) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:
        data = b""
    if not 0 < len(data) <= MAX_BYTES:
        load(path)
    return data[:MAX_BYTES]


def _without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe could hang this process


def _checked_address(address: str) -> str:
    if not re.fullmatch(r"((tcp|tls|ws|wss)://)?([\w.-]+|\[[0-9a-fA-F:.]+\]):\d+", address):
        raise EngineError(
            f"{one_line(address)!r} is no address of a Dask scheduler; give it as tcp://host:8786"
        )
    return address if "://" in address else f"tcp://{address}"


def _probe(address: str) -> None:
    """Raises EngineError unless a Dask scheduler answers soon.

    Dask's own client waits for ever for a server that accepts and says nothing.
    """

    async def identity() -> Any:
        from distributed.core import connect
        from distributed.security import Security

        arguments = Security().get_connection_args("client")
        comm = await connect(address, timeout=REACH_SECONDS, **arguments)
        await comm.write({"op": "identity", "reply": True})
        answer = await comm.read()
        comm.abort()
        return answer

    async def bounded() -> Any:
        return await asyncio.wait_for(identity(), REACH_SECONDS)

    try:
        with ThreadPoolExecutor(1) as pool:  # there may be a running loop in this thread
            answer = pool.submit(asyncio.run, bounded()).result()
    except (OSError, TimeoutError):
        raise EngineError(
            f"no Dask scheduler answers at {address}; start one there: python -m dask scheduler"
        ) from None
    except Exception as error:
        raise EngineError(f"cannot talk to Dask at {address}: {_brief(error)}") from None
    kind = answer.get("type") if isinstance(answer, dict) else None
    if kind != "Scheduler":
        raise EngineError(
            f"what answers at {address} is a Dask {_brief(kind)}; give the scheduler's address"
        )


def _brief(error: object) -> str:
    if isinstance(error, BaseException):
        error = f"{type(error).__name__}: {error}".rstrip(": ")
    return one_line(str(error).strip().partition("\n")[0], 200)
