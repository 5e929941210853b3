"""Executes a page again when code that it imports has changed.

The execution cache compares only the code cells of a page. A page also depends on the reference
solutions, on the shared experiments and figures, on recorded results, on the kernel sanitizer, and
on the versions of Python, torch and triton. So the cache lies in a folder whose name is a hash of
all of these.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

DEPENDENCIES = (
    "book/*.py",
    "book/experiments/*.py",
    "solutions/*/*.py",
    "solutions/*/*/*.py",
    "kernel_sanitizer/*.py",
    "autograder/worker/kernel_*.py",
    "bench/ahead_of_time.py",
    "bench/results/*.json",
)


def cache_key(root: Path) -> str:
    """A short hash of the code and data that pages read, and of versions that decide numbers."""
    digest = hashlib.sha256()
    for package in ("torch", "numpy", "matplotlib", "triton"):
        with contextlib.suppress(PackageNotFoundError):  # triton: Linux only
            digest.update(f"{package} {version(package)}\n".encode())
    digest.update(platform.python_version().encode())
    for pattern in DEPENDENCIES:
        for path in sorted(root.glob(pattern)):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def choose_cache(app: Sphinx, config: Config) -> None:
    """Sets the cache folder, and one thread per kernel, so that sums come out alike anywhere."""
    folder = Path(app.outdir).parent / ".jupyter_cache" / cache_key(Path(app.srcdir))
    config.nb_execution_cache_path = str(folder)
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", choose_cache)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
