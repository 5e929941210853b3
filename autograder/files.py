"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import EngineError


def write_whole(path: Path, text: str) -> None:
    """Write a file by rename, so that it is never seen half written. Raises EngineError."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=".", delete=False, encoding="utf-8"
        ) as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
            except OSError:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise EngineError(f"cannot write {path}: {error.strerror}") from error
