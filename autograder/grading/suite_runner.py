"""The suite runner: one trusted process with torch, pytest's collection and the reference loaded.

It reads work units as JSON lines on standard input and writes results as JSON lines on standard
output, and keeps both to itself: what a hidden test prints goes to standard error. The work is
done in `slots`, by forks of this process and by workers in the sandbox.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
import tomllib

from .. import versions
from ..course import ROOT
from ..sandbox import SandboxError, linux
from ..sandbox.forkserver import ForkServer
from .kept_streams import Output, kept_input


def _needed(assignment: str) -> tuple[str, ...]:
    """Modules to load before the forks: what the released notebook imports and takes long."""
    try:
        text = (ROOT / "exercises" / assignment / f"{assignment}.ipynb").read_bytes()
    except OSError:
        return ("torch",)  # `load_suite` says what is wrong
    more = ("matplotlib", "triton")
    return ("torch", *(name for name in more if f"import {name}".encode() in text))


def _refused(assignment: str) -> list[str]:
    """The sets of `deny` that exercises of the assignment pick."""
    try:
        text = (ROOT / "autograder" / "suites" / assignment / "suite.toml").read_text()
        picked = tomllib.loads(text).get("by_hand", {})
    except (OSError, ValueError):
        return []  # `suite.load` says what is wrong
    return sorted({name for listed in picked.values() for name in listed})


def main(argv: list[str]) -> int:
    """`python -m autograder.grading.suite_runner ASSIGNMENT JOBS [--weak]`; started by us."""
    # Ctrl-C goes to the whole group; the engine closes standard input when it stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output, units = Output(), kept_input()
    try:
        return _run(argv[0], int(argv[1]), "--weak" in argv, output, units)
    except BrokenPipeError:  # the engine is gone
        return 1


def _run(assignment: str, jobs: int, weak: bool, output: Output, units: int) -> int:
    needed = _needed(assignment)
    if "triton" in needed:
        if importlib.util.find_spec("triton") is None:
            output.write({"error": f"{assignment} needs Triton, which has packages for Linux only"})
            return 1
        os.environ["TRITON_INTERPRET"] = "1"  # before anything here imports it
    try:
        server = ForkServer(weak=weak, preload=needed, deny=_refused(assignment))
    except SandboxError as error:
        output.write({"error": str(error), "again": True})
        return 1
    grader_version = versions.grader()  # before the files that it tells are loaded
    gc.disable()  # imports leave little to collect, and to look for it takes long
    # Late, so that the sandbox loads torch at the same time.
    import torch

    from ..testing import suite as suites
    from . import slots

    torch.set_num_threads(1)  # before any operation: a fork after a parallel one hangs
    try:
        suite = suites.load(assignment)
        _ = suite.misconceptions
        suite.rehearse()
        protections = list(server.protections)
        if suite.kernels and not suite.kernels.unwatched:
            protections.append("kernel-sanitizer")
    except (suites.SuiteError, SandboxError) as error:
        output.write({"error": str(error), "again": isinstance(error, SandboxError)})
        return 1
    gc.freeze()
    gc.enable()
    linux.close_gaps()
    try:
        output.write(
            {
                "ready": True,
                "protections": protections,
                "suite_version": suite.version,
                "grader_version": grader_version,
                "max_score": suite.max_score,
                "exercises": suite.exercises,
            }
        )
        slots.Slots(suite, server, jobs, output.write, units).serve()
    except (SandboxError, TimeoutError) as error:  # the engine starts another runner
        print(f"autograder: the sandbox failed and is started again: {error}", file=sys.stderr)
        return 1
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
