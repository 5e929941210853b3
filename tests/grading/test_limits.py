"""Every limit, end to end: what the class sees of code that runs into it, and that nothing is left.

One class per mode goes through the real grader. Each hostile student wastes one thing in
`layer_norm`; the other two exercises are right, and honest students stand before, between and
after. While it runs, /proc is watched: every worker gives itself a name that tells the student.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from attack_class import (
    EXERCISES,
    Graded,
    Place,
    _position,
    reference_sources,
    released,
    run_grader,
)

from autograder.grading import engine
from autograder.grading.told import ERROR_TOO, WRONG_TOO
from autograder.sandbox import linux

pytestmark = pytest.mark.skipif(not linux.SUPPORTED, reason="the walls are Linux's")

SETTINGS = {
    "call_seconds": 4.0, "start_seconds": 20.0, "submission_seconds": 60.0, "memory_mib": 512,
    "wall_factor": 2.5,
}  # fmt: skip
FULL = 20.0
MIB = 2**20


@dataclass(frozen=True)
class Limit:
    """What one student wastes, and what comes of it."""

    code: str  # the body of layer_norm
    verdicts: tuple[str, ...]
    said: str  # pattern of the message
    weak: tuple[str, ...] = ()  # verdicts without namespaces, where they differ
    processes: int = 1  # the most there may be at once


LIMITS = {
    "wall-of-a-call": Limit(
        "time.sleep(60)", ("timeout",), r"`layer_norm` was still running after 10 s|ended twice"
    ),
    # The clock ends it first only where the machine is very busy.
    "computing-of-a-call": Limit(
        "while True: pass", ("timeout",), r"still running after (4 s of comp|10 s)|ended twice"
    ),
    # They would have all processors, and 50 times the weight of anybody else.
    "processors": Limit(
        """
        for _ in range(50):
            if os.fork() == 0:
                os.setsid()
                while True:
                    pass
        time.sleep(60)
        """,
        ("timeout",), r"still running after (4 s of comp|10 s)|ended twice", weak=("error",),
        processes=51,
    ),
    "memory": Limit(
        "return torch.ones(1 << 31, dtype=torch.uint8)", ("memory", "error"),
        r"memory|ended twice", weak=("memory", "error"),
    ),
    "memory-in-small-steps": Limit(
        """
        kept = []
        while True:
            kept.append(torch.empty(8 << 20))  # not touched: what counts is asked for
        """,
        ("memory",), r"memory|ended twice",
    ),
    "memory-of-many-processes": Limit(
        """
        for _ in range(8):
            if os.fork() == 0:
                try:
                    held = bytearray(os.urandom(1 << 20) * 300)
                    time.sleep(60)
                finally:
                    os._exit(0)
        time.sleep(60)
        """,
        ("memory", "timeout"), r"memory|ended twice|still running", weak=("error",), processes=9,
    ),
    "processes": Limit(
        """
        for _ in range(500):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        """,
        ("error",), r"BlockingIOError|PermissionError|RuntimeError", processes=64,
    ),
    "detached-process": Limit(
        """
        child = os.fork()
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        os.waitpid(child, 0)  # or the calls of all tests reach the limit on processes
        return x
        """,
        ("wrong",), "values are", weak=("error",), processes=64,
    ),
    "threads": Limit(
        """
        for _ in range(500):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return x
        """,
        ("error", "wrong"), r"RuntimeError|values are", weak=("error", "wrong"),
    ),
    "files": Limit(
        """
        for number in range(60000):
            open(f"file{number}", "w").close()
        return x
        """,
        ("error",), r"OSError", weak=("output-limit", "error", "timeout"),
    ),
    "file-size": Limit(
        """
        with open("big", "wb") as file:
            for _ in range(200):
                file.write(bytes(1 << 20))
        return x
        """,
        ("error",), "OSError",
    ),
    "scratch": Limit(
        """
        for number in range(40):
            with open(f"part{number}", "wb") as file:
                file.write(bytes(16 << 20))
        return x
        """,
        ("error",), "OSError", weak=("output-limit", "error"),
    ),
    "output": Limit(
        """
        for _ in range(10_000):
            print("again " * 1000)
        return x
        """,
        ("wrong",), "values are",
    ),
    "errors-output": Limit(
        """
        for _ in range(10_000):
            os.write(2, b"again " * 1000)
        return x
        """,
        ("wrong",), "values are",
    ),
    "descriptors": Limit(
        """
        kept = [open("/dev/null") for _ in range(4000)]
        return x
        """,
        ("error",), "OSError",
    ),
    # A busy machine may not even copy so much in time.
    "frame-size": Limit(
        "return torch.zeros(65 << 20, dtype=torch.uint8)",
        ("wrong", "timeout"), "far more data|still running|ended twice",
    ),
    "frame-of-many": Limit(
        "return [torch.zeros(1) for _ in range(200)]", ("wrong",), "far more data"
    ),
    "reply-depth": Limit(
        """
        value = x
        for _ in range(500):
            value = [value]
        return value
        """,
        ("wrong",), "not plain data|far more data",
    ),
    "reply-in-circles": Limit(
        """
        value = [x]
        value.append(value)
        return value
        """,
        ("wrong",), "not plain data|far more data",
    ),
}  # fmt: skip
HONEST = ("a-honest", "m-honest", "s-honest", "z-honest")


def source(code: str, mark: str) -> str:
    """A layer_norm with this body, in a process that calls itself `mark`."""
    lines = [line[8:] if line.startswith(" " * 8) else line for line in code.split("\n")]
    body = "\n".join("    " + line for line in lines if line.strip())
    return f"""
