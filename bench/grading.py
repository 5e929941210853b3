"""How fast the grader grades, beside nbgrader and otter-grader on the same notebook.

    python -m bench.grading                       # small: a few minutes
    python -m bench.grading --ours 300 --nbgrader 30 --otter 30 --rounds 5
    python -m bench.grading --scale 10 100 1000 3000 --jobs 2     # cost as the class grows

All run in this one process tree, in turns, pinned to the same single core where the system allows
it, so a busy machine slows all of them. Ours includes writing nbgrader's gradebook. Times include
reading and writing files; start-up is shown apart. The result goes to bench/results/. otter needs
its environment (`python -m bench.attacks_on_peers --setup --peers otter`); without it is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat

from autograder import versions
from autograder.course import ROOT
from autograder.gradebook.writer import Writer
from autograder.grading import engine
from autograder.grading.engine import Submitted
from bench import machine, peers, plain_nbgrader

ASSIGNMENT = "layernorm"
MIXED = 60  # submissions of the sample class a round, at most: they mostly wait for limits
VERSIONS = ("torch", "nbgrader", "nbconvert", "pytest", "SQLAlchemy")


@dataclass
class Series:
    """What one way of grading took, over all rounds."""

    seconds: list[float] = field(default_factory=list)  # per submission, one entry a round
    cpu: list[float] = field(default_factory=list)  # the same in CPU seconds, of all processes
    start: list[float] = field(default_factory=list)  # start-up, one entry a round
    count: int = 0
    peak: machine.Peak = field(default_factory=machine.Peak)

    def add(self, count: int, seconds: float, cpu: float, start: float) -> None:
        """One round: `count` submissions at so many seconds each, after a start-up."""
        self.count += count
        self.seconds.append(seconds)
        self.cpu.append(cpu)
        self.start.append(start)

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
            "peak_memory_mib": round(self.peak.mib) or None,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ours", type=int, default=60, help="submissions of ours")
    parser.add_argument("--nbgrader", type=int, default=6, help="submissions for nbgrader")
    parser.add_argument("--otter", type=int, default=6, help="submissions for otter run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--name", help="bench/results/NAME.json")
    parser.add_argument("--scale", type=int, nargs="+", metavar="N", help="only classes of N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="with --scale")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache" / "peers")
    options = parser.parse_args()
    if min(options.ours, options.nbgrader) < 2 * options.rounds or options.otter < options.rounds:
        parser.error("give at least two submissions for each round")

    os.environ["OMP_NUM_THREADS"] = "1"  # read by torch, which is only loaded in processes below
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": machine.describe(),
        "load_before": machine.load(),
        "versions": {name: version(name) for name in VERSIONS},
        "grader_version": versions.grader(),
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        if options.scale:
            record |= scale(Path(scratch), options.scale, options.jobs)
        else:
            record |= compare(Path(scratch), options)
    record["load_after"] = machine.load()
    name = options.name or ("grading-scale" if options.scale else "grading")
    target = ROOT / "bench" / "results" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(scale_table(record) if options.scale else table(record))
    print(f"\nload: {record['load_before']} before, {record['load_after']} after")
    print(f"written to {target.relative_to(ROOT)}")
    return 0


# -- beside others ---------------------------------------------------------------------------------


def compare(scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Ours, nbgrader and otter in turns, on one core."""
    cores = machine.pin_to_one_core()
    print(f"{ASSIGNMENT}: {options.rounds} rounds, {cores}", flush=True)
    bench, suites, rounds = Bench(scratch, options.home.resolve()), [], options.rounds
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}, load {machine.load()[0]}", flush=True)
        bench.grade_ours("full_marks", options.ours // rounds, number)
        bench.grade_plain(options.nbgrader // rounds, number)
        bench.grade_ours("mixed", min(options.ours // rounds, MIXED), number)
        if bench.otter:
            bench.grade_otter(options.otter // rounds)
        suites.append(suite_seconds())
    wall = statistics.median(suite["wall"] for suite in suites)
    cpu = statistics.median(suite["cpu"] for suite in suites)
    series = {name: s.as_dict() for name, s in bench.series.items() if s.count}
    full = series["full_marks"]
    record = {
        "what": "seconds to grade one submission: ours, nbgrader autograde, otter run, in turns",
        "pinned": cores,
        "suite_seconds_in_process": round(wall, 4),
        "suite_cpu_seconds_in_process": round(cpu, 4),
        "protections": bench.protections,
        **series,
        "overhead_over_suite_seconds": round(full["seconds_per_submission"] - wall, 4),
        "overhead_over_suite_cpu_seconds": round(full["cpu_seconds_per_submission"] - cpu, 4),
    }
    for name in ("nbgrader", "otter"):
        theirs = series.get({"nbgrader": "nbgrader_autograde", "otter": "otter_run"}[name])
        if theirs:
            for word, key in (("faster", "seconds"), ("cheaper", "cpu_seconds")):
                ratio = theirs[f"{key}_per_submission"] / full[f"{key}_per_submission"]
                record[f"times_{word}_than_{name}"] = round(ratio, 1)
    if bench.otter:
        record["otter_version"] = peers.version(options.home.resolve(), "otter")
    return record


class Bench:
    def __init__(self, scratch: Path, home: Path) -> None:
        self.scratch = scratch
        print("making a plain nbgrader course", flush=True)
        course = scratch / "plain"
        course.mkdir()
        self.plain = plain_nbgrader.Course(course, ASSIGNMENT)
        self.otter = None
        if peers.version(home, "otter"):
            print("making an otter assignment", flush=True)
            self.otter = peers.Otter(home, scratch, "hidden")
        self.ours = course_of(scratch / "ours")
        self.url = f"sqlite:///{self.ours}/gradebook.db"
        kinds = ("full_marks", "mixed", "nbgrader_autograde", "otter_run")
        self.series = {name: Series() for name in kinds}
        self.protections: list[str] = []

    def grade_ours(self, kind: str, count: int, number: int) -> None:
        """`count` new submissions, one at a time, with the gradebook written."""
        folder = self.scratch / f"{kind}-{number}"
        submitted = [
            _place(folder, notebook, f"{kind}{number}x{i:04d}")
            for i, notebook in enumerate(copies(originals(kind), count))
        ]
        moments: list[float] = []
        used: list[float] = []
        results: list[dict[str, Any]] = []
        series = self.series[kind]
        with (
            Writer(self.ours, ASSIGNMENT, self.url) as writer,
            machine.watched(series.peak, own=True),
        ):

            def on_result(result: dict[str, Any], path: Path | None) -> None:
                writer.add(result, path)
                results.append(result)
                if len(results) == count:
                    writer.flush()
                if len(results) in (1, count):
                    used.append(machine.cpu_seconds())
                moments.append(time.monotonic())

            started = time.monotonic()
            graded = engine.grade(
                ASSIGNMENT, submitted, results=folder / "results", jobs=1, on_result=on_result
            )
        each = (moments[-1] - moments[0]) / (count - 1)
        cpu = (used[-1] - used[0]) / (count - 1)
        series.add(count, each, cpu, moments[0] - started - each)
        self.protections = list(graded.protections)
        if kind == "full_marks":
            low = [r for r in results if r["score"] != r["max_score"]]
            if low:
                raise SystemExit(f"the reference did not get full marks: {low[0]}")

    def grade_plain(self, count: int, number: int) -> None:
        students = [f"plain{number}x{i:04d}" for i in range(count)]
        self.plain.submit(students)
        series = self.series["nbgrader_autograde"]
        with machine.watched(series.peak, own=False):
            timing = self.plain.autograde(machine.cpu_seconds)
        used = machine.cpu_seconds() - timing.start_cpu
        seconds = (timing.seconds - timing.start_seconds) / count
        series.add(count, seconds, used / count, timing.start_seconds)
        scores = self.plain.scores()
        full = max(scores.values())
        if any(scores[s] != full or not full for s in students):
            raise SystemExit(f"nbgrader did not give full marks: {scores}")

    def grade_otter(self, count: int) -> None:
        """One command for each submission, as that is what `otter run` takes."""
        series = self.series["otter_run"]
        before, started = machine.cpu_seconds(), time.monotonic()
        with machine.watched(series.peak, own=False):
            for notebook in copies(originals("full_marks"), count):
                score = self.otter.grade_unboxed(notebook)
                if score != sum(peers.POINTS.values()):
                    raise SystemExit(f"otter did not give full marks: {score}")
        seconds = (time.monotonic() - started) / count
        series.add(count, seconds, (machine.cpu_seconds() - before) / count, 0.0)


def suite_seconds() -> dict[str, float]:
    """Wall and CPU seconds of the hidden tests by themselves, on the reference."""
    command = [sys.executable, "-m", "bench.suite_time", ASSIGNMENT]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


# -- as the class grows ----------------------------------------------------------------------------


def scale(scratch: Path, sizes: list[int], jobs: int) -> dict[str, Any]:
    """Classes of growing size by the command line, each new; half full marks, half samples."""
    classes = []
    for size in sizes:
        root = course_of(scratch / f"class-{size}")
        mix = [n for pair in zip(_cycle("full_marks"), _cycle("mixed"), strict=True) for n in pair]
        for i, notebook in enumerate(copies(mix, size)):
            _place(root / "submitted", notebook, f"student{i:05d}")
        command = [
            sys.executable, "-m", "autograder", "grade", ASSIGNMENT, "--course", str(root),
            "--results", str(root / "results"), "--jobs", str(jobs),
        ]  # fmt: skip
        peak, used, started = machine.Peak(), machine.cpu_seconds(), time.monotonic()
        environment = os.environ | {"COURSE_DB_URL": f"sqlite:///{root}/gradebook.db"}
        with machine.watched(peak, own=False), tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said)
            first = _until_first_grade(process, root / "results" / "units") - started
            process.wait()
            said.seek(0)
            output = said.read()
        seconds, cpu = time.monotonic() - started, machine.cpu_seconds() - used
        if process.returncode != 0:
            raise SystemExit(f"grading {size} submissions failed:\n{output[-2000:]}")
        row = {
            "submissions": size, "seconds": round(seconds, 1),
            "seconds_to_first_grade": round(first, 2),
            "seconds_per_submission": round(seconds / size, 4),
            "cpu_seconds_per_submission": round(cpu / size, 4),
            "peak_memory_mib": round(peak.mib) or None, "load": machine.load()[0],
        }  # fmt: skip
        print(row, flush=True)
        classes.append(row)
        shutil.rmtree(root)
    return {
        "what": "one command over a new class of N, start-up, gradebook and reports included",
        "jobs": jobs,
        "classes": classes,
    }


def _until_first_grade(process: subprocess.Popen, units: Path) -> float:
    """Wait for the first result file, or the end. Returns the moment."""
    while process.poll() is None and not any(units.glob("[!.]*.json")):
        time.sleep(0.02)
    return time.monotonic()


def _cycle(kind: str) -> list[nbformat.NotebookNode]:
    found = [n for n in originals(kind) if not _waits(n)]
    return [found[i % len(found)] for i in range(24)]


def _waits(notebook: nbformat.NotebookNode) -> bool:
    """Endless loops of the sample class, whose wall-clock limits would hide what is measured."""
    return any("while True" in cell.source for cell in notebook.cells)


# -- notebooks -------------------------------------------------------------------------------------


def course_of(root: Path) -> Path:
    """A new course folder with the assignment handed out."""
    root.mkdir()
    shutil.copytree(ROOT / "exercises" / ASSIGNMENT, root / "exercises" / ASSIGNMENT)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    return root


def originals(kind: str) -> list[nbformat.NotebookNode]:
    """The reference as a submission ("full_marks"), or the sample class ("mixed")."""
    if kind == "full_marks":
        return [plain_nbgrader.solution(ASSIGNMENT)]
    paths = sorted((ROOT / "samples" / "submitted").glob(f"*/{ASSIGNMENT}/*.ipynb"))
    found = [n for n in map(_readable, paths) if n is not None]
    if not found:
        raise SystemExit("there is no sample class: make samples")
    return found


def copies(found: list[nbformat.NotebookNode], count: int) -> Iterator[nbformat.NotebookNode]:
    """`count` notebooks, no two with the same bytes (equal ones are graded once a run)."""
    for i in range(count):
        notebook = nbformat.from_dict(json.loads(json.dumps(found[i % len(found)])))
        notebook.cells.append(nbformat.v4.new_markdown_cell(f"copy {i}", id=f"copy-{i}"))
        yield notebook


def _readable(path: Path) -> nbformat.NotebookNode | None:
    with contextlib.suppress(Exception):
        return nbformat.read(path, as_version=4)
    return None


def _place(folder: Path, notebook: nbformat.NotebookNode, student: str) -> Submitted:
    path = folder / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return Submitted(student, path)


# -- as text ---------------------------------------------------------------------------------------


def table(record: dict[str, Any]) -> str:
    """The comparison as text."""
    names = {
        "full_marks": "ours, full marks", "mixed": "ours, mixed",
        "nbgrader_autograde": "nbgrader autograde", "otter_run": "otter run",
    }  # fmt: skip
    columns = [name for name in names if name in record]
    rows = [("", *(names[column] for column in columns))]
    for key, name in (
        ("submissions", "submissions"),
        ("seconds_per_submission", "seconds per submission"),
        ("cpu_seconds_per_submission", "CPU seconds per submission"),
        ("submissions_per_minute_per_core", "submissions per minute per core"),
        ("start_up_seconds", "start-up, seconds"),
        ("peak_memory_mib", "peak memory, MiB"),
    ):
        rows.append((name, *(str(record[column][key]) for column in columns)))
    lines = ["  ".join(f"{cell:>{31 if i == 0 else 18}}" for i, cell in enumerate(r)) for r in rows]
    wall, cpu = record["suite_seconds_in_process"], record["suite_cpu_seconds_in_process"]
    over = record["overhead_over_suite_seconds"], record["overhead_over_suite_cpu_seconds"]
    lines += [
        "",
        f"the suite alone, in process: {wall} s, {cpu} s of CPU",
        f"ours over the suite alone:   {over[0]} s, {over[1]} s of CPU a submission",
    ]
    for name in ("nbgrader", "otter"):
        if f"times_faster_than_{name}" in record:
            lines.append(
                f"ours against {name + ':':<16}{record[f'times_faster_than_{name}']} times faster, "
                f"{record[f'times_cheaper_than_{name}']} times less CPU"
            )
    return "\n".join([*lines, f"protections on:              {', '.join(record['protections'])}"])


def scale_table(record: dict[str, Any]) -> str:
    """The growing classes as text."""
    keys = list(record["classes"][0])
    rows = [keys, *([str(row[key]) for key in keys] for row in record["classes"])]
    return "\n".join("  ".join(f"{cell:>{len(keys[i])}}" for i, cell in enumerate(r)) for r in rows)


if __name__ == "__main__":
    sys.exit(main())
