"""Makes the virtual environment of the course and installs requirements.txt into it.

Called by setup.sh with a Python that fits. Standard library only. Run again, it does nothing while
requirements.txt and the Python are the same; after an interrupted run it starts over, because pip
may have left a package half written. Every failure is one line that says what to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn, TextIO

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements.txt"
VENV = ROOT / os.environ.get("VENV", ".venv")  # an absolute VENV stays as it is
STAMP = VENV / ".installed"  # written last: what is installed, and for which Python
UNFINISHED = VENV / ".installing"  # there while an installation runs, and after a cut one
LOG = VENV / "install.log"
MINIMUM_FREE_GB = float(os.environ.get("MINIMUM_FREE_GB", "4"))

NO_NETWORK = "the package index cannot be reached; is there a network, or a proxy to be named?"
# What pip prints -> what to tell the person. The first that is found counts.
PIP_FAULTS = (
    ("No space left on device", "the disk is full; 4 GB are needed, 10 GB where torch brings CUDA"),
    ("Disk quota exceeded", "the disk quota is used up; 4 GB are needed"),
    ("Permission denied", f"pip may not write to {VENV}"),
    ("CERTIFICATE_VERIFY_FAILED", "the package index shows a certificate this machine distrusts"),
    ("NewConnectionError", NO_NETWORK),
    ("ConnectTimeoutError", NO_NETWORK),
    ("Max retries exceeded", NO_NETWORK),
    ("ProxyError", NO_NETWORK),
    ("ReadTimeoutError", "the network is too slow or was cut; run the same command again"),
    (
        "No matching distribution found for torch",
        "this torch exists for Linux and for macOS on Apple silicon, not for this machine",
    ),
    ("(from versions: none)", NO_NETWORK),
    ("No matching distribution found", "a pinned package is not to be had"),
    ("ResolutionImpossible", "the pins in requirements.txt contradict each other"),
)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with one_at_a_time() as lock:
        if installed_already():
            return
        prepare_folder()
        check_disk()
        UNFINISHED.touch()
        STAMP.unlink(missing_ok=True)
        if python_version() is None:
            say(f"making a virtual environment in {VENV} with Python {sys.version.split()[0]}")
            try:
                venv.create(VENV, with_pip=True, symlinks=True)
            except (OSError, subprocess.CalledProcessError) as error:
                fail(f"cannot make a virtual environment in {VENV}: {error}")
        install(lock)
        STAMP.write_text(json.dumps({"requirements": digest(), "python": python_version()}))
        UNFINISHED.unlink()


@contextlib.contextmanager
def one_at_a_time() -> Iterator[int]:
    """Wait while another set-up of this checkout runs. The lock ends with its processes."""
    with open(REQUIREMENTS, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def installed_already() -> bool:
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    current = {"requirements": digest(), "python": python_version()}
    return stamp == current and current["python"] is not None and not other_python_asked_for()


def prepare_folder() -> None:
    """Empty what a cut run, or another Python, has left; never touch what is not ours."""
    current = python_version()
    mine = UNFINISHED.exists() or STAMP.exists()
    if mine and (UNFINISHED.exists() or current is None or other_python_asked_for()):
        say(f"starting {VENV} over, because it is unfinished or for another Python")
        shutil.rmtree(VENV)
    elif not mine and current is None and VENV.exists() and any(VENV.iterdir()):
        fail(f"{VENV} holds something that is no virtual environment; remove it or set VENV=DIR")
    try:
        VENV.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot make the folder {VENV}: {error.strerror}")


def check_disk() -> None:
    free = shutil.disk_usage(VENV).free / 1e9
    if free < MINIMUM_FREE_GB:
        fail(f"{free:.1f} GB are free at {VENV}, {MINIMUM_FREE_GB:g} GB are needed")


def install(lock: int) -> None:
    """Run pip, show which package it is at, keep its whole output in the log.

    pip holds the lock too: should this process be killed, the next one waits for what is left.
    """
    say(f"installing requirements.txt (some minutes; everything pip says is in {LOG})")
    command = [str(venv_python()), "-m", "pip", "install", "--disable-pip-version-check",
               "--no-input", "--progress-bar", "off", "-r", str(REQUIREMENTS)]  # fmt: skip
    started = time.monotonic()
    with open(LOG, "w", encoding="utf-8") as log, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        pass_fds=[lock],
    ) as pip:  # fmt: skip
        assert pip.stdout is not None
        try:
            output = follow(pip.stdout, log)
        except BaseException:
            pip.kill()
            raise
    if pip.returncode:
        for sign, meaning in PIP_FAULTS:
            if sign in output:
                fail(f"pip failed: {meaning} (details in {LOG})")
        fail(f"pip failed; the reason is at the end of {LOG}")
    say(f"done in {time.monotonic() - started:.0f} s")


def follow(lines: Iterable[str], log: TextIO) -> str:
    """Log pip's lines and show which package it is at: one line on a terminal, a few in a log."""
    started, told, packages = time.monotonic(), 0.0, 0
    bar = sys.stdout.isatty()
    output = []
    for line in lines:
        output.append(line)
        log.write(line)
        log.flush()
        word, _, rest = line.strip().partition(" ")
        if word not in ("Collecting", "Downloading", "Installing"):
            continue
        packages += word == "Collecting"
        now = time.monotonic()
        if not bar and now - told < 10 and word != "Installing":
            continue
        told = now
        what = f"{word.lower()} {rest.partition(' (')[0]}"
        what = "unpacking and writing files" if word == "Installing" else what
        text = f"  {now - started:4.0f} s  {packages:3d} packages  {what}"[:96]
        print(f"\r\033[K{text}" if bar else text, end="" if bar else "\n", flush=True)
    if bar:
        print()
    return "".join(output)


def other_python_asked_for() -> bool:
    """Whether PYTHON=... names a version other than that of the environment."""
    running = ".".join(str(n) for n in sys.version_info[:3])
    return bool(os.environ.get("PYTHON")) and python_version() != running


def python_version() -> str | None:
    """The version of the environment's Python; None when it, or its pip, is missing or broken."""
    ask = "import sys, pip; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        done = subprocess.run(
            [str(venv_python()), "-c", ask], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def venv_python() -> Path:
    return VENV / "bin" / "python"


def digest() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def fail(text: str) -> NoReturn:
    print(f"setup: {text}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail("stopped; run the same command again")
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename or VENV}")
