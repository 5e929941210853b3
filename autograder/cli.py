"""The command line: grade, check, collect, export, feedback, release, doctor.

Exit code 0: every submission was graded, whatever the scores. 1: some could not be. 2: bad usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import __version__, course
from .course import ROOT
from .errors import EngineError
from .grading import engine
from .grading.class_run import ClassRun

GRADED, SOME_UNGRADED, BAD_USAGE = 0, 1, 2


def main(argv: Sequence[str]) -> int:
    """Run one verb and return the exit code. Never shows a traceback for a foreseeable fault."""
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
    _course(grade)
    grade.add_argument("--submitted", type=Path, metavar="DIR", help="default: COURSE/submitted")
    grade.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N")
    grade.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")
    _results(grade)
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
    _course(collect)
    collect.add_argument("--submitted", type=Path, metavar="DIR", help="default: COURSE/submitted")
    collect.set_defaults(run=_collect)

    export = verbs.add_parser("export", help="copy scores as CSV, JSON or Gradescope files")
    export.add_argument("assignment")
    export.add_argument("--format", choices=("csv", "json", "gradescope"), default="csv")
    export.add_argument("--to", type=Path, required=True, metavar="PATH")
    _course(export)
    _results(export)
    export.set_defaults(run=_export)

    feedback = verbs.add_parser("feedback", help="copy each learner's feedback page to a folder")
    feedback.add_argument("assignment")
    feedback.add_argument("--to", type=Path, required=True, metavar="DIR")
    _course(feedback)
    _results(feedback)
    feedback.set_defaults(run=_feedback)

    release = verbs.add_parser("release", help="generate the learner's notebook from the solution")
    release.add_argument("assignment", nargs="*")
    release.add_argument("--check", action="store_true", help="only say whether it is up to date")
    release.set_defaults(run=_release)

    doctor = verbs.add_parser("doctor", help="say which protections this machine has")
    doctor.set_defaults(run=_doctor)
    return parser


def _course(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--course", type=Path, default=ROOT, metavar="DIR", help="nbgrader's folder")


def _results(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--results", type=Path, metavar="DIR", help="default: COURSE/results/...")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


# -- verbs ------------------------------------------------------------------------------------


def _grade(options: argparse.Namespace) -> int:
    started = time.monotonic()
    course.known(options.assignment)
    folder = options.submitted or options.course / "submitted"
    submitted = engine.submissions(folder, options.assignment)
    results = _results_folder(options)

    def cluster() -> engine.Units:
        from .cluster import Cluster

        return Cluster(options.assignment, options.dask, options.weak)

    run = ClassRun(
        options.assignment, options.course, results, len(submitted), sys.stderr,
        gradebook=not options.no_gradebook, copy=options.json,
    )  # fmt: skip
    graded = engine.grade(
        options.assignment, submitted, results=results, jobs=options.jobs, seed=options.seed,
        weak=options.weak, elsewhere=cluster if options.dask is not None else None,
        on_result=run.add, on_class=run.finish,
    ).as_dict()  # fmt: skip
    from .reports import report

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
    for trouble in run.troubles:
        print(f"autograder: {trouble}", file=sys.stderr)
    ungraded = [s for s in graded["submissions"] if s["status"] != "graded"]
    return SOME_UNGRADED if ungraded or run.troubles else GRADED


def _check(options: argparse.Namespace) -> int:
    from .reports import report

    if not options.notebook.is_file():
        raise EngineError(f"there is no notebook {options.notebook}")
    assignment = options.assignment or course.assignment_of(options.notebook)
    course.known(assignment)
    result = engine.grade_notebook(assignment, options.notebook, seed=options.seed)
    print(report.learner_text(result | {"student": "you"}))
    return GRADED if result["status"] == "graded" else SOME_UNGRADED


def _collect(options: argparse.Namespace) -> int:
    from .collect import collect

    course.known(options.assignment)
    submitted = options.submitted or options.course / "submitted"
    mapping = collect(options.archive, options.assignment, submitted)
    for line in mapping.lines():
        print(line)
    return SOME_UNGRADED if mapping.refused else GRADED


def _export(options: argparse.Namespace) -> int:
    names = {"csv": "scores.csv", "json": "results.json", "gradescope": "gradescope"}
    return _copy(names[options.format], options)


def _feedback(options: argparse.Namespace) -> int:
    return _copy("feedback", options)


def _copy(name: str, options: argparse.Namespace) -> int:
    """Copy one of the results, after a look whether they are of this assignment."""
    results, target = _results_folder(options), options.to
    source = results / name
    try:
        graded = json.loads((results / "results.json").read_text(encoding="utf-8"))["assignment"]
    except (OSError, ValueError, LookupError, TypeError):
        graded = None
    if graded is None or not source.exists():
        raise EngineError(
            f"nothing to copy yet in {_shown(results)}; "
            f"run `python -m autograder grade {options.assignment}` first, or name its --results"
        )
    if graded != options.assignment:
        raise EngineError(f"{_shown(results)} holds results of {graded}, not {options.assignment}")
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


def _doctor(_options: argparse.Namespace) -> int:
    from . import doctor

    off = doctor.report()
    return SOME_UNGRADED if off else GRADED


# -- small things ------------------------------------------------------------------------------


def _results_folder(options: argparse.Namespace) -> Path:
    return options.results or options.course / "results" / options.assignment


def _shown(path: Path) -> str:
    """A path as short as it can be typed."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
