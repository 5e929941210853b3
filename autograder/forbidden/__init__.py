"""Reads the code for what a person should look at. It costs nobody a point.

What an exercise asks to write by hand is refused while it runs (`deny`). This reader looks for
names that lead beneath the learner's own code, where that could be switched off or gone round. It
reads each name by itself, wherever it stands: no folding, no flow, no types.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ..reading.magics import parse
from ..reading.notebook import one_line
from ..reading.submission import Cell
from ..worker.attributes import asked_of_getattr
from ..worker.beneath import MODULES, PATCHED, WORDS, patches, words
from .kernels import beside_triton
from .loops import beyond_one_loop
from .names import EVERYDAY, TEXT, WHOLE

MAX_FINDINGS = 20  # for each notebook
MAX_NODES = 200_000  # a notebook of ours has 3,000


@dataclass(frozen=True, order=True)
class Finding:
    """One line for a person to look at.

    exercise: the graded name that its cell defines, else the first one. cell_index: `Cell.index`.
    line: in its cell, from 1. detail: the name, or what is odd.
    """

    exercise: str
    cell_index: int
    line: int
    detail: str


def find(
    cells: Sequence[Cell], graded_names: Sequence[str], one_loop: Collection[str] = ()
) -> list[Finding]:
    """What a person should look at, in order. Never raises on learner code.

    one_loop: the exercises whose answer takes one loop.
    """
    found: dict[tuple[int, str], Finding] = {}  # each name once a cell, at its first line
    left = MAX_NODES
    trees = [(c, c.tree or parse(c.source)) for c in cells if c.origin != "given"]
    rebound = frozenset(name for _, tree in trees if tree for name in _bound(tree))
    for cell, tree in trees:
        if tree is None:
            continue
        name = _exercise(cell, graded_names)
        reader = _Reader(left, rebound)
        for detail, line in sorted(reader.read(tree), key=lambda pair: pair[1]):
            found.setdefault((cell.index, detail), finding(name, detail, cell, line))
        left = reader.left
    by_index = {cell.index: cell for cell in cells}
    loops = [
        finding(name, detail, by_index[index], line)
        for name, detail, index, line in beyond_one_loop(cells, one_loop)
    ]
    for detail, index, line in beside_triton([c for c in cells if c.origin != "given"]):
        cell = by_index[index]
        name = _exercise(cell, graded_names)
        found.setdefault((index, detail), finding(name, detail, cell, line))
    return sorted([*found.values(), *loops])[:MAX_FINDINGS]


def _exercise(cell: Cell, graded_names: Sequence[str]) -> str:
    """The exercise that a finding in `cell` is shown with."""
    name = cell.grade_id
    return name if name is not None and name in graded_names else graded_names[0]


def finding(exercise: str, detail: str, cell: Cell, line: int) -> Finding:
    """A finding at this line of the cell."""
    return Finding(exercise, cell.index, line, one_line(detail, 120))


Found = Iterator[tuple[str, int]]  # detail and line


@dataclass
class _Reader:
    """Reads one cell. `left`: how many nodes may still be looked at."""

    left: int
    rebound: frozenset[str] = frozenset()  # names that the notebook gives a meaning of its own
    aliases: dict[str, str] = field(default_factory=lambda: dict(_USUAL))
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    quoted: bool = False  # it reads a text that is run, not a cell

    def read(self, tree: ast.AST, line: int = 0) -> Found:
        """What is found in the tree. line: where it stands, of a text that is run."""
        nodes = []
        for node in ast.walk(tree):
            self.left -= 1
            if self.left < 0:
                yield "more code than can be looked through", line or 1
                return
            nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.aliases |= _imported(node)
            elif isinstance(node, ast.Assign):
                self.alias(node)
        for node in nodes:
            at = line or getattr(node, "lineno", 1)
            for detail in self.look_at(node, at):
                yield detail, at

    def look_at(self, node: ast.AST, line: int) -> Iterator[str]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for path in _imported(node).values():
                yield from _in_path(path)
            yield from _odd_import(node)
        elif isinstance(node, ast.Name):
            yield from self.name(node)
        elif isinstance(node, ast.Attribute):
            yield from self.attribute(node)
        elif isinstance(node, ast.MatchClass):
            yield from (n for n in node.kwd_attrs if n in WORDS or n in ("__dict__", "modules"))
            if node.patterns and not _is_plain(node.cls):
                yield "a pattern whose class says which attributes it takes"
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arg):
            name = node.arg if isinstance(node, ast.arg) else node.name
            yield from [name] if name in WORDS and name.startswith("_") else []
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value in WORDS and "_" in node.value:
                compared = isinstance(self.parents.get(node), ast.Compare)  # `__name__ ==` it
                yield from [] if node.value == "__main__" and compared else [node.value]
        elif isinstance(node, ast.Call):
            yield from self.call(node, line)

    def name(self, node: ast.Name) -> Iterator[str]:
        if node.id in WORDS and not (node.id == "__import__" and self.called(node)):
            yield node.id
        path = self.aliases.get(node.id, "")
        if path and path != node.id:
            yield from _in_path(path)
        if path == "sys.modules" and not self.only_names(node):
            yield path
        handed_on = isinstance(node.ctx, ast.Load) and not self.called(node)
        if handed_on and node.id in _HANDED_ON:
            yield f"{node.id}, handed on"

    def called(self, node: ast.AST) -> bool:
        parent = self.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def alias(self, node: ast.Assign) -> None:
        """Another name for what an import binds, as in `t = torch`."""
        for target in node.targets:
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Name | ast.Attribute):
                path = self.path(node.value)
                if path.partition(".")[0] in ("torch", "sys", "pickle", "importlib"):
                    self.aliases.setdefault(target.id, path)

    def attribute(self, node: ast.Attribute) -> Iterator[str]:
        of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        # In cells these are asked of `beneath.guarded_getattr`.
        asked = not self.quoted and asked_of_getattr(node)
        if node.attr in _LOOKED_AT and not self.called(node) and self.only_shown(node):
            return  # whether there is one
        if node.attr in WORDS and not asked:
            yield node.attr
        elif node.attr == "__dict__" and self.quoted:
            yield "__dict__"
        elif node.attr == "modules" and not self.only_names(node):
            yield "sys.modules"
        path = self.path(node)
        yield from () if asked else _in_path(path)
        if node.attr == "import_module" and not self.called(node):
            yield "import_module, handed on"
        if not isinstance(node.ctx, ast.Load):
            if patches(path):
                yield f"an assignment to {path}"
            elif node.attr.startswith("_") and not of_self and node.attr not in _TOLD_BY:
                yield f"an assignment to .{node.attr}"

    def call(self, node: ast.Call, line: int) -> Iterator[str]:
        path = self.path(node.func)
        last = path.rpartition(".")[2]
        first = node.args[0] if node.args else None
        if path in TEXT:
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield from self.text(first.value, line)
            else:
                yield f"{path} of a text made at run time"
        elif last in ("timeit", "repeat", "Timer") and isinstance(first, ast.Constant | ast.BinOp):
            if isinstance(first, ast.Constant):
                yield from self.text(str(first.value), line)
            else:
                yield f"{path} of a text made at run time"
        elif last == "import_module" or path == "__import__":
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield from _in_path(first.value)
            else:
                yield "an import of a name made at run time"
        elif path in ("globals", "locals") and not self.only_named(node):
            yield f"{path}() with names made at run time"
        elif path in ("setattr", "delattr") and first is not None:
            if patches(self.path(first) + "."):
                yield f"an assignment to {self.path(first)}"
        elif path == "super" and first is not None and PATCHED.search(self.path(first)):
            yield f"super of {self.path(first)}"

    def only_named(self, node: ast.AST) -> bool:
        """Whether of a dictionary only what the text names is taken, or something put into it."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return isinstance(parent.slice, ast.Constant)
        if isinstance(parent, ast.Dict):  # a copy of it
            parent = self.parents.get(parent)
        if isinstance(parent, ast.keyword):
            return parent.arg is None or parent.arg in ("globals", "locals")
        if isinstance(parent, ast.Attribute) and parent.attr in ("get", "pop", "setdefault"):
            call = self.parents.get(parent)
            return isinstance(call, ast.Call) and all(
                isinstance(key, ast.Constant) for key in call.args[:1]
            )
        if isinstance(parent, ast.Attribute) and parent.attr in ("update", "keys"):
            return True
        return self.only_shown(node)

    def text(self, source: str, line: int) -> list[str]:
        """What is found in a text that is run in this line."""
        tree, before, self.quoted = parse(source), self.quoted, True
        found = [detail for detail, _ in self.read(tree, line)] if tree else []
        self.quoted = before
        return found

    def only_names(self, node: ast.AST) -> bool:
        """Whether of sys.modules only the names are looked at, or it is not sys.modules at all."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Attribute):
            if parent.attr != "keys":
                return not hasattr(dict, parent.attr)  # nn.modules.batchnorm
            node = self.parents.get(parent, parent)
            parent = self.parents.get(node)
        if isinstance(parent, ast.Compare):
            asks = all(isinstance(op, ast.In | ast.NotIn) for op in parent.ops)
            return asks and parent.left is not node
        if isinstance(parent, ast.For | ast.comprehension):
            return parent.iter is node
        return self.called(node)  # of an nn.Module

    def path(self, node: ast.AST) -> str:
        """The dotted name that the text spells, with what its first part was imported as."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            asked = asked_of_getattr(node) and not self.quoted
            parts.append("?" if asked or node.attr in _LOOKED_AT else node.attr)
            node = node.value
        start = self.aliases.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
        return ".".join([start, *reversed(parts)])

    def only_shown(self, node: ast.AST) -> bool:
        """Whether a value, or the name of a node of autograd, is only printed or compared."""
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if isinstance(parent, ast.Call) and parent.func is not child:
                if self.path(parent.func) not in _SHOWS - self.rebound:
                    return False
            elif isinstance(parent, ast.Attribute):
                if parent.attr not in ("keys", "next_functions", "name"):
                    return False
            elif isinstance(parent, ast.Subscript):
                if parent.value is not child:
                    return False
            elif isinstance(parent, ast.Compare):
                return all(isinstance(op, _ASKS) for op in parent.ops)
            elif isinstance(parent, ast.Expr | ast.FormattedValue):
                return True
            elif not isinstance(parent, ast.Call):
                return False
            child, parent = parent, self.parents.get(parent)
        return False


