"""Finds library calls that an exercise asks to write by hand, by reading the code.

A call counts for a graded name only where that name leads to it: in its own definition, or in the
functions, classes, aliases and bases it reaches. A comparison with the library in a cell of the
learner's own is welcome. What the text proves is a "forbidden-call"; what it hides (exec of
a text made at run time, getattr with a name that is not known) is "suspicious", for a person, and
so is what reaches beneath the learner's code (see `steering`), wherever it stands.
"""

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from ..magics import parse
from ..notebook import one_line
from ..submission import Cell
from . import host
from .aliases import LIBRARY, MADE, UNKNOWN, Value, owner, paths
from .expressions import SELVES
from .loops import beyond_the_first
from .patterns import compiled
from .reached import missing
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
    kind: Literal["forbidden-call", "not-reached", "outside-kernel", "suspicious"] = (
        "forbidden-call"
    )

    @property
    def place(self) -> tuple[int, int]:
        return self.cell_index, self.line


def not_reached(
    cells: Sequence[Cell], graded_names: Iterable[str], needed: Sequence[str]
) -> list[Finding]:
    """Exercises that lead to none of the names `needed`; `find` tells what they must not reach."""
    by_index = {cell.index: cell for cell in cells}
    return [
        _finding(name, "not-reached", " or ".join(needed), by_index[index], line)
        for name, index, line in missing(cells, graded_names, needed)
    ]


def second_loops(cells: Sequence[Cell], graded_names: Collection[str]) -> list[Finding]:
    """Exercises that loop more than once and ask for one look at each number: for a person."""
    by_index = {cell.index: cell for cell in cells}
    return [
        _finding(name, "suspicious", "a second loop", by_index[index], line)
        for name, index, line in beyond_the_first(cells, graded_names)
    ]


def outside_kernels(
    cells: Sequence[Cell], graded_names: Collection[str], stubs: Sequence[str]
) -> list[Finding]:
    """Exercises that compute with tensors outside of their kernels, and doubts: see `host`.

    stubs: sources of the released cells, whose annotations say what is a tensor.
    """
    if not graded_names:
        return []
    called = host.arguments(stubs, graded_names)
    findings: dict[str, list[Finding]] = {name: [] for name in graded_names}
    try:
        told = host.outside_kernels(cells, called)
    except Exception:  # a defect of ours: a person looks, and the submission is graded
        told = [(name, "suspicious", "host code that cannot be followed", -1, 1) for name in called]
    for name, kind, detail, position, line in told:
        findings[name].append(_finding(name, kind, detail, cells[position], line))
    return [finding for found in findings.values() for finding in _first(found)]


def find(
    cells: Sequence[Cell], graded_names: Iterable[str], patterns: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """All forbidden and suspicious calls, by exercise, cell and line. Never raises on learner code.

    Args:
        cells: what is executed, in order, given cells included (they bind `F`, `nn`, ...).
        patterns: for each graded name, dotted names with `*` wildcards; a pattern also covers what
            lies below it, and `torch.Tensor.var` the call `anything.var()`.
    """
    every = compiled(frozenset(pattern for listed in patterns.values() for pattern in listed))
    trees = [cell.tree or parse(cell.source) for cell in cells]
    methods = {name for tree in trees if tree is not None for name in _methods(tree)}
    walker = Walker(lambda path: every.match(path) or every.hint(path), every.is_root)
    beneath: set[tuple[int, int, str]] = set()  # cell, line, detail
    walker.beneath = lambda detail, node, cell: beneath.add((cell, _line(node), detail))
    for position, tree in enumerate(trees):
        if tree is not None:
            walker.run(position, tree)
    found: dict[str, list[Finding]] = {}
    for name in graded_names:
        found[name] = []
        if patterns.get(name):
            search = _Search(name, patterns[name], cells, walker, methods)
            found[name] = _without_earlier(search, found)
    walker.reach_all()
    told = {f.place for findings in found.values() for f in findings if f.kind == "suspicious"}
    for finding in _beneath(beneath, cells, list(found)):
        if finding.place not in told:
            found[finding.exercise].append(finding)
    return [finding for findings in found.values() for finding in _first(findings)]


def _first(findings: Iterable[Finding]) -> list[Finding]:
    """As many as a person reads, in order. What is proven is not pushed out by what is not."""
    return sorted(sorted(findings, key=lambda f: (f.kind, f))[:MAX_FINDINGS])


def _beneath(
    told: Set[tuple[int, int, str]], cells: Sequence[Cell], graded_names: Sequence[str]
) -> Iterable[Finding]:
    """What reaches beneath in cells of the learner's own: each name once a cell, at its first line.

    It counts for the exercise of its cell, elsewhere for the first one.
    """
    seen = set()
    for position, line, detail in sorted(told):
        cell = cells[position]
        if cell.origin == "given" or (position, detail) in seen or not graded_names:
            continue
        seen.add((position, detail))
        name = cell.grade_id if cell.grade_id in graded_names else graded_names[0]
        yield _finding(name, "suspicious", detail, cell, line)


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
        self.patterns = compiled(frozenset(patterns))
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
        return _first(self.findings)

    def used(self, value: Value, node: ast.AST, cell: int) -> None:
        named = node.id if isinstance(node, ast.Name) and node.id in self.stop else None
        if named is not None and value == self.walker.module.names.get(named):
            self.by_name.add((self.cells[cell].index, node.lineno))
            return
        for path in paths(value):
            if path == LIBRARY.path:
                self.doubt("a library name chosen at run time", node, cell)
            elif path.startswith("?.") and path[2:] in self.methods:
                if self.patterns.match(path) and not self.is_own_method(path[2:], value, node):
                    self.doubt(f"{_detail(node, path[2:])}, if it is not your own", node, cell)
            elif self.patterns.match(path):
                self.add("forbidden-call", _detail(node, path), node, cell)
            elif self.patterns.hint(path):
                self.doubt(_detail(node, path[2:]), node, cell)

    def is_own_method(self, name: str, value: Value, node: ast.AST) -> bool:
        """Whether `x.name` belongs to a class of the learner's, as far as the text tells."""
        codes = filter(None, map(owner, value))
        if any(name in _methods(ast.Module([code.node], [])) for code in codes):
            return True
        while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and node.id in SELVES

    def doubt(self, detail: str, node: ast.AST, cell: int) -> None:
        self.add("suspicious", detail, node, cell)

    def add(self, kind: str, detail: str, node: ast.AST, cell: int) -> None:
        self.findings.add(_finding(self.name, kind, detail, self.cells[cell], _line(node)))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def _finding(exercise: str, kind: str, detail: str, cell: Cell, line: int) -> Finding:
    lines = cell.source.split("\n")
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    text = one_line(text.strip().expandtabs(), 120)
    return Finding(exercise, cell.index, line, one_line(detail, 120), text, kind)


def _detail(node: ast.AST, path: str) -> str:
    """The name as written, and what it stands for where that does not show."""
    path = path.replace(MADE, "")
    if path.startswith("?."):
        path = "torch.Tensor" + path[1:]
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


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # where statements hold others


def _methods(tree: ast.Module) -> Iterable[str]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for inner in [inner for block in _BLOCKS for inner in getattr(node, block, ())]:
            waiting.append(inner)
            is_method = isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_method and isinstance(node, ast.ClassDef):
                yield inner.name
