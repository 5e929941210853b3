"""Which protections this machine has, each one tried."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

from .course import ROOT
from .errors import EngineError
from .protections import PROTECTIONS


def report() -> list[str]:
    """Print a line for each protection. Returns the names of those that are off, and missed.

    Raises EngineError when no sandbox starts at all.
    """
    from .sandbox import SandboxError, available

    try:
        rows = available()
    except SandboxError as error:
        raise EngineError(f"no sandbox starts on this machine: {error}") from error
    on = {row.name for row in rows if row.on}
    off = []
    width = max(len(row.name) for row in rows)
    for row in rows:
        protection = PROTECTIONS[row.name]
        state, why = ("on ", row.why) if row.on else ("OFF", row.why)
        if not row.on and protection.instead_of in on:
            state, why = "-  ", f"not needed beside {protection.instead_of}"
        elif not row.on:
            off.append(row.name)
        print(f"{state}  {row.name:<{width}}  {why}; stops {protection.stops}")
    state, why = kernel_sanitizer()
    if state == "OFF":
        off.append("kernel-sanitizer")
    stops = "Triton kernels that reach stray memory, race or never end"
    print(f"{state}  {'kernel-sanitizer':<{width}}  {why}; stops {stops}")
    if off:
        print(f"\n{len(off)} protection(s) are off: {', '.join(off)}")
    return off


def kernel_sanitizer() -> tuple[str, str]:
    """Whether kernels are looked after on this machine: tried, as it depends on Triton."""
    if importlib.util.find_spec("triton") is None:
        return "-  ", "no Triton on this system, so no assignment with kernels"
    code = (
        "from autograder.grading import kept_streams; output = kept_streams.Output()\n"
        "from kernel_sanitizer import sanitizer; output.write({'off': sanitizer.install()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        return "OFF", "it does not start: " + (done.stderr.strip().splitlines() or ["?"])[-1]
    why = json.loads(done.stdout)["off"]
    return ("OFF", why) if why else ("on ", "verified by kernels with known faults")
