"""The command line: grade, check, collect, export, feedback, release, doctor.

Exit code 0: every submission was graded, whatever the scores. 1: some could not be. 2: bad usage.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from . import __version__, engine
from .engine import ROOT, EngineError

GRADED, SOME_UNGRADED, BAD_USAGE = 0, 1, 2


def main(argv: Sequence[str]) -> int:
    """Run one verb and return the exit code. Never shows a traceback for a foreseeable fault."""
    # nbformat loads jsonschema, and that a grammar for a format that no notebook has: a second.
    sys.modules.setdefault("rfc3987_syntax", None)
    try:
        options = _parser().parse_args(argv)
        # As Ctrl-C: in order, with a line that says how to go on.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return options.run(options)
    except EngineError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        print("\nautograder: stopped; run the same command again to go on", file=sys.stderr)
        return SOME_UNGRADED
    except BrokenPipeError:
        return SOME_UNGRADED
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        print(f"autograder: {error.strerror or error}{place}", file=sys.stderr)
        return SOME_UNGRADED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m autograder", description="Grade notebooks without trusting them."
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    grade = verbs.add_parser("grade", help="grade every submission of an assignment")
    grade.add_argument("assignment")
    grade.add_argument("--course", type=Path, default=ROOT, metavar="DIR", help="nbgrader's folder")
    grade.add_argument("--submitted", type=Path, metavar="DIR", help="default: COURSE/submitted")
    grade.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N")
    grade.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")
    grade.add_argument("--results", type=Path, metavar="DIR", help="default: COURSE/results/...")
    grade.add_argument("--dask", metavar="ADDRESS", help="Dask scheduler, as tcp://host:8786")
    grade.add_argument("--seed", type=int, default=engine.DEFAULT_SEED)
    grade.add_argument("--no-gradebook", action="store_true", help="leave nbgrader's db alone")
    grade.add_argument("--weak", action="store_true", help="do without namespaces (for tests)")
    grade.set_defaults(run=_grade)

    check = verbs.add_parser("check", help="grade one notebook and print the feedback")
    check.add_argument("notebook", type=Path)
    check.add_argument("--assignment", help="default: from the notebook's name")
    check.add_argument("--seed", type=int, default=engine.DEFAULT_SEED)
    check.set_defaults(run=_check)

    collect = verbs.add_parser("collect", help="unpack a learning platform's zip into submitted/")
    collect.add_argument("assignment")
    collect.add_argument("archive", type=Path, help="a zip file or a folder")
    collect.add_argument("--submitted", type=Path, default=ROOT / "submitted", metavar="DIR")
    collect.set_defaults(run=_collect)

    export = verbs.add_parser("export", help="copy scores as CSV, JSON or Gradescope files")
    export.add_argument("assignment")
    export.add_argument("--format", choices=("csv", "json", "gradescope"), default="csv")
    export.add_argument("--to", type=Path, required=True, metavar="PATH")
    export.set_defaults(run=_export)

    feedback = verbs.add_parser("feedback", help="copy each learner's feedback page to a folder")
    feedback.add_argument("assignment")
    feedback.add_argument("--to", type=Path, required=True, metavar="DIR")
    feedback.set_defaults(run=_feedback)

    release = verbs.add_parser("release", help="generate the learner's notebook from the solution")
    release.add_argument("assignment", nargs="*")
    release.add_argument("--check", action="store_true", help="only say whether it is up to date")
    release.set_defaults(run=_release)

    doctor = verbs.add_parser("doctor", help="say which protections this machine has")
    doctor.set_defaults(run=_doctor)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


# -- verbs ------------------------------------------------------------------------------------


def _grade(options: argparse.Namespace) -> int:
    started = time.monotonic()
    _known(options.assignment)
    folder = options.submitted or options.course / "submitted"
    submitted = engine.submissions(folder, options.assignment)
    results = options.results or options.course / "results" / options.assignment
    progress = Progress(len(submitted), sys.stderr)
    gradebook = Gradebook(options)

    def on_result(result: dict[str, Any], path: Path | None) -> None:
        gradebook.add(result, path)
        progress.step(result["status"] == "graded")

    released = ROOT / "exercises" / options.assignment / f"{options.assignment}.ipynb"

    def on_class(graded: dict[str, Any]) -> None:
        from . import report  # late: it is not needed for the first grade

        gradebook.flush()
        progress.close()
        report.write_report(graded, results, released)
        _remove_old_pages(graded, results)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(results / "results.json", options.json)

    graded = engine.grade(
        options.assignment, submitted, results=results, jobs=options.jobs, seed=options.seed,
        weak=options.weak, dask=options.dask, on_result=on_result,
        on_class=on_class,
    ).as_dict()  # fmt: skip
    from . import report

    width = shutil.get_terminal_size((100, 24)).columns
    print(report.class_table(graded, width))
    print(f"\nprotections: {', '.join(graded['protections']) or 'NONE'}")
    spaces = [p for p in graded["protections"] if p.endswith("-namespace")]
    if len(spaces) < 5:
        print(
            "WARNING: this machine isolates submissions only weakly; "
            "see `python -m autograder doctor`",
            file=sys.stderr,
        )
    print(f"report:      {_shown(results / 'index.html')}")
    print(f"feedback:    {_shown(results / 'feedback')}/<student>.html")
    seconds = time.monotonic() - started
    print(f"graded {len(submitted)} submissions in {seconds:.1f} s, seed {options.seed}")
    ungraded = [s for s in graded["submissions"] if s["status"] != "graded"]
    return SOME_UNGRADED if ungraded else GRADED


def _remove_old_pages(graded: dict[str, Any], results: Path) -> None:
    """Remove the pages of students who are no longer there, and what a killed run left of one.

    `feedback` would hand them out. The results themselves stay in units/ and in the gradebook.
    """
    from . import report

    current = {page.stem for _, page in report.student_pages(graded, results)}
    for folder, suffix in ((results / "feedback", ".html"), (results / "gradescope", ".json")):
        for path in folder.iterdir():
            old = path.suffix == suffix and path.stem not in current
            if old or path.name.startswith("."):
                path.unlink()
    for path in results.glob(".*.*"):  # not .lock
        path.unlink()


class Gradebook:
    """nbgrader's gradebook, where it is wanted. Its errors end the run, and no result is lost.

    It is opened with the second result: loading nbgrader takes a second, and the first grade is
    there by then.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._writer = options, None
        self._first: list[tuple[dict[str, Any], Path | None]] = []

    def add(self, result: dict[str, Any], path: Path | None) -> None:
        if self._options.no_gradebook:
            return
        if self._first:
            self._open().add(result, path)
        else:
            self._first.append((result, path))

    def flush(self) -> None:
        if self._first:
            self._open().flush()

    def _open(self) -> Any:
        if self._writer is None:
            gc.disable()  # imports leave little to collect, and to look for it takes long
            try:
                from .gradebook import Writer

                self._writer = Writer(self._options.course, self._options.assignment)
            finally:
                gc.freeze()
                gc.enable()
            self._writer.add(*self._first[0])
        return self._writer


