"""A tiny course with a gradebook, the grader run on it, and its processes, to be disturbed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from gradebook_course import facts_of

from autograder.grading import engine
from autograder.sandbox import linux

ROOT = Path(__file__).resolve().parent.parent
# Right, two mistakes, half, stub, no JSON, unfinished cell, library call, ends the process.
STUDENTS = ("01", "05", "17", "18", "24", "27", "29", "32")
VICTIMS = ("cli", "runner", "fork", "supervisor", "server", "worker")
# Seconds after the last one within which the next kill falls; fork and worker live shortly.
SPREAD = {"cli": 9.0, "runner": 6.0, "supervisor": 6.0, "server": 6.0, "fork": 0.3, "worker": 0.3}


def copy_grader(folder: Path) -> Path:
    """A copy of the grader: its version stays the same while somebody edits the tree."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("autograder", "kernel_sanitizer", "solutions/layernorm", "exercises/layernorm"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for path in (ROOT / "solutions").glob("*.py"):
        shutil.copy(path, folder / "solutions")
    return folder


def make_course(folder: Path) -> Path:
    shutil.copytree(ROOT / "exercises" / "layernorm", folder / "exercises" / "layernorm")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for number in STUDENTS:
        name = f"student{number}"
        shutil.copytree(ROOT / "samples" / "submitted" / name, folder / "submitted" / name)
    return folder


@dataclass
class Grader:
    """Runs `grade` of the copy at `root`."""

    root: Path

    def start(
        self,
        course: Path,
        prelude: str = "",
        inside: Callable[[], None] = lambda: None,
        **environment: str,
    ) -> subprocess.Popen[str]:
        """`grade` with a gradebook, as the leader of a process group; `prelude` is run first."""

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
            inside()
            os.chdir(self.root)  # entering other mounts leads to their root

        code = "import sys\nfrom autograder.cli import main\nsys.exit(main(sys.argv[1:]))"
        arguments = ["grade", "layernorm", "--course", str(course), "--jobs", "2"]
        return subprocess.Popen(
            [sys.executable, "-c", f"{prelude}\n{code}", *arguments],
            cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=prepare,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
            | {"COURSE_DB_URL": f"sqlite:///{course}/gradebook.db"} | environment,
        )  # fmt: skip

    def run(self, course: Path, prelude: str = "", **options: Any) -> Said:
        return ended(self.start(course, prelude, **options))


@dataclass
class Said:
    code: int
    out: str
    error: str

    @property
    def reason(self) -> str:
        """The one line of a run that could not go on."""
        lines = [line for line in self.error.splitlines() if line.startswith("autograder: ")]
        assert len(lines) == 1 and "Traceback" not in self.error, self.error
        return lines[0]


def ended(process: subprocess.Popen[str], timeout: float = 3600) -> Said:
    """Wait for a run, and for all it started to be gone."""
    out, error = process.communicate(timeout=timeout)
    nobody_left()
    return Said(process.returncode, out, error)


# -- what a run leaves --------------------------------------------------------------------------


def tables(course: Path) -> dict[str, Any]:
    """All that a class ends in, apart from times: reports, gradebook, autograded/."""
    results = course / "results" / "layernorm"
    data = json.loads((results / "results.json").read_text())
    for submission in data["submissions"]:
        submission.pop("seconds")
    # A server killed while it starts makes the supervisor take the next weaker way, and the class
    # page says so. No grade depends on it, and every other file must be the same.
    data.pop("protections")
    reports = {
        str(p.relative_to(results)): p.read_text()
        for p in sorted(results.rglob("*"))
        if p.name != "index.html"
        and (p.suffix in (".csv", ".html") or p.parent.name == "gradescope")
    }
    autograded = {
        str(p.relative_to(course)): p.read_bytes()
        for p in sorted((course / "autograded").rglob("*"))
        if p.is_file() and not p.name.startswith(".")
    }
    with sqlite3.connect(course / "gradebook.db") as connection:
        rows = connection.execute("SELECT count(*) FROM submitted_assignment").fetchone()
    facts = facts_of(course)
    assert rows == (len(facts),), "one submission for each student"
    return {"results": data, "reports": reports, "facts": facts, "autograded": autograded}


def differences(got: dict[str, Any], want: dict[str, Any], path: str = "") -> list[str]:
    """Where two tables differ; short, because a whole page says nothing."""
    found = []
    for key in sorted({*got, *want}):
        one, other = got.get(key), want.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            found += differences(one, other, f"{path}/{key}")
        elif one != other:
            found.append(f"{path}/{key}: {str(one)[:200]!r} is not {str(other)[:200]!r}")
    return found


def units(course: Path) -> dict[str, Path]:
    """Student -> the file of the stored result, for those that have one. All files are whole."""
    folder = course / "results" / "layernorm" / "units"
    by_digest = {}
    for path in folder.glob("*.json"):
        unit = json.loads(path.read_text())
        assert unit["digest"] == engine._digest(path.stem, unit["result"])
        by_digest[unit["result"]["sha256"], unit["result"]["reason"]] = path
    known = json.loads((folder.parent / "results.json").read_text())["submissions"]
    return {
        s["student"]: by_digest[s["sha256"], s["reason"]]
        for s in known
        if (s["sha256"], s["reason"]) in by_digest
    }


def whole_units(course: Path) -> dict[str, int]:
    """Name -> time of change of the stored results, each checked to be whole."""
    times = {}
    for path in (course / "results" / "layernorm" / "units").glob("*.json"):
        unit = json.loads(path.read_text())
        assert unit["digest"] == engine._digest(path.stem, unit["result"]), path
        times[path.name] = path.stat().st_mtime_ns
    return times


