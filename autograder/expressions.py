"""What an expression of learner code may stand for, and which library names it uses.

The walk over statements is in `walk`; the two share one object, for a call may run a text and an
assignment may stand inside an expression.
"""

import ast
from collections.abc import Callable
from typing import Any

from .aliases import (
    GLOBALS,
    UNKNOWN,
    Code,
    Dotted,
    Getter,
    Scope,
    Text,
    Value,
    attribute,
    canonical,
    capped,
    fold_method,
    fold_slice,
    paths,
    text_value,
    texts,
)
from .magics import parse

# Calls that look at a function without running it.
_HARMLESS = {
    "builtins.isinstance", "builtins.issubclass", "builtins.hasattr", "builtins.type",
    "builtins.id", "builtins.print", "builtins.repr", "builtins.help", "builtins.callable",
    "functools.wraps", "functools.update_wrapper", "inspect.signature", "inspect.getdoc",
}  # fmt: skip
_GETATTR = {"builtins.getattr", "inspect.getattr_static", "builtins.object.__getattribute__"}
_IMPORT = {"importlib.import_module", "importlib.__import__", "builtins.__import__"}
_RUN = {"builtins.eval", "builtins.exec", "builtins.compile"}

Used = Callable[[Value, ast.AST, int], None]  # value, node, cell
Doubt = Callable[[str, ast.AST, int], None]  # detail, node, cell
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
            if isinstance(atom, Code) and atom not in self.seen:
                self.seen.add(atom)
                self.queue.append(atom)

    def use(self, value: Value, node: ast.AST, cell: int | None = None) -> None:
        if self.used is not None and value:
            self.enqueue(value)
            self.used(value, self.at or node, self.cell if cell is None else cell)

    def suspect(self, detail: str, node: ast.AST) -> None:
        if self.doubt is not None:
            self.doubt(detail, self.at or node, self.cell)

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
            if GLOBALS in where:
                self.set_global(self.expr(target.slice), value, source)
            elif isinstance(target.value, ast.Name) and where is not None:
                self.set(target.value.id, where | self.kept(value), source)
            self.use(value, source)

    def set_global(self, names: Value, value: Value, node: ast.AST) -> None:
        for name in texts(names):
            self.module.names[name] = value
            self.module.bound_at[name] = (self.at or node, self.cell)

    def set_attribute(self, owner: Value, names: list[str], value: Value, node: ast.AST) -> None:
        for atom in owner:
            if isinstance(atom, Code):
                atom.parts.append((value, self.at or node, self.cell))
            elif isinstance(atom, Dotted):
                for name in names:
                    path = canonical(f"{atom.path}.{name}")
                    self.patched[path] = self.patched.get(path, UNKNOWN) | value
        self.use(value, node)

    # --- expressions --------------------------------------------------------------------------

    def kept(self, value: Value) -> Value:
        """What survives inside a result: own code and forbidden names."""
        return frozenset(
            atom
            for atom in value
            if isinstance(atom, Code | Getter)
            or (isinstance(atom, Dotted) and self.is_forbidden(atom.path))
        )

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
                return value
            case ast.Attribute():
                return attribute(self.expr(node.value), node.attr, self.patched)
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
        if isinstance(node, ast.Tuple | ast.List):
            self.elements[node] = children
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.BoolOp | ast.Starred):
            return found
        return self.kept(found)

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
                if not texts(key) and self.is_root(path.removesuffix(".__dict__")):
                    self.suspect("a library looked up by a name made at run time", node)
                for name in texts(key):
                    found |= self.named(path, name)
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

    # --- calls --------------------------------------------------------------------------------

    def defaults(self, arguments: ast.arguments) -> dict[str, Value]:
        plain = [*arguments.posonlyargs, *arguments.args]
        late = plain[len(plain) - len(arguments.defaults) :]
        pairs = list(zip(late, arguments.defaults, strict=True))
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return {a.arg: self.expr(default) for a, default in pairs if default is not None}

    def call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute):
            receiver = self.expr(node.func.value)
            function = attribute(receiver, node.func.attr, self.patched)
        else:
            receiver, function = UNKNOWN, self.expr(node.func)
        values = [self.expr(argument) for argument in node.args]
        named = {keyword.arg: self.expr(keyword.value) for keyword in node.keywords}
        called = [canonical(path) for path in paths(function)]
        if not any(path in _HARMLESS for path in called):
            self.use(function, node.func)
            pairs = [*zip(node.args, values, strict=True)]
            pairs += [(keyword.value, named[keyword.arg]) for keyword in node.keywords]
            for argument, value in pairs:
                self.use(self.kept(value), argument)
        if not function:
            self.use(frozenset([Dotted("<unknown>")]), node.func)
        special = self.special(called, function, receiver, values, named, node)
        if special is not None:
            return special
        if self.used is None:
            self.run_globals(function)
        result = UNKNOWN
        for value in [*values, *named.values()]:
            result |= self.kept(value)
        made = {  # an instance of a forbidden class, or the result of own code
            atom
            for atom in self.kept(function)
            if not isinstance(atom, Dotted) or atom.path.rpartition(".")[2][:1].isupper()
        }
        return result | made

    def special(
        self,
        called: list[str],
        function: Value,
        receiver: Value,
        values: list[Value],
        named: dict[str | None, Value],
        node: ast.Call,
    ) -> Value | None:
        """The result of a call whose meaning is known, or None."""
        if isinstance(node.func, ast.Attribute) and texts(receiver):
            if node.func.attr == "join" and len(node.args) == 1:
                return self.join(receiver, node.args[0])
            folded = fold_method(receiver, node.func.attr, values)
            if folded is not None:
                return folded
        for atom in function:
            if isinstance(atom, Getter) and values:
                found = self.getattr(values[0], text_value(atom.text), node)
                self.use(found, node)
                return found
        for path in called:
            base, _, method = path.rpartition(".")
            first = values[0] if values else UNKNOWN
            if path in _GETATTR and len(values) >= 2:
                return self.getattr(first, values[1], node) | (values[2] if values[2:] else UNKNOWN)
            if method in ("__getattribute__", "__getattr__") and values:
                return self.getattr(frozenset([Dotted(base)]), first, node)
            if path == "builtins.setattr" and len(values) == 3:
                self.set_attribute(first, texts(values[1]), values[2], node.args[2])
                return UNKNOWN
            if path in ("builtins.globals", "builtins.locals", "builtins.vars") and not values:
                return frozenset([GLOBALS])
            if path == "builtins.vars":
                return attribute(first, "__dict__", self.patched)
            if base == GLOBALS.path and method in ("update", "__setitem__"):
                for name, value in named.items():
                    self.set_global(text_value(name or ""), value, node)
                if values[1:]:
                    self.set_global(first, values[1], node)
                return UNKNOWN
            if base == GLOBALS.path or base == "sys.modules" or base.endswith(".__dict__"):
                if method in ("get", "pop", "__getitem__", "setdefault"):
                    return self.item(frozenset([Dotted(base)]), first, node)
                if method in ("items", "values") and self.is_root(base.removesuffix(".__dict__")):
                    self.suspect("a library searched at run time", node)
            if path in _IMPORT:
                return self.imported(path, values, named, node)
            if path in _RUN:
                return self.executed(path, first, node)
            if path in ("operator.attrgetter", "operator.methodcaller"):
                return frozenset(Getter(text) for text in texts(first))
            if path == "builtins.str" and texts(first):
                return first
            if base == "ctypes" or base.startswith("ctypes."):
                self.suspect("ctypes", node)
        return None

    def join(self, receiver: Value, listed: ast.expr) -> Value | None:
        if len(texts(receiver)) != 1 or not isinstance(listed, ast.List | ast.Tuple):
            return None
        options = [texts(value) for value in self.elements.get(listed, [])]
        if any(len(option) != 1 for option in options):
            return UNKNOWN
        return text_value(texts(receiver)[0].join(option[0] for option in options))

    def getattr(self, owner: Value, name: Value, node: ast.AST) -> Value:
        found: set = set()
        for text in texts(name):
            value = owner
            for part in text.split("."):
                value = attribute(value, part, self.patched)
            found |= value
        if not texts(name) and any(self.is_root(path) for path in paths(owner)):
            self.suspect("getattr on a library with a name made at run time", node)
        return capped(found)

    def imported(
        self, path: str, values: list[Value], named: dict[str | None, Value], node: ast.Call
    ) -> Value:
        names = texts(values[0] if values else named.get("name", UNKNOWN))
        if not names:
            self.suspect("an import of a name made at run time", node)
        package = texts(values[1] if values[1:] else named.get("package", UNKNOWN))
        found = set()
        for name in names:
            if name.startswith(".") and package:
                name = f"{package[0]}.{name.lstrip('.')}"
            elif path.endswith("__import__") and not (values[3:] or "fromlist" in named):
                name = name.split(".")[0]
            found.add(Dotted(name))
        return capped(found)

    def executed(self, path: str, source: Value, node: ast.Call) -> Value:
        """exec and eval of a known text is code like any other; of anything else, a doubt."""
        result = UNKNOWN
        if not texts(source) or self.at is not None:
            self.suspect(path.removeprefix("builtins."), node)
            return UNKNOWN
        for text in texts(source):
            if text not in self.parsed:
                self.parsed[text] = parse(text.strip())
            tree = self.parsed[text]
            if tree is None:
                continue
            if path == "builtins.compile":
                result |= text_value(text)
                continue
            self.at = node
            for statement in tree.body:
                if isinstance(statement, ast.Expr):
                    value = self.expr(statement.value)
                    result |= value
                    self.use(self.kept(value), node)
                else:
                    self.statement(statement)
            self.at = None
        return result

    def run_globals(self, function: Value) -> None:
        """A function called at module level may rebind module names by `global`."""
        for atom in function:
            if not isinstance(atom, Code) or atom in self.ran or len(self.ran) > 200:
                continue
            self.ran.add(atom)
            if any(isinstance(inner, ast.Global) for inner in ast.walk(atom.node)):
                cell, branches = self.cell, self.branches
                self.cell, self.branches = atom.cell, 0
                self.enter(atom)
                self.cell, self.branches = cell, branches