def _check(options: argparse.Namespace) -> int:
    from . import report

    if not options.notebook.is_file():
        raise EngineError(f"there is no notebook {options.notebook}")
    assignment = options.assignment or _assignment_of(options.notebook)
    _known(assignment)
    result = engine.grade_notebook(assignment, options.notebook, seed=options.seed)
    print(report.learner_text(result | {"student": "you"}))
    return GRADED if result["status"] == "graded" else SOME_UNGRADED


def _collect(options: argparse.Namespace) -> int:
    from .collect import collect

    _known(options.assignment)
    mapping = collect(options.archive, options.assignment, options.submitted)
    for line in mapping.lines():
        print(line)
    return SOME_UNGRADED if mapping.refused else GRADED


def _export(options: argparse.Namespace) -> int:
    results = ROOT / "results" / options.assignment
    source = {
        "csv": results / "scores.csv",
        "json": results / "results.json",
        "gradescope": results / "gradescope",
    }[options.format]
    return _copy(source, options.to, options.assignment)


def _feedback(options: argparse.Namespace) -> int:
    return _copy(ROOT / "results" / options.assignment / "feedback", options.to, options.assignment)


def _copy(source: Path, target: Path, assignment: str) -> int:
    if not source.exists():
        raise EngineError(
            f"nothing to copy yet; run `python -m autograder grade {assignment}` first"
        )
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    print(target)
    return GRADED


