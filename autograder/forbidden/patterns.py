"""The library names that an exercise must not reach: dotted names with `*` wildcards."""

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache

import torch

from .aliases import canonical

SHORTEST_HINT = 7  # letters; `norm` or `grad` alone say nothing


class Patterns:
    """A list of patterns. A pattern also covers what lies below it.

    `?.name` stands for an attribute of a value that is not known: it is taken for a tensor's.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        listed = sorted(set(patterns))
        self._roots = {pattern.split(".")[0] for pattern in listed}
        last = [pattern.rpartition(".")[2] for pattern in listed]
        self._whole = _compiled(listed)
        self._last = _compiled(p for p in last if len(re.sub(r"\W", "", p)) >= SHORTEST_HINT)
        self.match = lru_cache(maxsize=8192)(self._match)
        self.hint = lru_cache(maxsize=8192)(self._hint)

    def __bool__(self) -> bool:
        return bool(self._roots)

    def is_root(self, path: str) -> bool:
        """Whether a listed name may lie below `path`."""
        return path.split(".")[0] in self._roots

    def _match(self, path: str) -> bool:
        """Whether the path, or something it lies below, is one of the patterns."""
        if path.startswith("?."):
            path = "torch.Tensor" + path[1:]
        for name in {path, canonical(path)}:
            parts = name.split(".")[:12]
            if any(self._whole.match(".".join(parts[: i + 1])) for i in range(len(parts))):
                return True
        return False

    def _hint(self, path: str) -> bool:
        """Whether `?.name` has the name of something listed, and of nothing that a tensor has."""
        unknown, _, name = path.partition(".")
        if unknown != "?" or hasattr(torch.Tensor, name):
            return False
        return self._last.match(name) is not None


@lru_cache(maxsize=256)
def compiled(patterns: frozenset[str]) -> Patterns:
    """The patterns, made once for all submissions of a class."""
    return Patterns(patterns)


def _compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or r"(?!)")
