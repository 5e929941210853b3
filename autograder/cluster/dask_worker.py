"""What a Dask worker does for a Cluster: keep suite runners, grade notebooks, answer in JSON.

A worker process may have several threads; each busy one has a runner of its own, so that answers
never mix. Runners are kept between units, for starting one means loading torch.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed import get_worker

from .. import versions
from ..errors import EngineError
from ..grading import engine
from ..reading.notebook import one_line

# Of the code this process runs; what is on its disk may be newer.
VERSION, SOFTWARE = versions.grader(), versions.software()

_HELLO = ("suite_version", "protections", "max_score", "exercises")

_idle: list[tuple[tuple[str, bool], engine.Runner]] = []
_lock = threading.Lock()


def serve(order: dict[str, Any]) -> bytes:
    """Carry out one order of a Cluster in a thread of a Dask worker, and answer in JSON.

    order: "assignment", "weak", "suite_version" and "seed"; "data", the notebook's bytes, or None
        to only say what this worker is; or nothing but "close" to end the idle runners.
    """
    if order.get("close"):
        return _close_idle()
    answer: dict[str, Any] = {"grader_version": VERSION, "software": SOFTWARE}
    try:
        if versions.grader() != VERSION:
            raise EngineError("its files have changed since it was started; start it again")
        for _ in range(2):
            with contextlib.suppress(_RunnerDied), _runner(order) as runner:
                answer |= {key: runner.hello[key] for key in _HELLO}
                if order["data"] is not None:
                    answer["result"] = _grade(runner, order["data"], order["seed"])
                break
        else:
            answer["error"] = "the suite runner died twice on it"
    except (EngineError, OSError) as error:
        answer["error"] = one_line(str(error), 300)
    return json.dumps(answer).encode()


class _RunnerDied(Exception):
    pass


@contextlib.contextmanager
def _runner(order: dict[str, Any]) -> Iterator[engine.Runner]:
    """A suite runner for this thread alone; kept for the next unit unless it fails."""
    kind = (order["assignment"], order["weak"])
    with _lock:
        fitting = [entry for entry in _idle if entry[0] == kind]
        runner = fitting[-1][1] if fitting else None
        if fitting:
            _idle.remove(fitting[-1])
    if runner is not None and runner.hello["suite_version"] != order["suite_version"]:
        runner.close()  # the suite has been edited since it was started
        runner = None
    if runner is None:
        runner = engine.Runner(order["assignment"], 1, order["weak"])
    try:
        yield runner
    except BaseException:
        runner.close()
        raise
    with _lock:
        _idle.append((kind, runner))


def _grade(runner: engine.Runner, data: bytes, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="notebook-", dir=_folder()) as folder:
        path = Path(folder, "notebook.ipynb")
        path.write_bytes(data)
        runner.put(0, path, seed)
        answer = runner.get()
    if answer is None:
        raise _RunnerDied
    return answer[1]


def _folder() -> str | None:
    """The Dask worker's own folder; when it was killed, the next worker there removes it."""
    try:
        return get_worker().local_directory
    except ValueError:  # not in a task of a Dask worker
        return None


def _close_idle() -> bytes:
    with _lock:
        closing, _idle[:] = _idle[:], []
    for _, runner in closing:
        runner.close()
    return b"{}"


def task() -> Any:
    """The function that Dask calls. It is sent as code, not by name: only workers need the
    package, and one that lacks it can say so."""

    def grade(order: dict[str, Any]) -> bytes:
        try:
            from . import dask_worker  # absolute: this is unpickled elsewhere
        except ImportError as error:
            return b'{"error": "it has no autograder (%s)"}' % str(error.name).encode()
        return dask_worker.serve(order)

    return grade
