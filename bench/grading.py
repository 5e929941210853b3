"""How fast the grader grades, beside nbgrader's own autograde on the same notebook.

    python -m bench.grading                       # small: a few minutes
    python -m bench.grading --ours 300 --nbgrader 30 --rounds 5

Both run in this one process tree, in turns, pinned to the same single core where the system allows
it, so a busy machine slows both. Ours includes writing nbgrader's gradebook. Times include reading
and writing files; start-up is shown apart. The result goes to bench/results/.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat

from autograder import engine
from autograder.engine import ROOT, Submitted
from autograder.gradebook import Writer
from bench import plain_nbgrader

ASSIGNMENT = "layernorm"
VERSIONS = ("torch", "nbgrader", "nbconvert", "pytest", "SQLAlchemy", "safetensors")


@dataclass
class Series:
    """What one way of grading took, over all rounds."""

    seconds: list[float] = field(default_factory=list)  # per submission, one entry a round
    cpu: list[float] = field(default_factory=list)  # processor seconds of all processes, the same
    start: list[float] = field(default_factory=list)  # start-up, one entry a round
    count: int = 0
    peak_mib: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        each, cpu = statistics.median(self.seconds), statistics.median(self.cpu)
        return {
            "submissions": self.count,
            "seconds_per_submission": round(each, 4),
            "seconds_per_submission_by_round": [round(s, 4) for s in self.seconds],
            "cpu_seconds_per_submission": round(cpu, 4),
            "cpu_seconds_per_submission_by_round": [round(s, 4) for s in self.cpu],
            "submissions_per_minute_per_core": round(60 / cpu, 1),
            "start_up_seconds": round(statistics.median(self.start), 2),
            "peak_memory_mib": round(self.peak_mib) or None,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ours", type=int, default=60, help="submissions of ours, per kind")
    parser.add_argument("--nbgrader", type=int, default=6, help="submissions for nbgrader")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--name", default="grading", help="bench/results/NAME.json")
    options = parser.parse_args()
    if min(options.ours, options.nbgrader) < 2 * options.rounds:
        parser.error("give at least two submissions for each round")

    os.environ["OMP_NUM_THREADS"] = "1"  # read by torch, which is not loaded yet
    cores = pin_to_one_core()
    print(f"{ASSIGNMENT}: {options.rounds} rounds, {cores}", flush=True)
    suites = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        bench = Bench(Path(scratch))
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", flush=True)
            bench.grade_ours("full_marks", options.ours // options.rounds, number)
            bench.grade_plain(options.nbgrader // options.rounds, number)
            bench.grade_ours("mixed", options.ours // options.rounds, number)
            suites.append(suite_seconds())
    suite = statistics.median(suites)
    record = {
        "what": "seconds to grade one submission, ours and nbgrader autograde, interleaved",
        "date": datetime.date.today().isoformat(),
        "machine": {
            "processor": processor(), "cores": os.cpu_count(), "pinned": cores,
            "system": platform.system(), "python": platform.python_version(),
        },
        "versions": {name: version(name) for name in VERSIONS},
        "grader_version": engine.grader_version(),
        "suite_cpu_seconds_in_process": round(suite, 4),
        "protections": bench.protections,
        **{name: series.as_dict() for name, series in bench.series.items()},
    }  # fmt: skip
    full, plain = record["full_marks"], record["nbgrader_autograde"]
    ours_cpu, plain_cpu = (r["cpu_seconds_per_submission"] for r in (full, plain))
    record["overhead_over_suite_cpu_seconds"] = round(ours_cpu - suite, 4)
    record["times_cheaper_than_nbgrader"] = round(plain_cpu / ours_cpu, 1)
    record["times_faster_than_nbgrader"] = round(
        plain["seconds_per_submission"] / full["seconds_per_submission"], 1
    )
    target = ROOT / "bench" / "results" / f"{options.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record))
    print(f"\nwritten to {target.relative_to(ROOT)}")
    return 0


class Bench:
    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        print("making a plain nbgrader course", flush=True)
        course = scratch / "plain"
        course.mkdir()
        self.plain = plain_nbgrader.Course(course, ASSIGNMENT)
        ours = scratch / "ours"
        ours.mkdir()
        shutil.copytree(ROOT / "exercises" / ASSIGNMENT, ours / "exercises" / ASSIGNMENT)
        shutil.copy(ROOT / "nbgrader_config.py", ours)
        self.ours = ours
        self.url = f"sqlite:///{ours}/gradebook.db"
        self.series = {n: Series() for n in ("full_marks", "mixed", "nbgrader_autograde")}
        self.protections: list[str] = []
        self.perfect: float | None = None

    def grade_ours(self, kind: str, count: int, number: int) -> None:
        """`count` new submissions, one at a time, with the gradebook written."""
        folder = self.scratch / f"{kind}-{number}"
        submitted = [
            _place(folder, notebook, f"{kind}{number}x{i:04d}")
            for i, notebook in enumerate(self._notebooks(kind, count))
        ]
        moments: list[float] = []
        cpu: list[float] = []
        results: list[dict[str, Any]] = []
        series = self.series[kind]
        with Writer(self.ours, ASSIGNMENT, self.url) as writer, watched(series):

            def on_result(result: dict[str, Any], path: Path | None) -> None:
                writer.write(result, path)
                moments.append(time.monotonic())
                if len(moments) in (1, count):
                    cpu.append(cpu_seconds())
                results.append(result)

            started = time.monotonic()
            graded = engine.grade(
                ASSIGNMENT, submitted, results=folder / "results", jobs=1, on_result=on_result
            )
        each = (moments[-1] - moments[0]) / (count - 1)
        series.seconds.append(each)
        series.cpu.append((cpu[-1] - cpu[0]) / (count - 1))
        series.start.append(moments[0] - started - each)
        series.count += count
        self.protections = list(graded.protections)
        if kind == "full_marks":
            low = [r for r in results if r["score"] != r["max_score"]]
            if low:
                raise SystemExit(f"the reference did not get full marks: {low[0]}")

    def grade_plain(self, count: int, number: int) -> None:
        students = [f"plain{number}x{i:04d}" for i in range(count)]
        self.plain.submit(students)
        series = self.series["nbgrader_autograde"]
        with watched(series):
            timing = self.plain.autograde(cpu_seconds)
            used = cpu_seconds() - timing.start_cpu
        series.seconds.append((timing.seconds - timing.start_seconds) / count)
        series.cpu.append(used / count)
        series.start.append(timing.start_seconds)
        series.count += count
        scores = self.plain.scores()
        full = max(scores.values())
        if any(scores[s] != full or not full for s in students):
            raise SystemExit(f"nbgrader did not give full marks: {scores}")

    def _notebooks(self, kind: str, count: int) -> list[nbformat.NotebookNode]:
        """`count` notebooks, no two with the same bytes (equal ones are graded once a run)."""
        if kind == "full_marks":
            found = [self.plain.solution]
        else:
            paths = sorted((ROOT / "samples" / "submitted").glob(f"*/{ASSIGNMENT}/*.ipynb"))
            found = [n for n in map(_readable, paths) if n is not None]
            if not found:
                raise SystemExit("there is no sample class: make samples")
        out = []
        for i in range(count):
            notebook = nbformat.from_dict(json.loads(json.dumps(found[i % len(found)])))
            notebook.cells.append(nbformat.v4.new_markdown_cell(f"copy {i}", id=f"copy-{i}"))
            out.append(notebook)
        return out


def _readable(path: Path) -> nbformat.NotebookNode | None:
    with contextlib.suppress(Exception):
        return nbformat.read(path, as_version=4)
    return None


def _place(folder: Path, notebook: nbformat.NotebookNode, student: str) -> Submitted:
    path = folder / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return Submitted(student, path)


def suite_seconds() -> float:
    """Processor seconds of the hidden tests by themselves, on the reference, in this process."""
    import torch

    from autograder.student import Student
    from autograder.suite import load

    torch.set_num_threads(1)
    suite = load(ASSIGNMENT)
    took = []
    for _ in range(6):
        started = time.process_time()
        for test in suite.tests:
            test.run(Student.local(vars(suite.reference)), engine.DEFAULT_SEED)
        took.append(time.process_time() - started)
    return statistics.median(took[1:])  # the first one warms caches up


# -- the machine -------------------------------------------------------------------------------


def pin_to_one_core() -> str:
    """Keep this process and all it starts on one core. Returns what was done, in words."""
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned: this system cannot"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return "pinned to one core"


def processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@contextlib.contextmanager
def watched(series: Series) -> Iterator[None]:
    """Note the largest memory of all processes below this one (shared pages counted once)."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(1.0):
            series.peak_mib = max(series.peak_mib, memory_mib())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def descendants() -> list[int]:
    """The processes below this one; none where the system does not tell."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, todo = [], list(parents.get(os.getpid(), []))
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


def cpu_seconds() -> float:
    """Processor seconds of this process, those below it, and those that have ended there."""
    own = os.times()
    ticks = 0
    for pid in descendants():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # own user and system, ended children's
    spent = own.user + own.system + own.children_user + own.children_system
    return spent + ticks / os.sysconf("SC_CLK_TCK")


def memory_mib() -> float:
    """Proportional memory of the processes below this one, 0 where the system does not tell."""
    kib = 0
    for pid in descendants():
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kib += int(line.split()[1])
    return kib / 1024


def table(record: dict[str, Any]) -> str:
    """The record as text."""
    columns = ("full_marks", "mixed", "nbgrader_autograde")
    rows = [("", "ours, full marks", "ours, mixed", "nbgrader autograde")]
    for key, name in (
        ("submissions", "submissions"),
        ("seconds_per_submission", "seconds per submission"),
        ("cpu_seconds_per_submission", "processor seconds each"),
        ("submissions_per_minute_per_core", "submissions per minute per core"),
        ("start_up_seconds", "start-up, seconds"),
        ("peak_memory_mib", "peak memory, MiB"),
    ):
        rows.append((name, *(str(record[column][key]) for column in columns)))
    lines = ["  ".join(f"{cell:>{31 if i == 0 else 18}}" for i, cell in enumerate(r)) for r in rows]
    lines += [
        "",
        f"the suite alone:           {record['suite_cpu_seconds_in_process']} processor seconds",
        f"ours over the suite alone: {record['overhead_over_suite_cpu_seconds']} a submission",
        f"ours against nbgrader:     {record['times_faster_than_nbgrader']} times faster, "
        f"{record['times_cheaper_than_nbgrader']} times fewer processor seconds",
        f"protections on:            {', '.join(record['protections'])}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