def internal_errors(course: Path) -> list[str]:
    """Students whom the last run left ungraded through no fault of theirs: the next one tries."""
    data = json.loads((course / "results" / "layernorm" / "results.json").read_text())
    reasons = {s["student"]: s["reason"] or "" for s in data["submissions"]}
    return [s for s, reason in reasons.items() if reason.startswith("internal error")]


def wait_for_units(process: subprocess.Popen[str], course: Path, number: int) -> None:
    """Until `number` results are stored."""
    folder = course / "results" / "layernorm" / "units"
    while len(list(folder.glob("[!.]*.json"))) < number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


# -- processes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Running:
    pid: int
    parent: int
    state: str
    command: str


def processes() -> dict[int, Running]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                command = Path(entry.path, "cmdline").read_bytes().decode(errors="replace")
                pid = int(entry.name)
                found[pid] = Running(pid, int(fields[1]), fields[0], command)
    return found


def below(pid: int) -> list[Running]:
    """All that descends from a process."""
    everything = processes()
    found, new = [], [pid]
    while new:
        new = [p.pid for p in everything.values() if p.parent in new]
        found += [everything[pid] for pid in new]
    return found


def victims(cli: int) -> dict[str, list[int]]:
    """Kind -> process ids, for the parts of a run that live now."""
    found: dict[str, list[int]] = {"cli": [cli], **{kind: [] for kind in VICTIMS[1:]}}
    tree = {p.pid: p for p in below(cli) if p.state != "Z"}
    for process in tree.values():
        above = tree[process.parent].command if process.parent in tree else ""
        for name, first, others in (
            ("autograder.grading.suite_runner", "runner", "fork"),
            ("autograder.sandbox.supervisor", "supervisor", None),
            ("autograder.server", "server", "worker"),
        ):
            if name in process.command and (kind := others if name in above else first):
                found[kind].append(process.pid)
    return found


_earlier: set[int] = set()  # processes that other tests of this process have left to be reused


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Have every orphan of a run become a child of this process, where it is seen."""
    _earlier.update(p.pid for p in below(os.getpid()))
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 0)


def nobody_left(seconds: float = 300.0) -> None:
    """No process of a run is left, or is gone soon; other runs than that must not go on."""
    deadline = time.monotonic() + seconds
    while left := [
        p
        for p in below(os.getpid())
        if p.pid not in _earlier and ("autograder" in p.command or p.state == "Z")
    ]:
        for orphan in left:
            if orphan.parent == os.getpid() and orphan.state == "Z":
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(orphan.pid, os.WNOHANG)
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)


# -- killing ------------------------------------------------------------------------------------


@dataclass
class Campaign:
    """Kills the parts of runs in the order of `plan` at random moments, class after class."""

    grader: Grader
    plan: list[str]
    random: Random
    killed: list[str] = field(default_factory=list)
    runs: int = 0

    def one_class(self, course: Path) -> None:
        """Disturb `course` while kills are left, and run until it is graded."""
        known: dict[str, int] = {}
        undisturbed = 0
        while True:
            process = self.grader.start(course)
            self.runs += 1
            before = len(self.killed)
            self._disturb(process)
            said = ended(process)
            assert "Traceback" not in said.error, said.error
            now = whole_units(course)
            assert known.items() <= now.items(), "what was there is not graded again, nor lost"
            known = now
            if said.code == 1 and "report:" in said.out and not internal_errors(course):
                return
            undisturbed += len(self.killed) == before
            assert undisturbed < 2, said

    def _disturb(self, process: subprocess.Popen[str]) -> None:
        while self.plan and process.poll() is None:
            kind = self.plan[0]
            moment = time.monotonic() + self.random.uniform(0, SPREAD[kind])
            while process.poll() is None and time.monotonic() < moment:
                time.sleep(0.005)
            # A poll that has seen the end has freed the number for others.
            while process.poll() is None:
                found = victims(process.pid)[kind]
                if found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self.random.choice(found), signal.SIGKILL)
                        self.killed.append(self.plan.pop(0))
                    break
                time.sleep(0.005)


# -- other file systems -------------------------------------------------------------------------


@contextlib.contextmanager
def private_mounts() -> Iterator[Mounts]:
    """A mount namespace of its own. Raises OSError where that is refused."""
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo; read line"], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        if not holder.stdout.readline():
            raise OSError("a private mount namespace is refused")
        yield Mounts(holder.pid)
    finally:
        holder.communicate("\n")


@dataclass
class Mounts:
    pid: int

    def enter(self) -> None:
        """In a forked child, before it executes a program."""
        space = os.open(f"/proc/{self.pid}/ns/mnt", os.O_RDONLY)
        linux.setns(space, linux.CLONE_NEWNS)
        os.close(space)

    def mount(self, *arguments: str) -> None:
        """`mount` with these arguments. Raises CalledProcessError, FileNotFoundError."""
        command = ["mount", *arguments]
        subprocess.run(command, check=True, preexec_fn=self.enter, capture_output=True)

    def seen(self, path: Path) -> Path:
        """A path as the processes in there see it."""
        return Path(f"/proc/{self.pid}/root{path}")


def fill(folder: Path, leave: int) -> Path:
    """Fill the disk of `folder` up to `leave` bytes. Returns the file that does it."""
    free = os.statvfs(folder)
    filler = folder / "filler"
    with open(filler, "wb") as file:
        file.write(b"x" * (free.f_bavail * free.f_frsize - leave))
    return filler
