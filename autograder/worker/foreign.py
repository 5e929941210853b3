"""Packages that have ready-made what an exercise asks to write: none of their code runs meanwhile.

Their functions are too many to name, so what counts is the module that a function comes from.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any, ClassVar


class _State:
    """Of this process. While a graded call runs: what is refused, and who looks for it."""

    packages: ClassVar[Collection[str]] = ()
    watch: ClassVar[Any] = None


def importing(name: str) -> None:
    """A module is asked for that is not loaded: from now on there is something to look for."""
    if _package_of(name, _State.packages):
        sys.setprofile(_State.watch)


@contextlib.contextmanager
def refusing(packages: Collection[str], reached: Callable[[str], None]) -> Iterator[None]:
    """Call `reached` with the package's name where a function of one of them starts.

    Costs nothing where none of them is loaded. A function in C is seen where one in Python calls
    it, as most packages have it.
    """

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found = _package_of(frame.f_globals.get("__name__") or "", packages)
            if found and not _loads(frame):
                reached(found)

    before = sys.getprofile()
    _State.packages, _State.watch = packages, watch
    if any(name in sys.modules for name in packages):
        sys.setprofile(watch)
    try:
        yield
    finally:
        _State.packages = ()
        if sys.getprofile() is not before:
            sys.setprofile(before)


def _package_of(module: str, packages: Collection[str]) -> str | None:
    for name in packages:
        if module.startswith(name) and module[len(name) : len(name) + 1] in ("", "."):
            return name
    return None


def _loads(frame: FrameType | None) -> bool:
    """Whether it runs because a module is loaded: torch, too, looks for packages."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if frame.f_code.co_filename.startswith("<cell "):
            return False
        frame = frame.f_back
    return False
