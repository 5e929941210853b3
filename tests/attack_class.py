"""Lay the attacks of tests/attacks/ out as one class, grade it for real, and keep what came of it.

An attack is data: a folder with `attack.py` (the hostile cells) or `submission/` (literal files) or
`make.py`, and `expected.toml` (what may come of it at most). Adding one adds no code here.

    attack.py      percent format; `# %% layer_norm` replaces the source of that solution cell,
                   `# %% added` is one more code cell where it stands, `# %% first` comes first.
    submission/    copied into the folder that is handed in, over the notebook if it holds one.
    make.py        `make(folder, notebook)` changes that folder when files cannot be committed.
    expected.toml  kind        which of the twenty kinds of shared grader cases it is
                   class       overfitting, evasion, redirection, injection, control-pass or -fail
                   about       one sentence for the table in the book
                   right       names whose cells hold the reference solution
                   points      the exact score, or max_points: the most it may score
                   verdicts    every test's verdict is one of these
                   ungraded    words of the one-line reason, when it is not to be graded
                   review      true: a person must be told (review is not empty) unless it scores 0
                   absent      patterns that match nothing the grader wrote about it
                   [weak]      what differs without namespaces; held = false needs a `why`

Some attacks cannot show by their score that they won. They say so by raising OverflowError, which
no test expects, so it is always a failure here. Files that an attack writes are called pwned-*.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ATTACKS = Path(__file__).resolve().parent / "attacks"
ASSIGNMENT = "layernorm"
EXERCISES = ("layer_norm", "LayerNorm", "layer_norm_backward")
MARKER = "HIDDEN-SUITE-" + "7f3a"  # stands in every hidden file; in two parts, this file is not one
BREACH = "OverflowError"
GRADE_SECONDS = 3600  # something hangs, whatever else the machine does

# Small limits, so that attacks which burn them are cheap. They are settings of the suite.
LIMITS = """
[limits]
call_seconds = 2.5
start_seconds = 6.0
submission_seconds = 25.0
wall_factor = 2.0
memory_mib = 768
"""


@dataclass(frozen=True)
class Attack:
    """One folder of tests/attacks/."""

    name: str
    folder: Path
    expected: dict[str, Any]

    @property
    def kind(self) -> int:
        return self.expected["kind"]

    @property
    def student(self) -> str:
        """The name it hands in under; sorts attacks of a kind together."""
        return f"k{self.kind:02d}-{self.name}"

    def expects(self, mode: str) -> dict[str, Any]:
        """What is expected in `mode`, "strong" or "weak"."""
        common = {k: v for k, v in self.expected.items() if k != "weak"}
        return common | (self.expected.get("weak", {}) if mode == "weak" else {})


def attacks() -> list[Attack]:
    """Every attack and control, by kind and name."""
    found = [
        Attack(path.parent.name, path.parent, tomllib.loads(path.read_text()))
        for path in ATTACKS.glob("*/expected.toml")
    ]
    return sorted(found, key=lambda attack: attack.student)


# -- notebooks -----------------------------------------------------------------------------------


def released() -> dict[str, Any]:
    """The notebook as it is handed out."""
    return json.loads((ROOT / "exercises" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_text())


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The cells of a file in percent format: what stands after `# %%`, and the source."""
    parts = re.split(r"^# %% *(.*)\n", text, flags=re.MULTILINE)
    for title, source in zip(parts[1::2], parts[2::2], strict=True):
        yield title.strip(), source.strip("\n")


