"""Grade a class: queue, resume, retry, one result file per submission.

A result is stored under a key made of the submission's bytes, the suite, the grader and the seed,
and written by rename. A run that was killed is simply run again: what is there is not graded
twice. This process is trusted and light (no torch); the suite runner does the work.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .. import versions
from ..course import ROOT
from ..errors import EngineError, NotStarted
from ..files import write_whole

DEFAULT_SEED = 1


@dataclass(frozen=True)
class Submitted:
    """A student's submission: the notebook, or the reason why there is none."""

    student: str
    path: Path | None
    notices: tuple[str, ...] = ()
    reason: str | None = None


@dataclass
class Class:
    """The results of a class, in the form of the results JSON."""

    assignment: str
    seed: int
    suite_version: str = ""
    grader_version: str = ""
    protections: list[str] = field(default_factory=list)
    max_score: float = 0.0
    submissions: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {
            "assignment": self.assignment,
            "suite_version": self.suite_version,
            "grader_version": self.grader_version,
            "seed": self.seed,
            "protections": self.protections,
            "submissions": sorted(self.submissions, key=lambda s: s["student"]),
        }


def submissions(folder: Path, assignment: str) -> list[Submitted]:
    """The submissions below `folder`, laid out as `<student>/<assignment>/`.

    Raises EngineError when the folder is missing or holds none.
    """
    from .. import student_ids
    from ..reading import submission

    if not folder.is_dir():
        raise EngineError(f"there is no folder {folder}; give the submissions by --submitted DIR")
    found = []
    for student in sorted(folder.iterdir()):
        handed_in = student / assignment
        try:
            os.lstat(handed_in)  # a dangling link is told by `find_notebook`
        except (FileNotFoundError, NotADirectoryError):
            continue  # nothing was handed in
        except OSError as error:
            reason = f"its folder cannot be opened: {error.strerror}; repair it, and grade again"
            found.append(Submitted(student.name, None, reason=reason))
            continue
        fault = student_ids.fault(student.name)
        if fault is not None:
            reason = f"this folder's name is no student id: {fault}; rename it, and grade again"
            found.append(Submitted(student.name, None, reason=reason))
            continue
        try:
            path, notices = submission.find_notebook(handed_in, assignment)
            found.append(Submitted(student.name, path, tuple(notices)))
        except submission.Unreadable as error:
            found.append(Submitted(student.name, None, reason=str(error)))
    if not found:
        raise EngineError(
            f"no submission of {assignment!r} in {folder}; "
            f"they lie as {folder}/<student>/{assignment}/{assignment}.ipynb"
        )
    return found


class Runner:
    """The suite runner process, fed with units and read for results."""

    def __init__(self, assignment: str, jobs: int, weak: bool = False) -> None:
        command = [sys.executable, "-m", "autograder.grading.suite_runner", assignment, str(jobs)]
        self._process = subprocess.Popen(
            command + (["--weak"] if weak else []),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True, encoding="utf-8",
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._hello: dict[str, Any] | None = None

    @property
    def hello(self) -> dict[str, Any]:
        """What the runner says of itself once it is ready. Raises EngineError if it is not."""
        if self._hello is None:
            line = self._output.readline()
            died = {"error": "the suite runner did not start", "again": True}
            self._hello = json.loads(line) if line.endswith("\n") else died
        if "error" in self._hello:
            kind = NotStarted if self._hello.get("again") else EngineError
            raise kind(self._hello["error"])
        return self._hello

    def put(self, number: int, path: Path | None, seed: int) -> None:
        assert path is not None
        unit = {"id": number, "path": str(path.resolve()), "seed": seed}
        # A runner that has just died is found out by `get`.
        with contextlib.suppress(BrokenPipeError):
            self._input.write(json.dumps(unit) + "\n")
            self._input.flush()

    def get(self) -> tuple[int, dict[str, Any]] | None:
        """The next result, or None when the runner has died."""
        line = self._output.readline()
        if not line.endswith("\n"):
            return None
        record = json.loads(line)
        return record["id"], record["result"]

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError, OSError):
            self._input.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