import ctypes, os, signal, threading, time
import torch

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
ctypes.CDLL(None).prctl(15, b"{mark}", 0, 0, 0)
signal.sigtimedwait([signal.SIGUSR1], 30)  # until the watch has seen it

def layer_norm(x, weight, bias, eps):
{body}
"""


OURS = f"lim{os.getpid()}x"  # the same tests may run twice on a machine


def mark_of(name: str) -> str:
    return f"{OURS}{sorted(LIMITS).index(name):02d}"


def hand_in(folder: Path, cells: dict[str, str]) -> None:
    notebook = released()
    for name, text in cells.items():
        notebook["cells"][_position(notebook, name)]["source"] = text
    (folder / "layernorm").mkdir(parents=True)
    (folder / "layernorm" / "layernorm.ipynb").write_text(json.dumps(notebook))


def with_limits(place: Place, **settings: float) -> None:
    path = place.project / "autograder" / "suites" / "layernorm" / "suite.toml"
    lines = [f"{key} = {value}" for key, value in (SETTINGS | settings).items()]
    text = re.sub(r"(?ms)^\[limits\].*", "", path.read_text())
    path.write_text("\n".join([text, "[limits]", *lines, ""]))


@dataclass
class Watch:
    """Looks at /proc until it is told to stop. Marked processes are told that they were seen."""

    project: Path
    last: dict[str, float] = field(default_factory=dict)  # mark -> when it was seen last
    most: dict[str, int] = field(default_factory=dict)  # mark -> most processes at once
    grader_bytes: int = 0  # the most that one trusted process held for itself
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stop.wait(0.02):
            self.look()

    def look(self) -> None:
        now, count = time.time(), {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                comm = Path(entry.path, "comm").read_text().strip()
                if comm.startswith(OURS):
                    count[comm] = count.get(comm, 0) + 1
                    os.kill(int(entry.name), signal.SIGUSR1)  # it waits for this
                elif (
                    comm.startswith("python")
                    and Path(entry.path, "cwd").readlink() == self.project
                    and b"autograder.grading.suite_runner"
                    in Path(entry.path, "cmdline").read_bytes()
                ):
                    text = Path(entry.path, "status").read_text()
                    held = int(re.search(r"RssAnon:\s+(\d+)", text)[1]) * 1024
                    self.grader_bytes = max(self.grader_bytes, held)
            except (OSError, TypeError):
                continue  # it has just ended
        for mark, number in count.items():
            self.last[mark] = now
            self.most[mark] = max(number, self.most.get(mark, 0))

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self.run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@dataclass
class Run:
    graded: Graded
    watch: Watch
    after: Watch  # one look when all is over
    written: dict[str, float]  # student -> when the result was written


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    place = Place(Path(tempfile.mkdtemp(prefix="limits-class-")))
    try:
        place.prepare()
        yield place
    finally:
        place.clean()


@pytest.fixture(scope="module", params=["strong", "weak"])
def run(request: pytest.FixtureRequest, place: Place) -> Run:
    with_limits(place)
    right = reference_sources()
    submitted = place.base / f"limits-{request.param}"
    for student in HONEST:
        hand_in(submitted / student, right)
    for name, limit in LIMITS.items():
        own = {"layer_norm": source(limit.code, mark_of(name))}
        # Not LayerNorm: it calls the learner's layer_norm.
        hand_in(submitted / name, own | {EXERCISES[2]: right[EXERCISES[2]]})
    with Watch(place.project) as watch:
        graded = run_grader(place, submitted, request.param, request.param, 3)
    after = Watch(place.project)
    after.look()
    digests = {s["sha256"]: name for name, s in graded.submissions().items()}
    written = {
        digests[json.loads(path.read_text())["result"]["sha256"]]: path.stat().st_mtime
        for path in (graded.results / "units").glob("*.json")
    }
    return Run(graded, watch, after, written)


def rows_of(run: Run, student: str, exercise: str) -> list[dict]:
    found = run.graded.submissions()[student]
    assert found["status"] == "graded", found["reason"]
    return next(e["tests"] for e in found["exercises"] if e["name"] == exercise)


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_a_limit_costs_the_code_that_ran_into_it_and_says_which(run: Run, name: str):
    limit = LIMITS[name]
    allowed = limit.weak if run.graded.mode == "weak" and limit.weak else limit.verdicts
    tests = rows_of(run, name, "layer_norm")
    assert {t["verdict"] for t in tests} <= set(allowed), [t["message"] for t in tests][:3]
    assert all(t["points"] == 0 for t in tests)
    messages = [t["message"] for t in tests]
    later = [m for m in messages[1:] if m not in (WRONG_TOO, ERROR_TOO)]
    unclear = [m for m in (messages[0], *later) if not re.search(limit.said, m)]
    if run.graded.mode == "strong":
        assert not unclear, unclear[:2]
    assert all(t["message"] and "\n" not in t["message"] for t in tests)
    assert all(t["verdict"] == "pass" for t in rows_of(run, name, EXERCISES[2]))


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_the_worker_and_all_it_started_are_gone_when_the_result_is_there(run: Run, name: str):
    mark = mark_of(name)
    assert mark in run.watch.last, "its worker was never seen, so this test shows nothing"
    assert run.watch.last[mark] <= run.written[name] + 0.05
    assert mark not in run.after.last
    assert run.watch.most[mark] <= LIMITS[name].processes + 1


def test_honest_students_beside_them_get_full_marks(run: Run):
    found = run.graded.submissions()
    assert {s: found[s]["score"] for s in HONEST} == dict.fromkeys(HONEST, FULL)
    assert run.graded.code == 0 and "Traceback" not in run.graded.output


def test_nothing_at_all_is_left_running(run: Run):
    assert not run.graded.strays


def test_the_grader_itself_stays_small(run: Run):
    """A reply may hold 64 MiB. Decoded and compared it may cost some times as much."""
    assert 0 < run.watch.grader_bytes < 900 * MIB


BURN = """
import hashlib, threading, time

