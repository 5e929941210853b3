"""Many runs of an experiment, one JSON line for each that has ended: kill it and start it again.

    for done in resumable(Path("runs.jsonl"), settings, run): ...

Each setting is a dict of plain values, and names its run. What `run(**setting)` returns is written
at once beside it, so an interrupted experiment goes on with the first run that is missing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Setting = dict[str, Any]


def finished(path: Path) -> list[dict[str, Any]]:
    """The runs that have ended: [{"setting": ..., "result": ...}]. A line cut short is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:  # the machine went down while this line was written
            continue
    return found


def resumable(
    path: Path, settings: Sequence[Setting], run: Callable[..., Any]
) -> Iterator[dict[str, Any]]:
    """Yields {"setting", "result"} for each setting in order, running only what is missing.

    `run(**setting)` returns plain values; a float that is not finite is written as null.
    """
    done = {_key(record["setting"]): record for record in finished(path)}
    missing = sum(_key(setting) not in done for setting in settings)
    bar, number = _Bar(missing), 0
    _end_the_last_line(path)
    for setting in settings:
        record = done.get(_key(setting))
        if record is None:
            number += 1
            bar.show(number - 1, setting, ended=False)
            record = {"setting": setting, "result": _plain(run(**setting))}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            bar.show(number, setting, ended=True)
        yield record
    bar.close()


def _key(setting: Setting) -> str:
    return json.dumps(setting, sort_keys=True)


def _end_the_last_line(path: Path) -> None:
    """Without this, the next record would be written behind a line that was cut short."""
    if path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and value - value != 0:  # NaN or infinite
        return None
    return value


class _Bar:
    """A bar with the time left on a terminal, one line a run in a log."""

    def __init__(self, total: int) -> None:
        self.total, self.start = total, time.monotonic()

    def show(self, done: int, setting: Setting, *, ended: bool) -> None:
        words = " ".join(f"{key}={value}" for key, value in setting.items())
        if sys.stderr.isatty():
            spent = time.monotonic() - self.start
            left = f"{spent / done * (self.total - done):.0f} s left" if done else "..."
            filled = 24 * done // max(1, self.total)
            bar = "#" * filled + "." * (24 - filled)
            sys.stderr.write(f"\r\x1b[2K[{bar}] {done}/{self.total}, {left}: {words}"[:160])
        elif ended:
            sys.stderr.write(f"{done}/{self.total} {words}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self.total and sys.stderr.isatty():
            sys.stderr.write("\n")