class Units(Protocol):
    """What grades submissions: a runner on this machine, or a cluster."""

    @property
    def hello(self) -> Mapping[str, Any]:
        """Versions, protections and the most points. Raises EngineError."""

    def results(
        self, todo: Sequence[tuple[Submitted, str]], seed: int
    ) -> Iterator[tuple[Submitted, str, dict[str, Any]]]:
        """Each submission with its key and its result, as they come. Raises EngineError."""

    def close(self) -> None: ...


def grade(
    assignment: str,
    submitted: Sequence[Submitted],
    *,
    results: Path,
    jobs: int = 1,
    seed: int = DEFAULT_SEED,
    weak: bool = False,
    elsewhere: Callable[[], Units] | None = None,
    on_result: Callable[[dict[str, Any], Path | None], None] = lambda result, path: None,
    on_class: Callable[[dict[str, Any]], None] = lambda graded: None,
) -> Class:
    """Grade `submitted` and return the class. `on_result` is called once per submission.

    on_class: called at the end with the class as a dict, before another run may begin, so that
        its files are never replaced by those of a run that ended earlier.
    results: the folder of this assignment's results; its `units/` holds one file per submission.
    elsewhere: opens what grades the units instead of a suite runner on this machine.
    Raises EngineError with a one-line reason.
    """
    units = results / "units"
    try:
        units.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"cannot write to {results}: {error.strerror}") from error
    with _alone(results):
        store = _Store(units)
        source: Units = elsewhere() if elsewhere else _Local(assignment, jobs, weak)
        with contextlib.closing(source):
            hello = source.hello
            told = _versions(hello)
            graded = Class(assignment, seed, *told, hello["protections"], hello["max_score"])
            salt = " ".join([*told, str(seed), str(weak)])
            todo: list[tuple[Submitted, str]] = []
            for item in submitted:
                key = _key(item, salt)
                if key is None:
                    _add(graded, item, unreadable(item.reason, graded.max_score), on_result)
                    continue
                known = store.read(key)
                if known is None:
                    todo.append((item, key))
                else:
                    _add(graded, item, known, on_result)
            for item, key, result in source.results(todo, seed):
                # A file that was changed meanwhile is not what the key stands for.
                if not _internal(result) and _key(item, salt) == key:
                    store.write(key, result)
                _add(graded, item, result, on_result)
        on_class(graded.as_dict())
    return graded


def grade_notebook(assignment: str, path: Path, *, seed: int = DEFAULT_SEED) -> dict[str, Any]:
    """Grade one notebook and return its result, without storing it.

    The runner is kept for the next one, unless a file of the grader has changed: formgrader's
    process, which calls this, may run for weeks.
    Raises EngineError when the assignment has no suite or the runner cannot start.
    """
    runner = _runners.get(assignment)
    now = versions.suite(assignment), versions.grader()
    if runner is not None and _versions(runner.hello) != now:
        _runners.pop(assignment).close()
        runner = None
    if runner is None:
        runner = Runner(assignment, 1)
        atexit.register(runner.close)
        _ = runner.hello  # one that does not start is not kept
        _runners[assignment] = runner
    max_score = runner.hello["max_score"]
    runner.put(0, path, seed)
    answer = runner.get()
    if answer is None:
        del _runners[assignment]
        return _broken(max_score)
    return answer[1]


_runners: dict[str, Runner] = {}


def _versions(hello: Mapping[str, Any]) -> tuple[str, str]:
    return hello["suite_version"], hello["grader_version"]