def burn():
    while True:
        hashlib.sha256(bytes(1 << 22))  # lets go of the interpreter's lock

def layer_norm(*args):
    while threading.active_count() < 5:
        threading.Thread(target=burn, daemon=True).start()
    begun = time.process_time()
    while time.process_time() - begun < 0.7:  # the call itself is in time
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def queue(place: Place) -> dict[str, dict]:
    """One job and 4 s a submission: everybody waits for those who use up all of theirs."""
    with_limits(place, call_seconds=3.0, submission_seconds=4.0, wall_factor=3.0)
    right = reference_sources()
    submitted = place.base / "queue"
    slow = {name: f"import time\ndef {name}(*args):\n    time.sleep(0.8)" for name in EXERCISES}
    hand_in(submitted / "a-slow", slow)
    hand_in(submitted / "b-honest", right)
    hand_in(submitted / "c-burns", {"layer_norm": BURN})
    hand_in(submitted / "d-honest", right | {"layer_norm": right["layer_norm"] + "\n# mine\n"})
    graded = run_grader(place, submitted, "queue", "strong", 1)
    assert not graded.strays
    return graded.submissions()


def test_the_time_of_a_submission_ends_though_each_call_is_in_time(queue: dict[str, dict]):
    tests = [t for e in queue["a-slow"]["exercises"] for t in e["tests"]]
    assert {t["verdict"] for t in tests} == {"wrong", "timeout"}
    assert "time of the whole notebook was over" in tests[-1]["message"]


def test_processor_time_ends_too(queue: dict[str, dict]):
    tests = queue["c-burns"]["exercises"][0]["tests"]
    assert {t["verdict"] for t in tests} <= {"wrong", "timeout"}
    lost = [t["message"] for t in tests if t["verdict"] == "timeout"]
    assert lost and re.search("CPU time|still running|ended twice", lost[0]), tests


def test_time_spent_waiting_for_a_slow_neighbour_is_not_counted(queue: dict[str, dict]):
    assert [queue[s]["score"] for s in ("b-honest", "d-honest")] == [FULL, FULL]
    assert queue["b-honest"]["seconds"] < queue["a-slow"]["seconds"]


def test_a_file_too_large_to_be_a_notebook_is_not_read_to_name_its_result(tmp_path: Path):
    path = tmp_path / "layernorm.ipynb"
    path.touch()
    try:
        os.truncate(path, 2 << 30)  # sparse: it takes no room, but reading it takes long
    except OSError:
        pytest.skip("this file system has no sparse files of that size")
    started = time.process_time()
    engine._key(engine.Submitted("student01", path), "salt")
    assert time.process_time() - started < 0.5