def reference_sources() -> dict[str, str]:
    """The solution cell of each graded name."""
    text = (ROOT / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.py").read_text()
    found = {}
    for title, source in sections(text):
        for name in EXERCISES:
            if f'"grade_id": "{name}"' in title:
                found[name] = re.sub(r"(?m)^ *### (BEGIN|END) SOLUTION\n", "", source + "\n")
    return found


def _position(notebook: dict[str, Any], grade_id: str) -> int:
    for index, cell in enumerate(notebook["cells"]):
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id:
            return index
    raise LookupError(grade_id)


def notebook_of(attack: Attack) -> dict[str, Any]:
    """The released notebook with the cells of the attack put in."""
    notebook = released()
    right = reference_sources()
    for name in attack.expected.get("right", []):
        notebook["cells"][_position(notebook, name)]["source"] = right[name]
    path = attack.folder / "attack.py"
    at = _position(notebook, EXERCISES[0])  # where the next added cell goes
    for title, source in sections(path.read_text()) if path.exists() else ():
        if title in EXERCISES:
            at = _position(notebook, title)
            notebook["cells"][at]["source"] = source
            at += 1
            continue
        if title not in ("added", "first"):
            raise ValueError(f"{path}: a cell may not be called {title!r}")
        cell = {
            "cell_type": "code", "id": f"x{len(notebook['cells'])}", "metadata": {},
            "execution_count": None, "outputs": [], "source": source,
        }  # fmt: skip
        notebook["cells"].insert(0 if title == "first" else at, cell)
        at += 1
    return notebook


def hand_in(attack: Attack, submitted: Path) -> None:
    """Write what the attack hands in below `submitted`."""
    folder = submitted / attack.student / ASSIGNMENT
    folder.mkdir(parents=True)
    notebook = notebook_of(attack)
    (folder / f"{ASSIGNMENT}.ipynb").write_text(json.dumps(notebook, indent=1))
    literal = attack.folder / "submission"
    if literal.is_dir():
        shutil.copytree(literal, folder, dirs_exist_ok=True)
    recipe = attack.folder / "make.py"
    if recipe.exists():
        spec = importlib.util.spec_from_file_location(f"make_{attack.name}", recipe)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.make(folder, notebook)


def honest_students(submitted: Path) -> list[str]:
    """Three kinds of honest work before, between and after the attacks; returns their names."""
    right = reference_sources()
    forgot = "return x * weight + bias"
    works = {
        "full": right,
        "part": {"layer_norm": right["layer_norm"]},
        "slip": {"layer_norm": f"def layer_norm(x, weight, bias, eps):\n    {forgot}"},
    }
    places = ("a", "k03z", "k06z", "k08z", "k09z", "k14z", "z")
    names = []
    for place in places:
        for work, cells in works.items():
            if work != "full" and place not in ("a", "z"):
                continue
            notebook = released()
            for name, source in cells.items():
                notebook["cells"][_position(notebook, name)]["source"] = source
            names.append(f"{place}-honest-{work}")
            folder = submitted / names[-1] / ASSIGNMENT
            folder.mkdir(parents=True)
            (folder / f"{ASSIGNMENT}.ipynb").write_text(json.dumps(notebook, indent=1))
    return names


# -- the place where it happens ------------------------------------------------------------------


@dataclass
class Place:
    """A copy of the project in a folder that everybody may enter, with secrets around it."""

    base: Path
    token: str = field(default_factory=lambda: "CANARY-" + secrets.token_hex(8))
    secrets: list[Path] = field(default_factory=list)
    honest: list[str] = field(default_factory=list)
    python: dict[Path, int] = field(default_factory=dict)  # modes of Python's own files

    @property
    def project(self) -> Path:
        return self.base / "project"

    def prepare(self) -> None:
        """Copy the project with small limits, and put secrets where an attack may look."""
        self.base.chmod(0o755)
        self.python = {path: path.stat().st_mode & 0o7777 for path in _python_files()}
        unneeded = shutil.ignore_patterns("__pycache__", "results", "*.pyc")
        for name in ("autograder", "kernel_sanitizer", "solutions", "exercises"):
            shutil.copytree(ROOT / name, self.project / name, ignore=unneeded)
        settings = self.project / "autograder" / "suites" / ASSIGNMENT / "suite.toml"
        text = re.sub(r"^\[limits\][^\[]*", "", settings.read_text(), flags=re.MULTILINE)
        settings.write_text(text + LIMITS)
        home = Path.home() / f".{self.base.name}-canary.txt"
        self.secrets = [self.base / "canary.txt", self.project / "canary.txt", home]
        for path in self.secrets:
            path.write_text(self.token)
            path.chmod(0o666)
        with sqlite3.connect(self.project / "gradebook.db") as book:
            book.execute("create table grade (student text, score real)")
            book.execute("insert into grade values ('student01', 1.0)")
        (self.project / "gradebook.db").chmod(0o666)
        other = self.project / "submitted" / "student01" / ASSIGNMENT
        other.mkdir(parents=True)
        (other / f"{ASSIGNMENT}.ipynb").write_text(json.dumps({"cells": [], "note": self.token}))

    def clean(self) -> None:
        # Python's files are everybody's: an attack that won must not leave them changed.
        for path, mode in self.python.items():
            if path.exists() and path.stat().st_mode & 0o7777 != mode:
                path.chmod(mode)
        for path in self.secrets:
            path.unlink(missing_ok=True)
        shutil.rmtree(self.base, ignore_errors=True)

    def fingerprints(self) -> dict[str, str]:
        """Contents, mode and date of every file that grading has no business to change."""
        files = [p for p in self.base.rglob("*") if p.is_file() and not p.is_symlink()]
        watched = [p for p in files if "__pycache__" not in p.parts and "results" not in p.parts]
        every = {*watched, *self.secrets, *self.python}
        return {str(p): _fingerprint(p) for p in sorted(every)}

    def planted(self) -> list[str]:
        """Files called pwned-* anywhere an attack may have reached."""
        flat = [Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/"), Path.home(), ROOT]
        found = [p for folder in flat if folder.is_dir() for p in folder.glob("pwned*")]
        found += [p for p in self.base.rglob("pwned*") if "submitted" not in p.parts]
        return sorted(map(str, found))


def _python_files() -> list[Path]:
    """Files of this interpreter that every worker can see, and must not be able to change."""
    import numpy
    import torch

    packages = [Path(module.__file__).parent for module in (torch, numpy)]
    folders = [Path(os.__file__).parent, Path(json.__file__).parent, *packages]
    return sorted({p for folder in folders for p in folder.glob("*.py") if p.is_file()})


def _fingerprint(path: Path) -> str:
    try:
        status, data = path.stat(), path.read_bytes()
    except OSError as error:
        return str(error)
    return f"{hashlib.sha256(data).hexdigest()} {status.st_mode:o} {status.st_mtime_ns}"


# -- grading -------------------------------------------------------------------------------------


@dataclass
class Graded:
    """What one real run of the grader left behind."""

    mode: str
    results: Path
    code: int
    output: str
    seconds: float
    strays: list[str]  # processes still there after the run

    def submissions(self) -> dict[str, dict[str, Any]]:
        data = json.loads((self.results / "results.json").read_text())
        return {s["student"]: s for s in data["submissions"]}

    def texts(self) -> dict[str, str]:
        """Every file the run produced, as text, and what it printed."""
        files = {
            str(p.relative_to(self.results)): p.read_text(errors="replace")
            for p in self.results.rglob("*")
            if p.is_file()
        }
        return files | {"(printed)": self.output}


def run_grader(place: Place, submitted: Path, name: str, mode: str, jobs: int) -> Graded:
    """`python -m autograder grade` in the copy; `name` is that of its results folder."""
    results = place.base / "results" / name
    command = [
        sys.executable, "-m", "autograder", "grade", ASSIGNMENT, "--no-gradebook", "--jobs",
        str(jobs), "--submitted", str(submitted), "--results", str(results),
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"GRADER_TOKEN": place.token, "PYTHONDONTWRITEBYTECODE": "1"}
    _adopt_orphans()
    before = set(_descendants())
    started = time.monotonic()
    run = subprocess.run(
        command + (["--weak"] if mode == "weak" else []),
        cwd=place.project, env=environment, text=True, timeout=GRADE_SECONDS,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    seconds = time.monotonic() - started
    return Graded(mode, results, run.returncode, run.stdout, seconds, _strays(before))


def _adopt_orphans() -> None:
    """Have processes whose parents end become children of this one, where they can be counted."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _descendants() -> dict[int, str]:
    """Every process below this one: its number and what it calls itself."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(path.name)] = int(fields[1])
            names[int(path.name)] = line[:100]
    found, waiting = {}, [os.getpid()]
    while waiting:
        above = waiting.pop()
        below = [pid for pid, parent in parents.items() if parent == above]
        found |= {pid: names[pid] for pid in below}
        waiting += below
    return found


def _strays(before: set[int]) -> list[str]:
    for _ in range(600):
        left = {pid: line for pid, line in _descendants().items() if pid not in before}
        if not left:
            return []
        time.sleep(0.1)
    return [f"{pid} {line}" for pid, line in left.items()]


def hidden_numbers(seed: int = 1) -> set[str]:
    """Digits of the inputs that hidden tests use, which no report may show."""
    import torch

    from autograder.testing.compare import recording
    from autograder.testing.student import Student
    from autograder.testing.suite import load

    suite = load(ASSIGNMENT)
    seen: list[Any] = []

    class Spy:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
            seen.extend(request.get("args", []))
            return self.inner.perform(name, op, request)

    for test in suite.tests:
        student = Student.local(vars(suite.reference))
        student._link = Spy(student._link)
        with recording(judging=False):
            test.run(student, seed)
    numbers = set()
    for value in seen:
        if isinstance(value, torch.Tensor) and value.numel() and value.is_floating_point():
            for v in value.detach().double().flatten()[:3].tolist():
                text = f"{abs(v):.6f}"
                if abs(v) > 1 and not text.endswith("0000"):
                    numbers.add(text[:-2])  # shorter than any rounding of it
    return numbers


def messages(submission: dict[str, Any]) -> Sequence[str]:
    """Every sentence about a submission that a person reads."""
    tests = [t for e in submission["exercises"] for t in e["tests"]]
    found = [t["message"] for t in tests if t["message"]]
    found += submission["notices"] + [str(submission["reason"] or "")]
    return found + [str(r["detail"]) for r in submission["review"]]
