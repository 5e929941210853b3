"""Only installed modules can be imported: not files that the learner's own code has written.

Their text would be read by nobody.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from . import foreign


class InstalledOnly:
    """Stands before Python's own finder, and refuses what lies outside of `folders`."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(os.path.realpath(folder) for folder in folders if folder)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        foreign.importing(name)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        if all(os.path.realpath(place).startswith(self._folders) for place in places):
            return spec
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def install() -> None:
    """From now on, import what could be imported until now. In a process of its own."""
    sys.meta_path.insert(0, InstalledOnly(sys.path))
