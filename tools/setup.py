"""Makes the virtual environment of the course and installs requirements.txt into it.

Called by setup.sh with a Python that fits. Standard library only. Run again, it does nothing while
the lists of packages and the Python are the same; after an interrupted run it starts over, because
pip may have left a package half written. Every failure is one line that says what to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements.txt"  # what we ask for
LOCK = ROOT / "requirements-lock.txt"  # the version of everything that this brings along
VENV = ROOT / os.environ.get("VENV", ".venv")  # an absolute VENV stays as it is
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".installed"  # empty while an installation runs; then what is installed
LOG = VENV / "install.log"
MINIMUM_FREE_GB = float(os.environ.get("MINIMUM_FREE_GB", "4"))


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with one_at_a_time() as lock:
        current = python_version()
        if current and not other_than_asked_for(current) and stamp() == installed(current):
            return
        prepare_folder(current)
        check_disk()
        STAMP.write_text("")
        if python_version() is None:
            say(f"making a virtual environment in {VENV} with Python {platform.python_version()}")
            try:
                venv.create(VENV, with_pip=True, symlinks=True)
            except (OSError, subprocess.CalledProcessError) as error:
                fail(f"cannot make a virtual environment in {VENV}: {error}")
        install(lock)
        STAMP.write_text(installed(python_version()))


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


def stamp() -> str | None:
    """What the environment has; "" if an installation was cut, None if it is not of our making."""
    return STAMP.read_text() if STAMP.exists() else None


def installed(version: str | None) -> str:
    lists = hashlib.sha256(REQUIREMENTS.read_bytes() + LOCK.read_bytes()).hexdigest()
    return f"{lists} for Python {version}\n"


def python_version() -> str | None:
    """The version of the environment's Python; None when it, or its pip, is missing or broken."""
    ask = "import pip, platform; print(platform.python_version())"
    try:
        done = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None


def other_than_asked_for(current: str) -> bool:
    """Whether PYTHON=... names a version other than that of the environment."""
    return bool(os.environ.get("PYTHON")) and current != platform.python_version()


def prepare_folder(current: str | None) -> None:
    """Empty what a cut run, or another Python, has left; never touch what is not ours."""
    if stamp() is None:
        if current is None and VENV.exists() and any(VENV.iterdir()):
            fail(
                f"{VENV} holds something that is no virtual environment; remove it or set VENV=DIR"
            )
    elif not stamp() or current is None or other_than_asked_for(current):
        say(f"starting {VENV} over, because it is unfinished or for another Python")
        shutil.rmtree(VENV)
    VENV.mkdir(parents=True, exist_ok=True)


def check_disk() -> None:
    free = shutil.disk_usage(VENV).free / 1e9
    if free < MINIMUM_FREE_GB:
        fail(f"{free:.1f} GB are free at {VENV}, {MINIMUM_FREE_GB:g} GB are needed")


def install(lock: int) -> None:
    """Run pip, show the line it is at, keep its whole output in the log.

    pip holds the lock too: should this process be killed, the next one waits for what is left.
    The lock list is a constraint and not a list to install, so that a torch without CUDA, where
    pip is set to find one, does not get CUDA's packages.
    """
    say(f"installing requirements.txt (some minutes; everything pip says is in {LOG})")
    started = told = time.monotonic()
    terminal = sys.stdout.isatty()
    last = ""
    command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
               "--progress-bar", "off", "-r", REQUIREMENTS, "-c", LOCK]  # fmt: skip
    with open(LOG, "w", encoding="utf-8") as log, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        pass_fds=[lock],
    ) as pip:  # fmt: skip
        assert pip.stdout is not None
        try:
            for line in pip.stdout:
                log.write(line)
                last = line.strip() or last
                if terminal:
                    print(f"\r\033[K  {last[:76]}", end="", flush=True)
                elif time.monotonic() - told > 10:
                    told = time.monotonic()
                    print(f"  {last[:96]}", flush=True)
        except BaseException:
            pip.kill()
            raise
        finally:
            print("\r\033[K" if terminal else "", end="")
    if pip.returncode:
        fail(f"pip failed: {last}; {advice()} (everything it said is in {LOG})")
    say(f"done in {time.monotonic() - started:.0f} s")


def advice() -> str:
    """What to do about pip's failure: its words blame a package where there is no network."""
    ask = [PYTHON, "-m", "pip", "--retries", "0", "--timeout", "15", "index", "versions", "pip"]
    if subprocess.run(ask, capture_output=True).returncode:
        return "the package index cannot be reached; is there a network, or a proxy to be named?"
    return "mend that and run the same command again; if requirements.txt was changed, make lock"


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