class _Local:
    """Units graded by a runner on this machine."""

    def __init__(self, assignment: str, jobs: int, weak: bool) -> None:
        self._arguments = (assignment, jobs, weak)
        self._jobs = jobs
        self._runner = Runner(*self._arguments)

    @property
    def hello(self) -> dict[str, Any]:
        """What the runner says of itself. One that ended while it started is tried again, once."""
        try:
            return self._runner.hello
        except NotStarted:
            self._restart()
            return self._runner.hello

    def _restart(self) -> None:
        self._runner.close()
        self._runner = Runner(*self._arguments)

    def results(
        self, todo: Sequence[tuple[Submitted, str]], seed: int
    ) -> Iterator[tuple[Submitted, str, dict[str, Any]]]:
        """Results as they come. A runner that dies is replaced and its units are tried again,
        one at a time, so that the one at fault is found and costs itself alone."""
        waiting = deque(enumerate(todo))
        out: dict[int, tuple[Submitted, str]] = {}
        blamed: set[int] = set()
        careful = 0  # units still to be run one at a time after a death
        told = _versions(self.hello)
        while waiting or out:
            window = 1 if careful else 2 * self._jobs
            while waiting and len(out) < window:
                number, entry = waiting.popleft()
                out[number] = entry
                self._runner.put(number, entry[0].path, seed)
            answer = self._runner.get()
            if answer is not None:
                number, result = answer
                item, key = out.pop(number)
                careful = max(0, careful - 1)
                yield item, key, result
                continue
            self._restart()
            max_score = self.hello["max_score"]
            if _versions(self.hello) != told:
                raise EngineError(
                    "suite or grader have been edited meanwhile: run the same command again"
                )
            alone = len(out) == 1
            for number, (item, key) in sorted(out.items(), reverse=True):
                if alone and number in blamed:
                    yield item, key, _broken(max_score)
                else:
                    waiting.appendleft((number, (item, key)))
                    blamed.add(number)
            careful = len(out)
            out.clear()

    def close(self) -> None:
        self._runner.close()


class _Store:
    """One file per result, written whole or not at all, with a digest of what it holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for left in folder.glob(".*"):  # by a run that was killed: the lock is ours
            left.unlink(missing_ok=True)

    def read(self, key: str) -> dict[str, Any] | None:
        """The result, or None unless the file is there and holds what was written under `key`."""
        try:
            unit = json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8"))
            return unit["result"] if unit["digest"] == _digest(key, unit["result"]) else None
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def write(self, key: str, result: Mapping[str, Any]) -> None:
        unit = {"digest": _digest(key, result), "result": result}
        path = self._folder / f"{key}.json"
        try:
            write_whole(path, json.dumps(unit), durable=True)
        except OSError as error:
            raise EngineError(f"cannot write {path}: {error.strerror}") from error


def _digest(key: str, result: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{key} {json.dumps(result, sort_keys=True)}".encode()).hexdigest()


@contextlib.contextmanager
def _alone(results: Path) -> Iterator[None]:
    """Hold the lock of a results folder; a second run waits for the first, even if it is killed."""
    try:
        lock = os.open(results / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise EngineError(f"cannot write to {results}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("another run is grading this assignment; waiting for it", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _key(item: Submitted, salt: str) -> str | None:
    """The name of a submission's result: a digest of its bytes and of all that judges them."""
    if item.path is None:
        return None
    from ..reading.notebook import MAX_BYTES

    digest = hashlib.sha256(salt.encode())
    try:
        size = os.stat(item.path).st_size
        if size > MAX_BYTES:  # it will be refused unread: a sparse file costs nothing to hand in
            digest.update(f"too large: {size}".encode())
            return digest.hexdigest()[:32]
        with open(item.path, "rb") as file:
            digest.update(file.read(MAX_BYTES + 1))
    except OSError as error:
        digest.update(str(error.strerror).encode())
    return digest.hexdigest()[:32]


def _add(
    graded: Class,
    item: Submitted,
    result: dict[str, Any],
    on_result: Callable[[dict[str, Any], Path | None], None],
) -> None:
    file = item.path.name if item.path else None
    notices = [*item.notices, *result["notices"]]
    full = {"student": item.student, **result, "file": file, "notices": notices}
    graded.submissions.append(full)
    on_result(full, item.path)


def unreadable(reason: str | None, max_score: float) -> dict[str, Any]:
    """The result of a submission that cannot be graded, for this reason."""
    return {
        "status": "ungraded", "reason": reason, "score": None, "max_score": max_score,
        "sha256": "", "code": "", "notices": [], "review": [], "exercises": [], "seconds": 0.0,
    }  # fmt: skip


def _broken(max_score: float) -> dict[str, Any]:
    return unreadable("internal error: the suite runner died twice on it", max_score)


def _internal(result: Mapping[str, Any]) -> bool:
    return str(result["reason"]).startswith("internal error")
