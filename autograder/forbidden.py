"""Finds library calls that an exercise asks to write by hand, by reading the code.

A call counts for a graded name only where that name leads to it: in its own definition, or in the
functions, classes, aliases and bases it reaches. A comparison with the library in a cell of the
learner's own is welcome. What the text proves is a "forbidden-call"; what it hides (exec of
a text made at run time, getattr with a name that is not known) is "suspicious", for a person.
"""

import ast
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from .aliases import UNKNOWN, Value, canonical, paths
from .magics import parse
from .notebook import one_line
from .submission import Cell
from .walk import Walker

MAX_FINDINGS = 20  # for each exercise


@dataclass(frozen=True, order=True)
class Finding:
    """One use of a library name.

    exercise: the graded name that reaches it. line: in its cell, from 1. cell_index: `Cell.index`.
    detail: the name as written, with what it stands for where that differs.
    source_line: the learner's line, as it stands in the notebook, shortened.
    """

    exercise: str
    cell_index: int
    line: int
    detail: str
    source_line: str
    kind: Literal["forbidden-call", "suspicious"] = "forbidden-call"

    @property
    def place(self) -> tuple[int, int]:
        return self.cell_index, self.line


def find(
    cells: Sequence[Cell], graded_names: Iterable[str], patterns: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """All forbidden and suspicious calls, by exercise, cell and line. Never raises on learner code.

    Args:
        cells: what is executed, in order, given cells included (they bind `F`, `nn`, ...).
        patterns: for each graded name, dotted names with `*` wildcards; a pattern also covers what
            lies below it, and `torch.Tensor.var` the call `anything.var()`.
    """
    every = sorted({pattern for listed in patterns.values() for pattern in listed})
    if not every:
        return []
    roots = {pattern.split(".")[0] for pattern in every}
    trees = [parse(cell.source) for cell in cells]
    methods = {name for tree in trees if tree is not None for name in _methods(tree)}
    walker = Walker(_matcher(tuple(every)), lambda path: _root(path) in roots)
    for position, tree in enumerate(trees):
        if tree is not None:
            walker.run(position, tree)
    found: dict[str, list[Finding]] = {}
    for name in graded_names:
        if patterns.get(name):
            search = _Search(name, patterns[name], cells, walker, methods)
            found[name] = _without_earlier(search, found)
    return [finding for findings in found.values() for finding in findings[:MAX_FINDINGS]]


def _without_earlier(search: "_Search", found: Mapping[str, list[Finding]]) -> list[Finding]:
    """What an exercise reaches, save through an earlier one that is charged for the same call.

    A later exercise may build on an earlier one, and its credit does not depend on it. The other
    way round does not hold: it would let the cheapest exercise carry the calls of all.
    """
    charged = {
        name: {f.place for f in findings if f.kind == "forbidden-call"}
        for name, findings in found.items()
    }
    stop = {name for name, places in charged.items() if places}
    every = search.run()
    if not every or not stop:
        return every
    own = set(search.run(stop))
    places = set().union(*charged.values(), search.by_name)
    return [f for f in every if f in own or f.place not in places]


class _Search:
    """What one graded name reaches."""

    def __init__(
        self,
        name: str,
        patterns: Sequence[str],
        cells: Sequence[Cell],
        walker: Walker,
        methods: set[str],
    ) -> None:
        self.name, self.cells, self.walker, self.methods = name, cells, walker, methods
        self.matches = _matcher(tuple(patterns))
        self.findings: set[Finding] = set()
        self.stop: Set[str] = frozenset()
        self.by_name: set[tuple[int, int]] = set()  # places where a name in `stop` is called

    def run(self, stop: Set[str] = frozenset()) -> list[Finding]:
        """Everything it reaches, but not through the graded names in `stop`."""
        self.findings, self.stop = set(), stop - {self.name}
        names = self.walker.module.names
        value = names.get(self.name, UNKNOWN)
        if value:
            node, cell = self.walker.module.bound_at[self.name]
            beyond = frozenset(a for name in self.stop for a in names.get(name, UNKNOWN))
            self.used(value, node, cell)
            self.walker.reach(value, self.used, self.doubt, beyond)
        for statement, cell in self.walker.lost[:3]:
            self.doubt("too deeply nested or too long to check", statement, cell)
        return sorted(self.findings)[:MAX_FINDINGS]

    def used(self, value: Value, node: ast.AST, cell: int) -> None:
        named = node.id if isinstance(node, ast.Name) and node.id in self.stop else None
        if named is not None and value == self.walker.module.names.get(named):
            self.by_name.add((self.cells[cell].index, node.lineno))
            return
        for path in paths(value):
            if path == "<unknown>":
                path = self.method(node)
            if path and self.matches(path):
                self.add("forbidden-call", _detail(node, path), node, cell)

    def doubt(self, detail: str, node: ast.AST, cell: int) -> None:
        self.add("suspicious", detail, node, cell)

    def method(self, node: ast.AST) -> str | None:
        """`x.var` on a value that is not known is taken for the tensor's, unless a class of the
        learner's has a method of that name."""
        if not isinstance(node, ast.Attribute) or node.attr in self.methods:
            return None
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "ctx"):
            return None
        return f"torch.Tensor.{node.attr}"

    def add(self, kind: str, detail: str, node: ast.AST, cell: int) -> None:
        line = getattr(node, "lineno", 1)
        lines = self.cells[cell].source.split("\n")
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        self.findings.add(
            Finding(
                self.name,
                self.cells[cell].index,
                line,
                one_line(detail, 120),
                one_line(text.strip().expandtabs(), 120),
                kind,
            )
        )


def _detail(node: ast.AST, path: str) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.stmt):
        return path
    try:
        written = ast.unparse(node)
    except RecursionError:
        return path
    if len(written) > 60:
        return path
    last = path.rpartition(".")[2]
    return written if re.search(rf"\b{re.escape(last)}$", written) else f"{written} ({path})"


def _matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    compiled = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or r"(?!)")

    @lru_cache(maxsize=8192)
    def matches(path: str) -> bool:
        """Whether the path, or something it lies below, is one of the patterns."""
        for name in {path, canonical(path)}:
            parts = name.split(".")[:12]
            if any(compiled.match(".".join(parts[: i + 1])) for i in range(len(parts))):
                return True
        return False

    return matches


def _root(path: str) -> str:
    return path.split(".")[0]


def _methods(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield inner.name