def _release(options: argparse.Namespace) -> int:
    from . import release

    return release.main((["--check"] if options.check else []) + options.assignment)


# A protection that stands in for a better one: not missed where that one is on.
_STAND_INS = {
    "memory-watch": "cgroup", "separate-user": "user-namespace", "fresh-process": "pid-namespace",
}  # fmt: skip


def _doctor(options: argparse.Namespace) -> int:
    from .sandbox import SandboxError, available

    try:
        rows = available()
    except SandboxError as error:
        raise EngineError(f"no sandbox starts on this machine: {error}") from error
    on = {row.name for row in rows if row.on}
    off = []
    width = max(len(row.name) for row in rows)
    for row in rows:
        state, why = ("on ", row.why) if row.on else ("OFF", row.why)
        if not row.on and _STAND_INS.get(row.name) in on:
            state, why = "-  ", f"not needed beside {_STAND_INS[row.name]}"
        elif not row.on:
            off.append(row.name)
        print(f"{state}  {row.name:<{width}}  {why}; stops {row.stops}")
    state, why = _kernel_sanitizer()
    if state == "OFF":
        off.append("kernel-sanitizer")
    stops = "Triton kernels that reach stray memory, race or never end"
    print(f"{state}  {'kernel-sanitizer':<{width}}  {why}; stops {stops}")
    if off:
        print(f"\n{len(off)} protection(s) are off: {', '.join(off)}")
    return SOME_UNGRADED if off else GRADED


def _kernel_sanitizer() -> tuple[str, str]:
    """Whether kernels are looked after on this machine: tried, as it depends on Triton."""
    if importlib.util.find_spec("triton") is None:
        return "-  ", "no Triton on this system, so no assignment with kernels"
    code = (
        "from autograder import kept_streams; output = kept_streams.Output()\n"
        "from autograder import sanitizer; output.write({'off': sanitizer.install()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        return "OFF", "it does not start: " + (done.stderr.strip().splitlines() or ["?"])[-1]
    why = json.loads(done.stdout)["off"]
    return ("OFF", why) if why else ("on ", "verified by kernels with known faults")


# -- small things ------------------------------------------------------------------------------


def _known(assignment: str) -> None:
    suites = Path(__file__).resolve().parent / "suites"
    known = sorted(p.parent.name for p in suites.glob("*/suite.toml"))
    if assignment not in known:
        raise EngineError(f"no assignment named {assignment!r}; there are: {', '.join(known)}")


def _assignment_of(notebook: Path) -> str:
    stem = notebook.stem.lower()
    suites = Path(__file__).resolve().parent / "suites"
    for known in sorted(p.parent.name for p in suites.glob("*/suite.toml")):
        if known in stem:
            return known
    raise EngineError(f"cannot tell which assignment {notebook} is; give --assignment NAME")


def _shown(path: Path) -> str:
    """A path as short as it can be typed."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


class Progress:
    """Count, failures and time left: a bar on a terminal, plain lines in a log."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total, self._stream = total, stream
        self._done = self._failed = 0
        self._started = time.monotonic()
        self._bar = stream.isatty()
        self._told = 0.0

    def step(self, ok: bool) -> None:
        self._done += 1
        self._failed += not ok
        now = time.monotonic()
        if self._bar:
            self._stream.write("\r\x1b[K" + self._line(now))
            self._stream.flush()
        elif now - self._told >= 10 or self._done == self._total:
            self._told = now
            print(self._line(now), file=self._stream, flush=True)

    def _line(self, now: float) -> str:
        left = (now - self._started) / self._done * (self._total - self._done)
        text = f"{self._done}/{self._total} graded, {self._failed} could not be"
        if self._bar:
            filled = 24 * self._done // self._total
            text = f"[{'#' * filled}{'.' * (24 - filled)}] {text}"
        return f"{text}, about {left:.0f} s left" if self._done < self._total else text

    def close(self) -> None:
        if self._bar:
            self._stream.write("\n")