_ASKS = (ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
# As notebooks of the course import them, and nearly everybody.
_USUAL: Mapping[str, str] = {"nn": "torch.nn", "F": "torch.nn.functional"}


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import binds, and what they stand for."""
    if isinstance(node, ast.ImportFrom):
        return {a.asname or a.name: f"{node.module or ''}.{a.name}" for a in node.names}
    bound = {a.asname: a.name for a in node.names if a.asname}
    return bound | {a.name: a.name for a in node.names if not a.asname}


def _odd_import(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """What an import brings that no exercise needs, and that may hold anything."""
    if isinstance(node, ast.ImportFrom) and node.level:
        yield "an import from the package of the code itself"
        return
    module = getattr(node, "module", None)
    for path in [module] if module else [a.name for a in node.names]:
        root, _, inner = path.partition(".")
        odd = (root not in EVERYDAY and _is_there(root)) or (
            root == "torch" and _PRIVATE.search(inner)
        )
        if odd and not any(_in_path(path)):
            yield f"import of {path}"
    if module and node.names[0].name == "*" and not WHOLE.search(module):
        yield f"import of everything in {module}"


def _bound(tree: ast.AST) -> Iterator[str]:
    """The names of `_SHOWS` that are given a meaning, in whatever way a text can tell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.alias):
            yield node.asname or ""
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _SHOWS
        ):
            yield node.value


@cache
def _is_there(root: str) -> bool:
    """Whether a package can be imported at all. Runs nothing of it."""
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        return importlib.util.find_spec(root) is not None
    return False


def _is_plain(node: ast.AST) -> bool:
    """Whether the class of a pattern is one that takes the value itself, as in `case int(n)`."""
    return isinstance(node, ast.Name) and node.id in _PLAIN


_PLAIN = words("bool bytearray bytes dict float frozenset int list set str tuple")
_HANDED_ON = TEXT | {"import_module", "globals", "locals"}
_LOOKED_AT = words("grad_fn next_functions __annotations__")
_SHOWS = words("print display len sorted list")  # functions, where nobody has made them his own
_TOLD_BY = words("""
    __name__ __doc__ __qualname__ __module__ __version__ __repr__ __str__ __format__
""")
_PRIVATE = re.compile(r"(?:^|\.)_(?!dynamo(?:\.config)?$)")


def _in_path(path: str) -> Iterator[str]:
    """What a dotted name leads to, beneath the learner's code."""
    yield from (part for part in path.split(".") if part in WORDS)
    yield from (name for name in MODULES if path == name or path.startswith(name + "."))
