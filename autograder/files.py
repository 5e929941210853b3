"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(
    path: Path, content: str | bytes, *, mode: int = 0o644, durable: bool = False
) -> None:
    """Write a file by rename, so that nobody sees half of it. Makes its folder where needed.

    content: text is written as UTF-8, with its line ends as they are.
    durable: it is on the disk on return, for what must outlive a power cut.
    Raises OSError, and leaves what was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode("utf-8") if isinstance(content, str) else content
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.chmod(fresh, mode)
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def renew(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """`write_whole`, but leave a file alone that holds this already. Raises OSError."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    write_whole(path, data, mode=mode)
