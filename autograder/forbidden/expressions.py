"""What an expression of learner code may stand for, and which library names it uses.

Calls are in `calls`, the walk over statements in `walk`; the three share one object, for a call may
run a text and an assignment may stand inside an expression.
"""

import ast
from collections.abc import Callable
from typing import Any

from .aliases import (
    ANY,
    GLOBALS,
    LIBRARY,
    UNKNOWN,
    Code,
    Dotted,
    Getter,
    Product,
    Scope,
    Text,
    Value,
    attribute,
    canonical,
    capped,
    fold_slice,
    owner,
    paths,
    text_value,
    texts,
)
from .steering import patches, reaches, steers

Used = Callable[[Value, ast.AST, int], None]  # value, node, cell
Doubt = Callable[[str, ast.AST, int], None]  # detail, node, cell
MATMUL: Value = frozenset([Dotted("torch.matmul")])  # what `@` does
SELVES = ("self", "cls", "ctx")
MAX_STEPS = 400_000  # some seconds; code that needs more is there to wear the reader down


class TooMuch(Exception):
    """The code is too large or too nested to follow."""


class Expressions:
    """State of one walk. `is_forbidden` tells which library names must not get lost."""

    def __init__(self, is_forbidden: Callable[[str], bool], is_root: Callable[[str], bool]) -> None:
        self.is_forbidden = is_forbidden
        self.is_root = is_root  # whether a forbidden name lies below this library name
        self.module = Scope()
        self.scope = self.module
        self.cell = 0
        self.patched: dict[str, Value] = {}
        self.used: Used | None = None  # set while reaching
        self.doubt: Doubt | None = None
        self.beneath: Doubt | None = None  # told of all that `steering` lists, reached or not
        self.queue: list[Code] = []
        self.seen: set[Code] = set()
        self.branches = 0
        self.at: ast.AST | None = None  # stands for all nodes of a text that is executed
        self.ran: set[Code] = set()
        self.codes: dict[ast.AST, Code] = {}
        self.parsed: dict[str, ast.Module | None] = {}
        self.elements: dict[ast.AST, list[Value]] = {}  # of list and tuple literals
        self.steps = 0

    def code(self, node: Any, defaults: dict[str, Value]) -> Code:
        """The piece of code a definition stands for: one for each place in the text, so that code
        that defines code that defines code comes to an end."""
        code = self.codes.setdefault(node, Code(node, self.scope, self.cell))
        code.scope, code.defaults, code.parts = self.scope.for_functions(), defaults, []
        return code

    def enqueue(self, value: Value) -> None:
        for atom in value:
            code = owner(atom)
            if code is not None and code not in self.seen:
                self.seen.add(code)
                self.queue.append(code)

    def use(self, value: Value, node: ast.AST, cell: int | None = None) -> None:
        if self.used is not None and value:
            self.enqueue(value)
            self.used(value, self.at or node, self.cell if cell is None else cell)

    def suspect(self, detail: str, node: ast.AST) -> None:
        if self.doubt is not None:
            self.doubt(detail, self.at or node, self.cell)

    def steer(self, detail: str, node: ast.AST) -> None:
        if self.beneath is not None:
            self.beneath(detail, self.at or node, self.cell)

    def notice(self, value: Value, node: ast.AST) -> Value:
        """`value`, which the name at `node` stands for; told if it leads beneath."""
        if self.beneath is not None:
            for atom in value:
                name = steers(atom.path) if isinstance(atom, Dotted) else None
                if name is not None:
                    self.steer(name, node)
        return value

    # --- binding ------------------------------------------------------------------------------

    def set(self, name: str, value: Value, node: ast.AST) -> None:
        scope = self.scope.outer.get(name, self.scope)
        if self.branches or (scope is self.module and self.used is not None):
            value |= scope.names.get(name, UNKNOWN)
        scope.names[name] = value
        scope.bound_at[name] = (self.at or node, self.cell)

    def bind(self, target: ast.expr, value: Value, source: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.set(target.id, value, source)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value, source)
        elif isinstance(target, ast.Tuple | ast.List):
            values = self.elements.get(source, [])
            if len(values) == len(target.elts) and isinstance(source, ast.Tuple | ast.List):
                for part, own, node in zip(target.elts, values, source.elts, strict=True):
                    self.bind(part, own, node)
            else:
                for part in target.elts:
                    self.bind(part, value, source)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.expr(target.value), [target.attr], value, source)
        elif isinstance(target, ast.Subscript):
            where = self.expr(target.value)
            for path in paths(where):
                if path.endswith(".__dict__") and patches(path):
                    self.steer(f"an assignment in {path}", source)
            if GLOBALS in where:
                self.set_global(self.expr(target.slice), value, source)
            elif isinstance(target.value, ast.Name) and where is not None:
                self.set(target.value.id, where | self.kept(value), source)
            self.use(value, source)

    def set_global(self, names: Value, value: Value, node: ast.AST) -> None:
        for name in texts(names):
            self.module.names[name] = value
            self.module.bound_at[name] = (self.at or node, self.cell)

    def set_attribute(self, whose: Value, names: list[str], value: Value, node: ast.AST) -> None:
        for atom in whose:
            if isinstance(atom, Dotted) and not atom.path.startswith("?"):
                for name in names or ["*"]:
                    path = canonical(f"{atom.path}.{name}")
                    if patches(path):
                        self.steer(f"an assignment to {path}", node)
                    self.patched[path] = self.patched.get(path, UNKNOWN) | value
            elif code := owner(atom):
                code.parts.append((value, self.at or node, self.cell))
        self.use(value, node)

    # --- expressions --------------------------------------------------------------------------

    def kept(self, value: Value) -> Value:
        """What survives inside a result: own code (it may have made anything), forbidden names."""
        found = {
            atom
            for atom in value
            if isinstance(atom, Code | Product | Getter)
            or (isinstance(atom, Dotted) and self.is_kept(atom.path))
        }
        return frozenset(found | {ANY} if any(map(owner, found)) else found)

    def is_kept(self, path: str) -> bool:
        return path == LIBRARY.path or self.is_table(path) or self.is_forbidden(path)

    def is_table(self, path: str) -> bool:
        """Whether a path is a dictionary in which forbidden names can be looked up."""
        if path.endswith(".__dict__"):
            return self.is_root(path.removesuffix(".__dict__")) or path == "sys.__dict__"
        return path == "sys.modules"

    def expr(self, node: ast.expr) -> Value:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooMuch
        match node:
            case ast.Constant(value=str(text)):
                return text_value(text)
            case ast.Name():
                value = self.scope.lookup(node.id)
                if self.used is not None:
                    self.enqueue(value)
                return self.notice(value, node)
            case ast.Attribute():
                return self.attribute(node)[1]
            case ast.Call():
                return self.call(node)
            case ast.Lambda():
                return frozenset([self.code(node, self.defaults(node.args))])
            case ast.NamedExpr():
                value = self.expr(node.value)
                self.bind(node.target, value, node.value)
                return value
            case ast.BinOp(op=ast.Add()):
                return self.added(self.expr(node.left), self.expr(node.right))
            case ast.BinOp(op=ast.MatMult()):
                self.use(MATMUL, node)
                return self.kept(self.expr(node.left) | self.expr(node.right))
            case ast.BinOp(op=ast.Mod()):
                return self.percent(self.expr(node.left), node.right)
            case ast.JoinedStr():
                parts = text_value("")
                for part in node.values:
                    inner = part.value if isinstance(part, ast.FormattedValue) else part
                    parts = self.added(parts, self.expr(inner))
                return parts
            case ast.Subscript():
                return self.subscript(node)
            case ast.Dict():
                for key in node.keys:
                    if key is not None:
                        self.expr(key)
                return frozenset(atom for value in node.values for atom in self.expr(value))
            case ast.Compare():
                for part in [node.left, *node.comparators]:
                    self.expr(part)
                return UNKNOWN
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node)
            case ast.IfExp(test=ast.Constant(value=constant)):
                return self.expr(node.body if constant else node.orelse)
            case ast.IfExp():
                self.expr(node.test)
                return self.expr(node.body) | self.expr(node.orelse)
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                value = self.expr(node.value) if node.value is not None else UNKNOWN
                self.use(value, node)
                return value
        children = [self.expr(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
        found = frozenset(atom for value in children for atom in value)
        self.steps += 4 * len(found)  # what a long chain of `*x` gathers is work, too
        if isinstance(node, ast.Tuple | ast.List):
            self.elements[node] = children
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.BoolOp | ast.Starred):
            return found
        return self.kept(found)

    def attribute(self, node: ast.Attribute) -> tuple[Value, Value]:
        """What `node.value` and `node` stand for."""
        whose = self.expr(node.value)
        if reaches(node.attr):
            self.steer(node.attr, node)
        if not whose and isinstance(node.value, ast.Name) and node.value.id in SELVES:
            return whose, UNKNOWN  # a method or an attribute of the learner's own class
        return whose, self.notice(attribute(whose, node.attr, self.patched), node)

    def comprehension(self, node: Any) -> Value:
        before = self.scope
        self.scope = Scope(before)
        try:
            for part in node.generators:
                self.bind(part.target, self.expr(part.iter), part.iter)
                for test in part.ifs:
                    self.expr(test)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            found: set = set()
            for part in parts:
                found |= self.expr(part)
            return frozenset(found)
        finally:
            self.scope = before

    def added(self, left: Value, right: Value) -> Value:
        joined = {a + b for a in texts(left)[:9] for b in texts(right)[:9]}
        return text_value(*joined) | self.kept(left | right)

    def percent(self, left: Value, right: ast.expr) -> Value:
        parts = right.elts if isinstance(right, ast.Tuple) else [right]
        options = [texts(self.expr(part)) for part in parts]
        if len(texts(left)) != 1 or any(len(option) != 1 for option in options):
            return UNKNOWN
        try:
            return text_value(texts(left)[0] % tuple(option[0] for option in options))
        except (TypeError, ValueError, MemoryError, OverflowError):
            return UNKNOWN

    def subscript(self, node: ast.Subscript) -> Value:
        value = self.expr(node.value)
        key = self.expr(node.slice) if not isinstance(node.slice, ast.Slice) else UNKNOWN
        return fold_slice(value, node) | self.item(value, key, node)

    def item(self, value: Value, key: Value, node: ast.AST) -> Value:
        """`value[key]`: the dictionary behind a module, sys.modules, globals(), or a container."""
        found: set = set()
        for atom in value:
            path = atom.path if isinstance(atom, Dotted) else ""
            if path == "sys.modules" or path.endswith(".__dict__") or atom == GLOBALS:
                if not texts(key) and self.is_table(path):
                    self.suspect("a library looked up by a name made at run time", node)
                    found.add(LIBRARY)
                for name in texts(key):
                    found |= self.notice(self.named(path, name), node)
            elif not (isinstance(atom, Text) and isinstance(node, ast.Subscript)):
                found.add(atom)
        return capped(found)

    def named(self, path: str, name: str) -> Value:
        if path == GLOBALS.path:
            return self.module.lookup(name)
        if path == "sys.modules":
            return frozenset([Dotted(name)])
        base = frozenset([Dotted(path.removesuffix(".__dict__"))])
        return attribute(base, name, self.patched)
